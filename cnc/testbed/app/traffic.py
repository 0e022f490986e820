"""Send flows through a lab, and judge what became of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cnc.mechanisms.exceeded import exceeded
from cnc.model import Plan
from cnc.support.lazy import lazy_import
from cnc.testbed.lab.platform import Platform
from cnc.testbed.traffic import measure, recording
from cnc.testbed.traffic.report import TrafficReport

if TYPE_CHECKING:
    from cnc import rollout
    from cnc.testbed.lab import Lab
    from cnc.testbed.traffic.flows import AnyFlow
else:
    rollout = lazy_import("cnc.rollout")


def send(
    lab: Lab,
    plan: Plan,
    flows: Sequence[AnyFlow],
    send_ns: int,
    directory: Path,
    *,
    stamps: bool | Collection[str] = False,
) -> TrafficReport:
    """Send for so long, with the record of every frame in a directory. `stamps`: also of when they
    enter and leave a talker's queue, of all flows or of those with these names.

    Raises CncError where an end station's program fails, InputError where a name is no flow's.
    """
    record = recording.run(lab, flows, send_ns, directory, stamps=stamps)
    found = measure.summarise(
        plan,
        flows,
        record,
        timed_wires=lab.nodes.timed_wires,
        own_clocks=lab.nodes.clock_offsets() is not None,
    )
    platform = Platform.here()
    is_broken = any(summary.violations(of_gates=False) for summary in found)
    return TrafficReport(
        flows=found,
        wake_up=measure.wake_up_error(flows, record),
        platform=platform,
        lateness=measure.talker_lateness(plan, flows, record),
        exceeded=_exceeded(lab, plan) if is_broken and not platform.exact else None,
    )


def _exceeded(lab: Lab, plan: Plan) -> str | None:
    """What a plan rests on that switches have measured otherwise: its bounds are void then."""
    stated = rollout.read_ports(plan.intent.network, connect=lab.connect, partial=True)
    found = next(exceeded(plan.intent, plan.intent, stated), None)
    return found.text if found else None
