"""Talker offsets, as the controller registers them."""

from __future__ import annotations

from cnc.mechanism import Registered
from cnc.mechanisms.talker_offsets.measured import MEASURED

MECHANISM = Registered(name="talker_offsets", measured=MEASURED)
