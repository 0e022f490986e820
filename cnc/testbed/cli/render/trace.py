"""What `cnc lab trace` prints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING

from cnc.cli.render.output import new_table, print_json, print_table
from cnc.cli.terminal import echo
from cnc.support.format import counted, duration, microseconds

if TYPE_CHECKING:
    from rich.table import Table

    from cnc.testbed.lab.platform import Platform
    from cnc.testbed.traffic.trace.account import Account
    from cnc.testbed.traffic.trace.clocks import TrueTime
    from cnc.testbed.traffic.trace.correlation import Correlations
    from cnc.testbed.traffic.trace.drift import Drift
    from cnc.testbed.traffic.trace.host_tables import Host
    from cnc.testbed.traffic.trace.imported import ImportedRun
    from cnc.testbed.traffic.trace.margins import HopMargin
    from cnc.testbed.traffic.trace.outliers import Outliers
    from cnc.testbed.traffic.trace.summary import TracedFlow

_BAR_CELLS = 40
_CAUSES_MAX = 3


@dataclass(frozen=True, slots=True)
class Found:
    """What there is to print of a trace; None: not asked for. One of a lab has `platform` and
    `margins`, where each node has a clock of its own also `true_time`; one of two hosts is
    `imported`."""

    platform: Platform | None
    start_ns: int
    flows: Sequence[TracedFlow]
    margins: Sequence[HopMargin] | None
    outliers: Sequence[Outliers] | None
    correlations: Sequence[Correlations] | None
    drifts: Sequence[Drift] | None
    frames: Sequence[Account] | None
    true_time: TrueTime | None = None
    imported: ImportedRun | None = None


def trace(found: Found, *, as_json: bool) -> None:
    """What was asked for; if nothing was, the layers and stages of each flow and its margins."""
    if as_json:
        from cnc.testbed.json_output.trace import Trace  # noqa: PLC0415

        print_json(Trace.model_validate(found))
        return
    asked_for = (found.frames, found.outliers, found.correlations, found.drifts)
    for each in blocks(found, of_all=all(each is None for each in asked_for)):
        if isinstance(each, str):
            echo(each)
        else:
            print_table(each)


def blocks(found: Found, *, of_all: bool) -> Iterator[Table | str]:
    """Tables and lines, one after the other. `of_all`: with the layers and stages of all flows, and
    margins."""
    for account in found.frames or ():
        yield _frame(account, found.start_ns)
    if found.outliers is not None:
        yield from _outliers(found.outliers)
    if found.correlations is not None:
        yield _correlations(found.correlations)
    if found.drifts is not None:
        yield _drifts(found.drifts)
    if of_all:
        yield _layers(found.flows)
        yield _stages(found.flows)
        if found.margins is not None:
            yield _margins(found.margins)
    yield from _measured(found)


def _measured(found: Found) -> Iterator[str]:
    """Where the stamps are from, and of which time they are."""
    if found.true_time:
        yield _true_time(found.true_time)
    if found.imported:
        yield from _imported(found.imported)
    else:
        yield f"Measured on {found.platform}."


def _true_time(found: TrueTime) -> str:
    ends_ns = (end_ns for its in found.clocks for end_ns in (its.least_ns, its.greatest_ns))
    furthest, apart = (duration(each) for each in (max(map(abs, ends_ns)), found.apart_max_ns))
    return (
        f"All of that is in true time, from which clocks were up to {furthest} away, and up to "
        f"{apart} from each other. Gates go by the clock of their node."
    )


def _imported(run: ImportedRun) -> Iterator[str]:
    if run.wake_up:
        figures_ns = (run.wake_up.mean_ns, run.wake_up.p99_ns, run.wake_up.max_ns)
        mean, p99, most = (microseconds(each) for each in figures_ns)
        yield (
            f"The sender woke up {mean} µs after the planned instant in the mean, within {p99} µs "
            f"in 99 %, at most {most} µs: before all that is above."
        )
    ends = f"{_host(run.sender)} and {_host(run.receiver)}"
    if run.clocks is None:
        yield f"Measured by {run.program} on {ends}; their clocks were not compared."
        return
    yield (
        f"Measured by {run.program} on {ends}; before the run their clocks were "
        f"{microseconds(run.clocks.sender_ns)} and {microseconds(run.clocks.receiver_ns)} µs from "
        f"one grandmaster, and within {microseconds(run.clocks.limit_ns)} µs for 10 s."
    )
    if run.channel:
        figures_ns = (run.channel.min_ns, run.channel.mean_ns, run.channel.max_ns)
        least, mean, most = (microseconds(each) for each in figures_ns)
        yield (
            f"From driver to kernel packets took {least} µs at least, {mean} µs in the mean and "
            f"{most} µs at most, exact to {microseconds(2 * run.clocks.limit_ns)} µs where the "
            "clocks stayed within the limit: no part of what is above."
        )


def _host(host: Host) -> str:
    if host.clock is None:
        return host.name
    return f"{host.name} (clock {host.clock}, {host.stamp_cost_ns} ns a stamp)"


def _layers(flows: Sequence[TracedFlow]) -> Table:
    from cnc.testbed.traffic.trace.account import Layer  # noqa: PLC0415

    # What is 0 in most traces has a column in others only.
    counts = ("path", "lost", "resent", "repeated", "incomplete")
    shown = [name for name in counts if any(map(attrgetter(name), flows))]
    layers = [layer for layer in Layer if any(layer in flow.layers for flow in flows)]
    table = new_table(
        "layers: frames, and mean microseconds in each layer",
        *("flow", ">frames", *(f">{name}" for name in shown)),
        *(*(f">{layer}" for layer in layers), ">total", ">max"),
    )
    for flow in flows:
        means = (flow.layers.get(layer) for layer in layers)
        table.add_row(
            *(
                flow.flow,
                str(flow.frames),
                *(str(getattr(flow, name) + (name == "path")) for name in shown),
            ),
            *(microseconds(mean.mean_ns) if mean else "" for mean in means),
            microseconds(flow.total.mean_ns) if flow.total else "",
            microseconds(flow.total.max_ns) if flow.total else "",
        )
    return table


def _stages(flows: Sequence[TracedFlow]) -> Table:
    from cnc.testbed.traffic.trace.stages import Stage  # noqa: PLC0415

    shown = [stage for stage in Stage if any(stage in flow.stages for flow in flows)]
    where, total = "the talker, on the way, and at the listener", [">total"]
    if Stage.CHANNEL not in shown:
        where, total = "both ends", []  # the sum of which is the total
    table = new_table(
        f"stages: mean microseconds at {where}",
        *("flow", ">path", *(f">{stage}" for stage in shown), ">sender + receiver", *total),
    )
    for flow in flows:
        if flow.total_sum_ns is None:
            continue
        sums_ns = {stage: its.sum_ns for stage, its in flow.stages.items()}
        ends_ns = sums_ns[Stage.SENDER] + sums_ns[Stage.RECEIVER]
        frames = flow.frames - flow.lost - flow.incomplete
        figures_ns = [*sums_ns.values(), ends_ns, *([flow.total_sum_ns] if total else [])]
        table.add_row(
            *(flow.flow, str(flow.path + 1)),
            *(microseconds(round(sum_ns / frames)) for sum_ns in figures_ns),
        )
    return table


def _margins(margins: Sequence[HopMargin]) -> Table:
    table = new_table(
        "margins of the plan: microseconds for which a frame may come late to a port",
        *("stream", ">path", "port", ">processing", ">clock", ">start", ">turn"),
        *(">margin", ">used at most"),
    )
    for hop in margins:
        parts_ns = (hop.processing_ns, hop.clock_ns, hop.start_ns, hop.turn_ns, hop.margin_ns)
        table.add_row(
            *(hop.flow, str(hop.path + 1), str(hop.port)),
            *(microseconds(part_ns) for part_ns in parts_ns),
            "" if hop.used_max_ns is None else microseconds(hop.used_max_ns),
        )
    return table


def _frame(account: Account, start_ns: int) -> Table:
    from cnc.chart.terminal import cells  # noqa: PLC0415

    row = account.row
    path = "" if row.path is None else f" by path {row.path + 1}"
    planned = microseconds(row.planned_ns - start_ns)
    end = "lost" if row.delivered_ns is None else "incomplete"
    if account.total_ns is not None:
        end = f"{microseconds(account.total_ns)} µs"
    title = f"{row.flow.name}/{row.seq}, {row.flow.talker} to {row.flow.listener}{path} "
    begun = "planned" if row.has_channel else "sent"
    title += f"({row.kind}), {begun} {planned} µs after the start: {end}"
    table = new_table(title, ">at µs", ">for µs", "where", "layer", "when")
    span_ns = sum(part.duration_ns or 0 for part in account.parts) or 1
    begin_ns: int | None = 0
    for part in account.parts:
        if part.duration_ns == 0:
            continue
        at, bar = "", ""
        if begin_ns is not None:
            at = microseconds(begin_ns)
        if begin_ns is not None and part.duration_ns is not None:
            bar = cells([(begin_ns, begin_ns + part.duration_ns)], span_ns, _BAR_CELLS)
        lasted = "" if part.duration_ns is None else microseconds(part.duration_ns)
        table.add_row(at, lasted, part.place, part.layer, bar)
        known = begin_ns is not None and part.duration_ns is not None
        begin_ns = (begin_ns or 0) + (part.duration_ns or 0) if known else None
    return table


def _outliers(outliers: Sequence[Outliers]) -> Iterator[Table | str]:
    table = new_table(
        "outliers: frames later than Q3 + 1.5 IQR, and how many of them a part was such in, too",
        *("flow", ">path", ">frames", ">threshold µs", ">outliers", "causes"),
    )
    for way in (each for each in outliers if each.seqs):
        named = [f"{place} {layer} {count}" for place, layer, count in way.causes]
        causes = ", ".join(named[:_CAUSES_MAX])
        if len(named) > _CAUSES_MAX:
            causes += f", and {len(named) - _CAUSES_MAX} more"
        table.add_row(
            *(way.flow, str(way.path + 1), str(way.frames)),
            *(microseconds(round(way.threshold_ns)), str(len(way.seqs)), causes),
        )
    if table.row_count:
        yield table
    late = sum(len(way.seqs) for way in outliers)
    frames = sum(way.frames for way in outliers)
    yield f"{counted(late, 'outlier')} of {counted(frames, 'frame')}."


def _correlations(correlations: Sequence[Correlations]) -> Table:
    from cnc.testbed.traffic.trace.correlation import FRAMES_MIN  # noqa: PLC0415

    shown = [name for name in ("path", "absent") if any(map(attrgetter(name), correlations))]
    table = new_table(
        "correlation: of the time in a layer with the total of a frame, and how many nanoseconds\n"
        "the total is longer for each in the layer",
        *("flow", ">frames", *(f">{name}" for name in shown), "layer", ">correlation", ">slope"),
    )
    for flow in correlations:
        counts = {"path": str(flow.path + 1), "absent": str(flow.absent)}
        head = (flow.flow, str(flow.frames), *(counts[name] for name in shown))
        if not flow.layers:
            table.add_row(*head, f"fewer than {FRAMES_MIN} frames", "", "")
        elif flow.is_total_constant:
            table.add_row(*head, "total", "constant", "")
        else:
            varying = [each for each in flow.layers if each.correlation is not None]
            for each in sorted(varying, key=lambda its: abs(its.correlation or 0), reverse=True):
                figures = (f"{each.correlation or 0:.3f}", f"{each.slope or 0:.3f}")
                table.add_row(*head, each.layer, *figures)
            if constant := [each.layer for each in flow.layers if each.is_constant]:
                table.add_row(*head, ", ".join(constant), "constant", "")
    return table


def _drifts(drifts: Sequence[Drift]) -> Table:
    from cnc.testbed.traffic.trace.drift import BLOCKS, FRAMES_MIN  # noqa: PLC0415

    table = new_table(
        f"drift: how the total moves over the run, by its mean in each of {BLOCKS} blocks",
        *("flow", ">path", ">frames", ">ns a second", ">95 %: ±", "total is"),
        *(">first median µs", ">last median µs"),
    )
    for flow in drifts:
        head = (flow.flow, str(flow.path + 1), str(flow.frames))
        if flow.trend is None:
            short = f"fewer than {FRAMES_MIN} frames" if flow.frames < FRAMES_MIN else "one instant"
            table.add_row(*head, "", "", short, "", "")
            continue
        table.add_row(
            *(*head, f"{flow.slope_ns_per_s:.1f}", f"{flow.confidence_ns_per_s:.1f}", flow.trend),
            *(microseconds(round(flow.blocks[each].median_ns)) for each in (0, -1)),
        )
    return table
