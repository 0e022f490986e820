"""The mechanisms of bridged networks, in the order in which what they do is told and compared; a
new one is a folder beside and a line here."""

from __future__ import annotations

from typing import Any

from cnc.mechanism import Mechanism
from cnc.mechanisms.frer.registration import FRER
from cnc.mechanisms.identification.registration import IDENTIFICATION
from cnc.mechanisms.stream_filters.registration import STREAM_FILTERS

MECHANISMS: tuple[Mechanism[Any], ...] = (IDENTIFICATION, FRER, STREAM_FILTERS)
