"""What push prints: what changes for streams, and on the switches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING

from cnc.cli.render.output import new_table, print_json, print_table
from cnc.cli.terminal import echo
from cnc.model import NS_PER_S, StreamPlan
from cnc.support.format import counted, duration
from cnc.support.lazy import lazy_import

if TYPE_CHECKING:
    from cnc.mechanisms import composition
    from cnc.planner import Move
    from cnc.plans.difference import PlanDifference
    from cnc.rollout import Finding, Report
else:
    composition = lazy_import("cnc.mechanisms.composition")

_MOVES_MAX = 100


def moves(moved: Sequence[Move], *, dry_run: bool) -> None:
    """The talkers that have to learn something, before anything is sent."""
    if not moved:
        return
    table = new_table(
        "would move" if dry_run else "moves", "stream", "talker", "leaves at", "way", "why"
    )
    for move in moved[:_MOVES_MAX]:
        table.add_row(
            move.stream,
            move.talker,
            _difference(*map(_departures, (move.before, move.after))),
            _difference(*map(_way, (move.before, move.after))),
            move.reason,
        )
    print_table(table, len(moved), whole="--json")


def exposed(streams: Mapping[str, str]) -> None:
    """The streams whose frames may be lost in the middle of a push, before anything is sent."""
    if not streams:
        return
    table = new_table("frames may be lost until the base time", "stream", "why")
    for name, why in [*streams.items()][:_MOVES_MAX]:
        table.add_row(name, why)
    print_table(table, len(streams), whole="--json")


def _difference(before: str, after: str) -> str:
    return after if before == after else f"{before} → {after}"


def _departures(placed: StreamPlan) -> str:
    return ", ".join(map(duration, placed.talker_offsets_ns))


def _way(placed: StreamPlan) -> str:
    ways = " and ".join(
        " ".join(dict.fromkeys(hop.egress.node for hop in path[1:])) for path in placed.paths
    )
    return f"{ways} in class {placed.hops[0].traffic_class}"


def push(
    report: Report,
    moved: Sequence[Move],
    *,
    dry_run: bool,
    as_json: bool,
    exposed: Mapping[str, str] = MappingProxyType({}),
    warnings: Sequence[Finding] = (),
    change: PlanDifference | None = None,
    all_ports: bool = True,
) -> None:
    """What a push did. Where it was for streams, which `change` tells and `streams` has shown, the
    ports are a total unless `all_ports`."""
    if as_json:
        from cnc.json_output.switches import (  # noqa: PLC0415
            Exposed,
            FormerWays,
            Moved,
            PortChange,
            Push,
        )

        document = Push(
            changed=bool(report.changes) and not dry_run,
            dry_run=dry_run,
            base_time_ns=report.base_time_ns,
            starts_in_ns=report.starts_in_ns,
            total_ns=report.total_ns,
            changes=[PortChange.model_validate(change) for change in report.changes],
            moved=[
                Moved(
                    stream=move.stream,
                    talker=move.talker,
                    offsets_before_ns=list(move.before.talker_offsets_ns),
                    offsets_ns=list(move.after.talker_offsets_ns),
                    reason=move.reason,
                )
                for move in moved
            ],
            exposed=[Exposed(stream=name, why=why) for name, why in exposed.items()],
            former_ways=FormerWays.model_validate(ways) if (ways := report.former_ways) else None,
            times=dict(report.times),
            warnings=list(warnings),
            added=change.added if change else [],
            removed=change.removed if change else [],
        )
        print_json(document)
        return
    if not report.changes:
        bridges = ", and every bridge forwards as planned" if report.compares_forwarding else ""
        echo(f"no change: every port already runs its gate control list{bridges}")
        return
    if all_ports or change is None or not change.changes_streams:
        _ports(report, dry_run=dry_run)
    else:
        nodes = len({its.port.node for its in report.changes})
        ports = f"{counted(len(report.changes), 'port')} on {counted(nodes, 'node')}"
        echo(f"{ports} {'would change' if dry_run else 'changed'}; -v lists them")
    if dry_run:
        echo("dry run: nothing was sent")
        return
    echo(f"all switches confirmed in {duration(report.total_ns)}; {_start(report)}")
    if (ways := report.former_ways) and ways.left is None:
        streams = counted(len(ways.streams), "stream")
        by = f", by rollout {ways.removed_by}" if ways.removed_by else ""
        echo(f"the previous paths of {streams} are removed{by}")


def _ports(report: Report, *, dry_run: bool) -> None:
    table = new_table("would change" if dry_run else "changed", "port", "why", "before", "after")
    for change in report.changes:
        forwarding = change.forwarding
        table.add_row(
            str(change.port),
            change.why,
            composition.settings_summary(change.before, forwarding.before if forwarding else None),
            composition.settings_summary(change.after, forwarding.after if forwarding else None),
        )
    print_table(table)


def _start(report: Report) -> str:
    """When the schedule starts, for people and for their talkers."""
    seconds, nanoseconds = divmod(report.base_time_ns or 0, NS_PER_S)
    if report.former_ways:  # which were waited for
        return f"the schedule has started (TAI {seconds}.{nanoseconds:09})"
    starts_in_s = (report.starts_in_ns or 0) / NS_PER_S
    at = datetime.now(UTC) + timedelta(seconds=starts_in_s)
    return (
        f"the schedule starts in {starts_in_s:.1f} s, at {at:%Y-%m-%d %H:%M:%S} UTC "
        f"(TAI {seconds}.{nanoseconds:09})"
    )
