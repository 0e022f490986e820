"""The launch time of a port of an end station: from a plan, compared, and in words."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from cnc.data_tree.tree import PortReport, TalkerReport
from cnc.mechanism import AtPlace, Kept, configured_or_drifted
from cnc.mechanisms.launch_time.entries import delta_ns
from cnc.mechanisms.launch_time.model import (
    Launch,
    LaunchReport,
    LaunchTimes,
    PortLaunch,
    Row,
)
from cnc.mechanisms.launch_time.tree import edit, reported, stored, told
from cnc.model import Plan, PortRef, PortSettings, StoredPort
from cnc.model.transmissions import transmissions
from cnc.support.format import duration
from cnc.support.wording import named


def derive(plan: Plan, nodes: Collection[str]) -> dict[PortRef, PortLaunch]:
    """Of each cabled port of the end stations with a launch time; none where no stream leaves."""
    stations = plan.intent[LaunchTimes].stations
    priorities: dict[PortRef, set[int]] = {
        port: set() for port in plan.intent.network.links if port.node in stations.keys() & nodes
    }
    for sent in transmissions(plan):
        port = PortRef(sent.talker, sent.interface)
        if port in priorities:
            priorities[port].add(sent.priority)
    return {
        port: PortLaunch(_launch(plan, port, its) if its else None)
        for port, its in priorities.items()
    }


def _launch(plan: Plan, port: PortRef, priorities: set[int]) -> Launch:
    its = plan.intent[LaunchTimes].stations[port.node]
    return Launch(its.mode, delta_ns(its, plan.gates.get(port)), tuple(sorted(priorities)))


def leaving(
    desired: Mapping[str, dict[str, PortSettings]], former: Plan
) -> dict[str, dict[str, PortSettings]]:
    """`desired` by node, without the launch times that only `former` has, the plan before."""
    of_former = former.intent[LaunchTimes].stations
    return {
        name: {port: its.having(PortLaunch()) for port, its in settings.items()}
        if name in of_former and not any(its.get(PortLaunch) for its in settings.values())
        else settings
        for name, settings in desired.items()
    }


def configured_difference(desired: PortLaunch, its: StoredPort) -> str | None:
    """How the configured launch time differs, in words; None where it is the same."""
    before = its[PortLaunch]
    if before == desired:
        return None
    return f"launch time: {_words(before)} becomes {_words(desired)}"


def drifted(desired: PortLaunch, _stored: StoredPort, report: PortReport | None) -> str | None:
    """How the kernel differs from what is stored, which is desired."""
    return differs(desired, report, None)


def differs(desired: PortLaunch, report: PortReport | None, _base_ns: int | None) -> str | None:
    """How the kernel differs from what is desired, in words; None where it does not."""
    if report is None:
        return "the station has no such port"
    launch, found = desired.configuration, report[LaunchReport].by_priority
    asked = dict.fromkeys(launch.priorities, (launch.mode, launch.delta_ns)) if launch else {}
    shown = {priority: (its.mode, its.delta_ns) for priority, its in found.items()}
    for priority in sorted(asked.keys() | shown.keys()):
        if asked.get(priority) != shown.get(priority):
            return (
                f"launch time of priority {priority} is {_of_priority(shown.get(priority))}, "
                f"expected {_of_priority(asked.get(priority))}"
            )
    return None


def since(before: PortReport, now: PortReport) -> str | None:
    """How the kernel does otherwise than before; what it counts apart."""
    one, other = (
        {priority: its[:2] for priority, its in each[LaunchReport].by_priority.items()}
        for each in (before, now)
    )
    return None if one == other else "the launch time is not the same as before"


def lost(report: PortReport) -> str | None:
    """Frames that did not leave, by what their talkers say since they were started."""
    found = [
        f"{name} ({its.missed} missed their time, {its.refused} refused)"
        for (name, _), its in sorted(report[TalkerReport].launches.items())
        if its.missed or its.refused
    ]
    return f"frames did not leave: {named(found)}" if found else None


def _words(its: PortLaunch) -> str:
    launch = its.configuration
    if launch is None:
        return "none"
    priorities = ", ".join(map(str, launch.priorities))
    return f"{launch.mode}, delta {duration(launch.delta_ns)}, priorities {priorities}"


def _of_priority(its: tuple[str, int] | None) -> str:
    return f"{its[0]}, delta {duration(its[1])}" if its else "none"


def _does(its: PortLaunch) -> str | None:
    return f"launch time in {its.configuration.mode}" if its.configuration else None


def _rows(its: PortLaunch) -> Iterator[Row]:
    if launch := its.configuration:
        yield Row(launch.mode, launch.delta_ns, launch.priorities)


def _part(rows: tuple[Row, ...]) -> PortLaunch:
    return PortLaunch(Launch(*rows[0]) if rows else None)


AT_PLACE = AtPlace(
    part=PortLaunch,
    derive=derive,
    leaving=leaving,
    needs_change=configured_or_drifted("the station", configured_difference, drifted),
    configured=configured_difference,
    differs=differs,
    drifted=drifted,
    since=since,
    waits=lambda _its, report: not report[LaunchReport].by_priority,
    does=_does,
    idle="no launch time",
    previous=lambda _its, its_stored: its_stored[PortLaunch],
    edit=edit,
    stored=stored,
    reported=reported,
    told=told,
    lost=lost,
    kept=Kept("launch-time", Row, _rows, _part),
)
