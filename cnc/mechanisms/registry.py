"""The mechanisms of bridged networks, in the order in which what they do is told and compared; a
new one is a folder beside and a line here."""

from __future__ import annotations

from typing import Any

from cnc.mechanism import Mechanism, Watched
from cnc.mechanisms.frer.registration import FRER
from cnc.mechanisms.identification.registration import IDENTIFICATION
from cnc.mechanisms.stream_filters.registration import STREAM_FILTERS

MECHANISMS: tuple[Mechanism[Any], ...] = (IDENTIFICATION, FRER, STREAM_FILTERS)

WATCHED: tuple[Watched, ...] = tuple(each.watched for each in reversed(MECHANISMS) if each.watched)
"""What the mechanisms count that count anything, in the order in which frames come to them."""
