"""What push and status print: what changed on the switches, and what they run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cnc.cli.render.output import new_table, print_json, print_table
from cnc.cli.terminal import echo
from cnc.format import duration, gate_summary
from cnc.model import NS_PER_S

if TYPE_CHECKING:
    from cnc.rollout import PortStatus, Report


def push(report: Report, *, dry_run: bool, as_json: bool) -> None:
    if as_json:
        from cnc.cli.json_output.switches import PortChange, Push  # noqa: PLC0415

        document = Push(
            changed=bool(report.changes) and not dry_run,
            dry_run=dry_run,
            base_time_ns=report.base_time_ns,
            total_ns=report.total_ns,
            changes=[PortChange.model_validate(change) for change in report.changes],
            times=dict(report.times),
        )
        print_json(document)
        return
    if not report.changes:
        echo("no change: every port already runs its gate control list")
        return
    table = new_table("would change" if dry_run else "changed", "port", "why", "before", "after")
    for change in report.changes:
        table.add_row(
            str(change.port), change.why, gate_summary(change.before), gate_summary(change.after)
        )
    print_table(table)
    if dry_run:
        echo("dry run: nothing was sent")
        return
    seconds, nanoseconds = divmod(report.base_time_ns or 0, NS_PER_S)
    echo(
        f"all switches confirmed in {duration(report.total_ns)}; the schedule starts at TAI "
        f"{seconds}.{nanoseconds:09}"
    )


def status(ports: Sequence[PortStatus], *, as_json: bool) -> None:
    if as_json:
        from cnc.cli.json_output.switches import PortState  # noqa: PLC0415

        print_json([PortState.model_validate(port) for port in ports])
        return
    table = new_table("", "port", "intended", "running", "pending", "verdict")
    for port in ports:
        table.add_row(
            str(port.port),
            gate_summary(port.intended),
            gate_summary(port.running.gates if port.running else None),
            gate_summary(port.pending.gates if port.pending else None),
            port.verdict,
            style=None if port.agrees else "bold red",
        )
    print_table(table)
    for hint in dict.fromkeys(hint for port in ports for hint in port.hints):
        echo(f"hint: {hint}")
