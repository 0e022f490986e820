"""Frames on their way, with what mechanisms do to them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from cnc.account.frames import Transmission
from cnc.account.openings import GateCycle, Openings
from cnc.account.travel import Travel
from cnc.account.violation import Violation
from cnc.check.mechanisms import added_octets, drops_misfits
from cnc.check.paths import transmissions_of
from cnc.model import Intent, Plan, PortRef


def judge_streams(
    plan: Plan, lists: Mapping[PortRef, GateCycle]
) -> tuple[list[Transmission], list[Violation]]:
    """The transmissions of all paths whose route is sound, and what is wrong with any."""
    return transmissions_of(plan, travel_through(plan.intent, lists))


def travel_through(intent: Intent, lists: Mapping[PortRef, Openings]) -> Travel:
    """How frames travel in the network of an intent."""
    return Travel.through(intent, lists, partial(drops_misfits, intent), added_octets)
