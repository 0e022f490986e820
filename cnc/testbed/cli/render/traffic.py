"""What `cnc lab traffic` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cnc.cli.render.output import new_table, open_console, print_json, print_table
from cnc.cli.terminal import echo
from cnc.support.format import counted, duration, microseconds, rate

if TYPE_CHECKING:
    from cnc.testbed.traffic.iperf import Throughput
    from cnc.testbed.traffic.report import TrafficReport


_NOT_JUDGED = (
    "With this latency talkers miss their windows: these results show how punctual the machine is, "
    "not what the schedule does, and are not judged."
)


def flows(report: TrafficReport, *, as_json: bool) -> None:
    """Each flow's figures, the clock that they were measured with, and what broke its promise."""
    found, platform, violations = report.flows, report.platform, report.violations
    if as_json:
        from cnc.testbed.json_output.lab import Traffic, flow_figures  # noqa: PLC0415

        document = Traffic(
            platform=platform,
            wake_up_error=report.wake_up,
            flows=[flow_figures(summary) for summary in found],
            violations=violations if report.is_judged else None,
        )
        print_json(document)
        return
    from cnc.testbed.traffic.flows import BridgedFlow  # noqa: PLC0415

    is_bridged = any(isinstance(its.flow, BridgedFlow) for its in found)
    counts = ["sent", "received", "lost", "late", "gate closed", "copies", "out of order"]
    counts += ["stray"] if is_bridged else []
    is_limited = any(its.jitter_bound_ns is not None for its in found)
    spread = ["arrivals within", "jitter bound"] if is_limited else []
    table = new_table(
        "flows: frames, and microseconds from their planned instant",
        "flow",
        *(f">{name}" for name in (*counts, "min", "p50", "p99", "max", "bound", *spread)),
        ">jitter p80",
    )
    for its in found:
        bound_ns, late_by = its.flow.latency_bound_ns, its.latency
        table.add_row(
            its.flow.name,
            *(str(count) for count in (its.sent, its.received, its.lost)),
            "" if bound_ns is None else str(its.late),
            *(str(count) for count in (its.outside, its.duplicates, its.out_of_order)),
            *((str(len(its.strays)),) if is_bridged else ()),
            *(
                microseconds(getattr(late_by, name)) if late_by else ""
                for name in ("min_ns", "p50_ns", "p99_ns", "max_ns")
            ),
            "" if bound_ns is None else microseconds(bound_ns),
            *(
                (_or_empty(its.arrivals_within_ns), _or_empty(its.jitter_bound_ns))
                if spread
                else ()
            ),
            microseconds(its.jitter.p80_ns) if its.jitter else "",
            style="bold red" if its.violations(of_gates=platform.exact) else None,
        )
    print_table(table)
    wake_up, lateness = report.wake_up, report.lateness
    figures = (duration(ns) for ns in (wake_up.mean_ns, wake_up.p99_ns, wake_up.max_ns))
    echo("Talker wake-up latency: mean {}, p99 {}, max {}.".format(*figures))
    echo(f"Measured on {platform}.")
    for line in violations:
        open_console().print(f"VIOLATED  {line}", style="bold red", highlight=False, soft_wrap=True)
    if platform.exact:
        kept = "Every frame kept its bound and its gates."
    elif lateness is None:
        echo("On a real clock flows without a bound are shown, not judged.")
        return
    else:
        late, allowed = duration(lateness.late_ns), duration(lateness.allowed_ns)
        if not lateness.is_allowed:
            echo(f"{lateness.talker} sent up to {late} late; the plan allows {allowed}.")
            echo(_NOT_JUDGED)
        elif report.exceeded:
            echo(f"Frames are shown, not judged: {report.exceeded}.")
        kept = (
            f"Every frame kept its bound, on a real clock; talkers up to {late} of {allowed} late."
        )
    if report.is_judged and not violations:
        open_console().print(kept, style="bold green")


def _or_empty(time_ns: int | None) -> str:
    return "" if time_ns is None else microseconds(time_ns)


def throughput(found: Throughput, *, as_json: bool) -> None:
    if as_json:
        print_json(found.document)
        return
    line = f"iperf3, {found.protocol}: sent {rate(round(found.sent_bps))}, received "
    line += rate(round(found.received_bps))
    if found.packets is not None:
        line += f"; of {counted(found.packets, 'packet')} {found.lost_packets} lost, "
        line += f"{found.out_of_order} out of order; jitter {duration(found.jitter_ns or 0)}"
    echo(line)
