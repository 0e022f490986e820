"""Whether gates open, and talkers send, as early as the plan expects, where that is measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from cnc.data_tree.tree import PortReport
from cnc.finding import Check, Finding, Verdict
from cnc.mechanisms.gates import margin
from cnc.mechanisms.talker_offsets import lateness
from cnc.model import GateMode, Intent, PortConfiguration, PortRef, WakeUps
from cnc.support.format import duration


class Measured(NamedTuple):
    """What a port has measured, in words, and whether the plan allows for it."""

    wake_ups: WakeUps
    allowed_ns: int
    text: str

    @property
    def is_covered(self) -> bool:
        return margin.covers(self.allowed_ns, self.wake_ups)


def gates_measured(
    desired: PortConfiguration | None, report: PortReport, intent: Intent
) -> Measured | None:
    """Of gates that a timer is to open; None where there are none, or nothing was measured."""
    measured = report.wake_ups
    if measured is None or desired is None or desired.mode is not GateMode.SOFTWARE:
        return None
    allowed_ns = intent.network.gate_margin_ns
    return Measured(
        measured,
        allowed_ns,
        f"its gates open up to {margin.figures(measured)}; the plan allows for "
        f"{duration(allowed_ns)}",
    )


def talkers_measured(node: str, report: PortReport, intent: Intent) -> Measured | None:
    """Of the port of an end station whose talkers say how late they were; None of others."""
    if not report.talker.lateness:
        return None
    worst = max(report.talker.lateness.values(), key=lambda each: each.maximum_ns)
    allowed_ns = lateness.allowed_ns(intent, node)
    return Measured(
        worst,
        allowed_ns,
        f"its talkers send up to {margin.figures(worst, lateness.SENT)}; the plan allows for "
        f"{duration(allowed_ns)}",
    )


def examine_margins(
    ref: PortRef,
    desired: PortConfiguration | None,
    report: PortReport,
    intent: Intent,
    keepable_ns: Callable[[], int],
) -> Iterator[Finding]:
    """What was measured of gates and talkers of a port. `keepable_ns` is that of `margin.py`.

    A late talker does not prevent a push, which may restore ports or give it more time.
    """
    if gates := gates_measured(desired, report, intent):
        verdict, hint = Verdict.OK, None
        if not gates.is_covered:
            verdict, hint = Verdict.WARNING, margin.too_small_hint(gates.wake_ups, keepable_ns())
        if margin.is_refuted(gates.allowed_ns, gates.wake_ups):
            verdict = Verdict.FAILED
        yield Finding(*ref, Check.MARGIN, verdict, gates.text, hint)
    if talkers := talkers_measured(ref.node, report, intent):
        verdict, text, hint = Verdict.OK, talkers.text, None
        if not talkers.is_covered:
            verdict, hint = Verdict.WARNING, lateness.too_small_hint(talkers.wake_ups)
            if lateness.drops_late_frames(intent, ref.node):
                text += ": policing drops frames that are later"
        yield Finding(*ref, Check.LATENESS, verdict, text, hint)
