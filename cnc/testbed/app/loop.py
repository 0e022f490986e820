"""Close a control loop over a lab, and see how well it follows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cnc.loops.model import Loop
from cnc.model import Plan
from cnc.support.lazy import lazy_import
from cnc.testbed.lab.platform import Platform
from cnc.testbed.lab.timer_latency import TimerProbe
from cnc.testbed.traffic.flows import flows
from cnc.testbed.traffic.loop import run
from cnc.testbed.traffic.loop.report import LoopReport

if TYPE_CHECKING:
    from cnc import rollout
    from cnc.testbed.lab import Lab
    from cnc.testbed.lab.kernels.offsets import FurthestApart
    from cnc.testbed.traffic.flows import AnyFlow
else:
    rollout = lazy_import("cnc.rollout")


def beside(plan: Plan, loop: Loop) -> list[AnyFlow]:
    """What of a plan is sent beside a loop: the other flows that have a frame in that time."""
    closing = {run.stream_of(its) for its in run.loop_flows(plan, loop)}
    length_ns = loop.periods * loop.period_ns
    return [
        flow
        for flow in flows(plan)
        if run.stream_of(flow) not in closing and flow.period_ns <= length_ns
    ]


def close(
    lab: Lab,
    plan: Plan,
    loop: Loop,
    directory: Path,
    *,
    others: Sequence[AnyFlow],
    modules: Path,
    lead_ns: int = 0,
) -> LoopReport:
    """Run a loop, with its curve in a directory, beside other flows, which are sent for `lead_ns`,
    rounded up to whole cycles, before it begins. `modules` is where its own functions are found.

    Raises CncError where a program of an end station fails.
    """
    undisturbed = run.undisturbed_axes(loop, modules)
    cycle_ns = plan.intent.hyperperiod_ns()
    whole_lead_ns = -(-lead_ns // cycle_ns) * cycle_ns
    with TimerProbe() as timers:
        curve = run.run(
            *(lab, plan, loop, directory), others=others, modules=modules, lead_ns=whole_lead_ns
        )
    lasting_ns = whole_lead_ns + loop.periods * loop.period_ns
    return LoopReport(
        curve=curve,
        planned=plan.loops[loop.name],
        undisturbed=undisturbed,
        platform=Platform.here(timers.latency),
        other_lists=_other_lists(lab, plan),
        clock_error_ns=plan.intent.network.clock_error_ns,
        clocks=_furthest_apart(lab, directory, lasting_ns),
    )


def _furthest_apart(lab: Lab, directory: Path, lasting_ns: int) -> FurthestApart | None:
    """The clocks that were furthest apart while all was sent, by what `run` left in the directory;
    None: the nodes of the lab have one clock."""
    from cnc.testbed.lab.kernels import offsets  # noqa: PLC0415

    if lab.nodes.clock_offsets() is None:
        return None
    until_ns = lasting_ns + offsets.PERIOD_NS  # then a shorter time has a record, too
    recorded = offsets.read(directory / offsets.FILE)
    meanwhile = offsets.TrueOffsets(each for each in recorded if each.time_ns <= until_ns)
    network = lab.intent.network
    return meanwhile.furthest_apart([*network.bridges, *network.end_stations])


def _other_lists(lab: Lab, plan: Plan) -> list[str]:
    """The ports that run other lists than the plan has: nothing is promised there."""
    return [
        str(port.port)
        for port in rollout.status(plan, connect=lab.connect)
        if port.intended != (port.running.gates if port.running else None)
    ]
