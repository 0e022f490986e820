"""Frames on their way, with what mechanisms do to them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from cnc.account.frames import Transmission, transmissions_of
from cnc.account.openings import GateCycle
from cnc.account.violation import Violation
from cnc.check.mechanisms import added_octets, drops_misfits
from cnc.model import Plan, PortRef


def judge_streams(
    plan: Plan, lists: Mapping[PortRef, GateCycle]
) -> tuple[list[Transmission], list[Violation]]:
    """The transmissions of all paths whose route is sound, and what is wrong with any."""
    return transmissions_of(plan, lists, partial(drops_misfits, plan.intent), added_octets)
