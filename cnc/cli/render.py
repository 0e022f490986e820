"""What the commands print: text for people, JSON for programs.

Rich leaves out colours and animation when the output is no terminal or NO_COLOR is set.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cnc.errors import CncError
from cnc.format import duration, gate_limits, gate_summary
from cnc.model import NS_PER_S, GateControlList, GateLimits, Intent, Plan, PortRef

if TYPE_CHECKING:
    from rich.table import Table

    from cnc.check import Violation
    from cnc.lab import NodeStatus
    from cnc.netconf import PortStatus, Report
    from cnc.netconf.tree import KernelSchedule

_ROWS_MAX = 100
_SOME_MAX = 20
_FULL_FROM = 0.9


def intent(checked: Intent, *, as_json: bool) -> None:
    network = checked.network
    counts = {
        "switches": len(network.bridges),
        "end-stations": len(network.end_stations),
        "links": len(network.links) // 2,
        "classes": len(checked.classes),
        "streams": len(checked.streams),
    }
    if as_json:
        _json({"name": checked.name, "sound": True, **counts})
        return
    words = ", ".join(f"{count} {what.replace('-', ' ')}" for what, count in counts.items())
    click.echo(f"{checked.name} is sound: {words}")


def verdict(plan: Plan, violations: Sequence[Violation], *, as_json: bool) -> None:
    if as_json:
        _json(
            {
                "name": plan.intent.name,
                "valid": not violations,
                "violations": [v._asdict() for v in violations],
                "streams": len(plan.intent.streams),
                "placed": len(plan.streams),
                "refused": dict(plan.refused),
            }
        )
        return
    for violation in violations:
        click.echo(f"{violation.code} {violation.where}: {violation.text}")
    refused(plan)
    state = f"{len(violations)} violations" if violations else "valid"
    click.echo(
        f"plan of {plan.intent.name}: {state} "
        f"({_placed(plan)}, {len(plan.gates)} gate control lists)"
    )


def limits(stated: Mapping[PortRef, GateLimits]) -> None:
    """What the switches said that their ports can do, ports that can do the same together."""
    alike: dict[str, list[str]] = {}
    for port, its in stated.items():
        alike.setdefault(gate_limits(its), []).append(str(port))
    click.echo("what the switches state of their ports' gates:")
    for words, ports in alike.items():
        click.echo(f"  {words}: {_some(ports, ', ')}")


def plan(computed: Plan, output: Path | None) -> None:
    table = _table(
        f"{computed.intent.name}: {_placed(computed)} placed by {computed.algorithm}",
        "stream",
        "class",
        "path",
        ">period",
        ">leaves talker at",
        ">latency bound",
        ">allowed",
    )
    for name, placed in islice(computed.streams.items(), _ROWS_MAX):
        stream = computed.intent.streams[name]
        table.add_row(
            name,
            computed.class_of(name).name,
            f"{stream.talker} → {', '.join(stream.listeners)} "
            f"({' + '.join(str(len(path)) for path in placed.paths)} hops)",
            duration(stream.period_ns),
            ", ".join(duration(path[0].offset_ns) for path in placed.paths),
            duration(placed.latency_bound_ns),
            duration(stream.max_latency_ns),
        )
    _print(table, len(computed.streams))
    ports = _table("gate control lists", "port", ">cycle", ">entries")
    for port, gates in islice(computed.gates.items(), _ROWS_MAX):
        ports.add_row(str(port), duration(gates.cycle_ns), str(len(gates.entries)))
    _print(ports, len(computed.gates))
    if full := _full_lists(computed):
        click.echo(f"near the limit of their port: {_some(full, ', ')}")
    refused(computed)
    click.echo(f"wrote {output}" if output else "nothing written; -o FILE keeps the plan")


def difference(running: Plan, computed: Plan, *, anew: bool) -> None:
    """What a plan changes for those who run by another: one made around it, or all `anew`."""
    from cnc.planner import moved  # noqa: PLC0415
    from cnc.planner.incremental import unchanged  # noqa: PLC0415

    both = [name for name in computed.streams if name in running.streams]
    if anew:
        movers = moved(running, computed)
        names = f": {_some(movers, ', ')}" if movers else ""
        click.echo(f"{len(movers)} of {len(both)} running streams would move{names}")
        return
    kept = unchanged(computed.intent, running)
    added = len(computed.streams) - len(both)
    removed = sum(name not in computed.intent.streams for name in running.streams)
    click.echo(
        f"kept {len(kept)} running streams where they are, placed {len(both) - len(kept)} changed "
        f"ones anew, added {added}, removed {removed}"
    )


def error(raised: CncError) -> None:
    """What happened, the first of a long list of reasons, and what to do next."""
    head, *items = str(raised).split("\n")
    click.echo(f"cnc: {head}", err=True)
    if items:
        click.echo(_some(items, "\n"), err=True)
    if raised.hint:
        click.echo(f"hint: {raised.hint}", err=True)


def _full_lists(plan: Plan) -> list[str]:
    """The ports with little room for more gate entries."""
    from cnc.planner.problem import entries_max  # noqa: PLC0415

    full = []
    for port, gates in plan.gates.items():
        limit = entries_max(plan.intent, plan.intent.network.links[port])
        if limit is not None and len(gates.entries) > limit * _FULL_FROM:
            full.append(f"{port}: {len(gates.entries)} of {limit} entries")
    return full


def _some(texts: Sequence[str], separator: str) -> str:
    """The first of many texts, and how many more there are."""
    shown = list(texts[:_SOME_MAX])
    if len(texts) > len(shown):
        shown.append(f"and {len(texts) - len(shown)} more")
    return separator.join(shown)


def _placed(plan: Plan) -> str:
    """How many streams have a place, and of how many if that is not all."""
    placed, wanted = len(plan.streams), len(plan.intent.streams)
    return f"{placed} streams" if placed == wanted else f"{placed} of {wanted} streams"


def refused(plan: Plan) -> None:
    """Loud, and last on the screen: these streams will not be carried."""
    if not plan.refused:
        return
    console = _console()
    warning = f"{len(plan.refused)} of {len(plan.intent.streams)} streams have NO place:"
    console.print(warning, style="bold red", highlight=False)
    reasons = _some([f"  {name}: {why}" for name, why in plan.refused.items()], "\n")
    console.print(reasons, style="red", highlight=False, markup=False, soft_wrap=True)


def chart(shown: Plan) -> None:
    from cnc.chart import text  # noqa: PLC0415

    console = _console()
    click.echo(text(shown, width=console.width, color=console.color_system is not None))


def push(report: Report, *, dry_run: bool, as_json: bool) -> None:
    if as_json:
        _json(
            {
                "changed": bool(report.changes) and not dry_run,
                "dry_run": dry_run,
                "base_time_ns": report.base_time_ns,
                "total_ns": report.total_ns,
                "changes": [
                    {
                        "port": str(change.port),
                        "why": change.why,
                        "before": _gates_json(change.before),
                        "after": _gates_json(change.after),
                    }
                    for change in report.changes
                ],
                "times": {n: dataclasses.asdict(t) for n, t in report.times.items()},
            }
        )
        return
    if not report.changes:
        click.echo("no change: every port already runs its gate control list")
        return
    table = _table("would change" if dry_run else "changed", "port", "why", "before", "after")
    for change in report.changes:
        table.add_row(
            str(change.port), change.why, gate_summary(change.before), gate_summary(change.after)
        )
    _print(table)
    if dry_run:
        click.echo("dry run: nothing was sent")
        return
    seconds, nanoseconds = divmod(report.base_time_ns or 0, NS_PER_S)
    click.echo(
        f"all switches confirmed in {duration(report.total_ns)}; the schedule starts at TAI "
        f"{seconds}.{nanoseconds:09}"
    )


def status(ports: Sequence[PortStatus], *, as_json: bool) -> None:
    if as_json:
        _json(
            [
                {
                    "port": str(p.port),
                    "agrees": p.agrees,
                    "verdict": p.verdict,
                    "intended": _gates_json(p.intended),
                    "running": _schedule_json(p.running),
                    "pending": _schedule_json(p.pending),
                }
                for p in ports
            ]
        )
        return
    table = _table("", "port", "intended", "running", "pending", "verdict")
    for port in ports:
        table.add_row(
            str(port.port),
            gate_summary(port.intended),
            gate_summary(port.running.gates if port.running else None),
            gate_summary(port.pending.gates if port.pending else None),
            port.verdict,
            style=None if port.agrees else "bold red",
        )
    _print(table)


def lab_status(name: str, nodes: Sequence[NodeStatus], *, as_json: bool) -> None:
    if as_json:
        _json([dataclasses.asdict(node) for node in nodes])
        return
    if not nodes:
        click.echo(f"no lab {name} is up")
        return
    table = _table(f"lab {name}", "node", "namespace", "processes")
    for node in nodes:
        processes = ", ".join(
            f"{program} {pid or 'is gone'}" for program, pid in node.processes.items()
        )
        table.add_row(node.node, node.namespace if node.present else "missing", processes)
    _print(table)


def _gates_json(gates: GateControlList | None) -> dict[str, Any] | None:
    if gates is None:
        return None
    return {
        "cycle_ns": gates.cycle_ns,
        "entries": [[f"{e.gate_states:#04x}", e.interval_ns] for e in gates.entries],
    }


def _schedule_json(schedule: KernelSchedule | None) -> dict[str, Any] | None:
    if schedule is None:
        return None
    return {"base_time_ns": schedule.base_time_ns, **(_gates_json(schedule.gates) or {})}


def _json(data: Any) -> None:
    click.echo(json.dumps(data, indent=2, default=_plain))


def _plain(value: object) -> str:
    if isinstance(value, PortRef | Path):
        return str(value)
    raise TypeError(f"no JSON form for {type(value).__name__}")


def _table(title: str, *columns: str) -> Table:
    """A table; a column whose name starts with `>` is aligned to the right."""
    from rich import box  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    table = Table(title=title or None, title_justify="left", box=box.SIMPLE_HEAD)
    for column in columns:
        table.add_column(column.lstrip(">"), justify="right" if column[0] == ">" else "left")
    return table


def _print(table: Table, wanted: int = 0) -> None:
    """Print a table, and say so if it shows fewer rows than `wanted`."""
    _console().print(table)
    if wanted > table.row_count:
        click.echo(f"  and {wanted - table.row_count} more; the plan file has all\n")


def _console() -> Any:
    from rich.console import Console  # noqa: PLC0415

    # A pipe has no width: wide enough that no cell is folded.
    return Console() if sys.stdout.isatty() else Console(width=160)
