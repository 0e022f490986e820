"""What `cnc plan --explain` prints: of what a bound is, and what would give a stream a place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cnc.cli.render.output import new_table, print_table
from cnc.cli.terminal import echo
from cnc.model import Plan
from cnc.support.format import duration

if TYPE_CHECKING:
    from cnc.planner.what_if import Bound, Change

_SHOWN = 3


def bound(name: str, its: Bound) -> None:
    """The parts of a bound, which add up to it."""
    echo(
        f"{name}: latency bound {duration(its.bound_ns)} of {duration(its.allowed_ns)} allowed, "
        f"over {' → '.join(its.way)}"
    )
    if not its.parts:
        return
    table = new_table("", "part", ">takes", "stated by")
    for part in its.parts:
        table.add_row(part.what, duration(part.takes_ns), part.by)
    print_table(table)


def no_place(computed: Plan, name: str, found: Sequence[Change]) -> None:
    """Why a stream has no place, and the changes nearest to what is asked that give it one."""
    echo(f"{name} has no place: {computed.refused[name]}\n")
    if not found:
        echo(
            "No single change gives it one beside the other streams as they are: max-latency, "
            "window, payload, frames, period, paths, class, windows, gate-margin, and the streams "
            "that take most of its ports were tried."
        )
        return
    echo("It has one beside the other streams as they are with one of these, nearest first:")
    for change in found[:_SHOWN]:
        echo(f"  {change.text}")
