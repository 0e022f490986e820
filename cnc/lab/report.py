"""The demo's outcome as tables a person can read; plain text when the output is no terminal."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table

from cnc.experiments.control_overhead.published import PUBLISHED
from cnc.format import duration, gate_summary
from cnc.lab.platform import Figures, Outcome
from cnc.model import NS_PER_S
from cnc.traffic.measure import RESOLUTION_NS, Spread, Summary

PIPE_COLUMNS = 120

PUBLISHED_SWITCHES = 3  # as many as the demo's network has


def show(outcome: Outcome, disagreements: Sequence[str]) -> None:
    """Print ports, streams and figures, then the verdict."""
    # Rich takes a dumb terminal for 80 columns wide, whatever COLUMNS says.
    columns, lines = shutil.get_terminal_size((PIPE_COLUMNS, 25))
    console = Console(width=columns, height=lines)
    console.print(f"\nMeasured on {outcome.platform}.", highlight=False)
    if outcome.slower > 1:
        console.print(
            f"This clock cannot tell the intent's microseconds apart: here every time is "
            f"{outcome.slower} times as long and every rate {outcome.slower} times lower.",
            highlight=False,
        )
    console.print(_ports(outcome))
    if outcome.streams:
        console.print(_streams(outcome.streams))
    if outcome.wake_up_error is not None:
        console.print(_trust(outcome, outcome.wake_up_error), highlight=False)
    console.print(_control_plane(outcome.figures))
    console.print(_whole(outcome.figures), highlight=False)
    for line in disagreements:
        console.print(f"DISAGREES  {line}", style="bold red", highlight=False, markup=False)
    if not disagreements:
        kept = (
            " and every frame kept its promise"
            if outcome.streams and outcome.platform.exact
            else ""
        )
        console.print(f"Every switch runs what was planned{kept}.", style="bold green")


def _ports(outcome: Outcome) -> Table:
    table = _table("Ports: what the plan says, what the kernel runs", "port", "plan", "kernel", "")
    for port in outcome.ports:
        table.add_row(
            str(port.port),
            gate_summary(port.intended),
            gate_summary(port.running.gates if port.running else None),
            port.verdict,
            style=None if port.agrees else "bold red",
        )
    return table


def _streams(streams: Sequence[Summary]) -> Table:
    table = _table(
        "Streams: frames, and latency from the planned start of sending",
        "stream",
        *(f">{name}" for name in ("sent", "received", "late", "gate closed")),
        *(f">{name}, µs" for name in ("min", "mean", "p99", "max", "bound")),
    )
    for stream in streams:
        bound_ns = stream.flow.latency_bound_ns
        latency = stream.latency
        table.add_row(
            stream.flow.name,
            str(stream.sent),
            str(stream.received),
            "" if bound_ns is None else str(stream.late),
            _outside(stream),
            *(_spread(latency) if latency else [""] * 4),
            "" if bound_ns is None else _us(bound_ns),
        )
    return table


def _outside(stream: Summary) -> str:
    if not stream.outside:
        return "0"
    return f"{stream.outside}, by up to {duration(stream.outside_max_ns)}"


def _trust(outcome: Outcome, wake_up: Spread) -> str:
    figures = f"mean {duration(wake_up.mean_ns)}, 99 % within {duration(wake_up.p99_ns)}, "
    figures += f"worst {duration(wake_up.max_ns)}"
    if outcome.platform.exact:
        meaning = (
            "Computing takes no time here; transmission, propagation and the switches' least "
            "processing time are modelled, the gates are the kernel's own. Reading a clock takes "
            f"some: gate closed means by more than {duration(RESOLUTION_NS)}."
        )
    else:
        meaning = (
            "Who is that late misses windows, waits a cycle or starves: the frames tell how "
            "punctual this machine is, not what the plan is worth, and are not judged. Cables take "
            "no time."
        )
    return f"Talkers woke late by: {figures}. {meaning}\n"


def _control_plane(figures: Figures) -> Table:
    table = _table(
        f"Control plane, {figures.platform}",
        "seconds",
        ">plan + payload",
        ">NETCONF",
        ">agent: YANG to kernel",
    )
    for name, each in sorted(figures.switches.items()):
        table.add_row(name, _s(each.payload_ns), _s(each.netconf_ns), _s(each.apply_ns))
    # Switches work in parallel: the slowest decides.
    slowest = [
        max((getattr(each, part) for each in figures.switches.values()), default=0)
        for part in ("payload_ns", "netconf_ns", "apply_ns")
    ]
    table.add_row(
        "all switches",
        _s(figures.plan_ns + slowest[0]),
        _s(slowest[1]),
        _s(slowest[2]),
        end_section=True,
    )
    published = PUBLISHED[PUBLISHED_SWITCHES]
    table.add_row(
        f"published, {PUBLISHED_SWITCHES} switches",
        *(
            f"{value:.3f}"
            for value in (published.generation_s, published.netconf_s, published.parsing_s)
        ),
    )
    return table


def _whole(figures: Figures) -> str:
    return (
        f"Plan {_s(figures.plan_ns)} s, check {_s(figures.check_ns)} s, whole push with preflight, "
        f"read-back and confirm {_s(figures.push_ns)} s. The published row is table I of "
        "Papathanail et al., on another platform: an order of magnitude, not a comparison.\n"
    )


def _spread(spread: Spread) -> list[str]:
    return [_us(value) for value in (spread.min_ns, spread.mean_ns, spread.p99_ns, spread.max_ns)]


def _us(time_ns: int) -> str:
    return f"{time_ns / 1000:.1f}"


def _s(time_ns: int) -> str:
    return f"{time_ns / NS_PER_S:.4f}"


def _table(title: str, *columns: str) -> Table:
    """A table; a column whose name starts with `>` is aligned to the right."""
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for column in columns:
        table.add_column(column.removeprefix(">"), justify="right" if column[:1] == ">" else "left")
    return table
