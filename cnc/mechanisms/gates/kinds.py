"""The conditions that gates may be in, beside those of all ports."""

from __future__ import annotations

from enum import StrEnum


class Kind(StrEnum):
    """The kinds of conditions."""

    GATE_MARGIN = "gate-margin"  # gates open later than the plan allows
    CONTROL_RATE = "control-rate"  # control sends more than the plan allows for
    STARVED = "starved"  # a scheduled class has a backlog and sends nothing
