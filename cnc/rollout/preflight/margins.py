"""Whether gates open, and talkers send, as early as the plan expects, where that is measured."""

from __future__ import annotations

from collections.abc import Iterator

from cnc import lateness, margin
from cnc.format import duration
from cnc.model import GateMode, Intent, PortConfiguration, PortRef
from cnc.rollout.preflight.finding import Check, Finding, Verdict
from cnc.switch.tree import PortReport


def examine_margin(
    ref: PortRef, desired: PortConfiguration, report: PortReport, intent: Intent
) -> Iterator[Finding]:
    """Of a port that is to have gates which a timer opens."""
    measured = report.wake_ups
    if measured is None or desired.mode is not GateMode.SOFTWARE:
        return
    allowed_ns = intent.network.gate_margin_ns
    text = f"its gates open up to {margin.figures(measured)}; "
    text += f"the plan allows for {duration(allowed_ns)}"
    verdict, hint = Verdict.OK, None
    if not margin.covers(allowed_ns, measured):
        is_refuted = margin.is_refuted(allowed_ns, measured)
        verdict = Verdict.FAILED if is_refuted else Verdict.WARNING
        hint = margin.too_small_hint(measured)
    yield Finding(*ref, Check.MARGIN, verdict, text, hint)


def examine_lateness(ref: PortRef, report: PortReport, intent: Intent) -> Iterator[Finding]:
    """Of a port of an end station whose talkers say how late they were.

    A late talker does not prevent a push, which may restore ports or give it more time.
    """
    if not report.talker.lateness:
        return
    worst = max(report.talker.lateness.values(), key=lambda each: each.maximum_ns)
    allowed_ns = lateness.allowed_ns(intent, ref.node)
    text = f"its talkers send up to {margin.figures(worst, lateness.SENT)}; "
    text += f"the plan allows for {duration(allowed_ns)}"
    verdict, hint = Verdict.OK, None
    if not margin.covers(allowed_ns, worst):
        verdict, hint = Verdict.WARNING, lateness.too_small_hint(worst)
        if lateness.drops_late_frames(intent, ref.node):
            text += ": policing drops frames that are later"
    yield Finding(*ref, Check.LATENESS, verdict, text, hint)
