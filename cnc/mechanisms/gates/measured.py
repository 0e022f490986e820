"""The gate margin as a figure that switches measure."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

from cnc.data_tree.tree import GatesReport
from cnc.finding import Check, Finding, Verdict
from cnc.mechanism import Exceeded, Figure, Measured, OnPort, OnPorts
from cnc.mechanisms.gates import long_lists, margin
from cnc.mechanisms.gates.kinds import Kind
from cnc.mechanisms.gates.remarks import remarks
from cnc.mechanisms.measurements import covers, figures
from cnc.model import GateMode, Intent, Plan, PortRef, PortSettings, gated_port
from cnc.support.format import duration

if TYPE_CHECKING:
    from cnc.data_tree.state import SwitchState
    from cnc.data_tree.stated import StatedPorts
    from cnc.data_tree.tree import PortReport


def _kept(intent: Intent, then: Intent) -> Intent:
    if intent.states_gate_margin or then.states_gate_margin:
        return intent
    return intent.with_gate_margin(then.network.gate_margin_ns, then.measured_margin)


def _exceeded(running: Intent, now: Intent, stated: StatedPorts) -> Iterator[Exceeded]:
    found = margin.latest(running, stated.wake_ups)
    if found and not covers(running.network.gate_margin_ns, found[1]):
        port, measured = found
        yield Exceeded(
            f"gates of {port} were measured up to {figures(measured)}; the running plan "
            f"allows for {duration(running.network.gate_margin_ns)}",
            None if running.states_gate_margin else now.network.gate_margin_ns,
            margin.too_small_hint(measured, margin.keepable_ns(running)),
        )


def _figures(plan: Plan) -> Iterator[Figure]:
    if plan.streams and (margin_ns := plan.intent.network.gate_margin_ns):
        yield Figure("gate margin", margin_ns, margin.source(plan.intent), takes_share=True)


def _warnings(plan: Plan, is_new: bool) -> Iterator[tuple[str, str]]:
    if is_new and (text := margin.warning(plan)):
        yield text, margin.HINT
    if text := long_lists.warning(plan):
        yield text, long_lists.HINT
    if text := long_lists.phase_warning(plan):
        yield text, long_lists.PHASE_HINT
    yield from remarks(plan.intent)


def _unmeasured(plan: Plan, node: str, state: SwitchState) -> Iterator[Finding]:
    if any(report[GatesReport].wake_ups for report in state.ports.values()):
        return
    if text := margin.warning(plan, node):
        yield Finding(node, None, Check.MARGIN, Verdict.WARNING, text, margin.HINT)


def _on_ports(intent: Intent) -> OnPorts:
    """Of gates that a timer is to open; None where there are none, or nothing was measured."""
    keepable_ns = cache(lambda: margin.keepable_ns(intent))
    allowed_ns = intent.network.gate_margin_ns

    def on_port(ref: PortRef, desired: PortSettings | None, report: PortReport) -> OnPort | None:
        gated, measured = gated_port(desired), report[GatesReport].wake_ups
        if measured is None or gated is None or gated.mode is not GateMode.SOFTWARE:
            return None
        is_allowed = covers(allowed_ns, measured)
        text = (
            f"its gates open up to {figures(measured)}; the plan allows for {duration(allowed_ns)}"
        )

        def finding() -> Finding:
            verdict, hint = Verdict.OK, None
            if not is_allowed:
                verdict, hint = Verdict.WARNING, margin.too_small_hint(measured, keepable_ns())
            if margin.is_refuted(allowed_ns, measured):
                verdict = Verdict.FAILED
            return Finding(*ref, Check.MARGIN, verdict, text, hint)

        return OnPort(text, is_allowed, finding, is_of_node=True)

    return on_port


MEASURED = Measured(
    check=Check.MARGIN,
    taken=lambda intent, stated, running: margin.with_measured(intent, stated.wake_ups, running),
    kept=_kept,
    refuse=lambda intent, stated: margin.refuse_refuted(intent, stated.wake_ups),
    exceeded=_exceeded,
    figures=_figures,
    warnings=_warnings,
    unmeasured=_unmeasured,
    on_ports=_on_ports,
    kind=Kind.GATE_MARGIN,
)
"""How late gates open."""
