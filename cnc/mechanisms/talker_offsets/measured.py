"""The lateness of talkers as a figure that end stations measure."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import TYPE_CHECKING

from cnc.data_tree.tree import TalkerReport
from cnc.finding import Check, Finding, Verdict
from cnc.mechanism import Exceeded, Figure, Measured, OnPort, OnPorts
from cnc.mechanisms.measurements import SENT, covers, figures, measured_on
from cnc.mechanisms.talker_offsets import lateness
from cnc.model import Intent, Plan, PortRef, PortSettings
from cnc.support.format import duration

if TYPE_CHECKING:
    from cnc.data_tree.stated import StatedPorts
    from cnc.data_tree.tree import PortReport


class Kind(StrEnum):
    """The kinds of conditions."""

    TALKER_LATENESS = "talker-lateness"  # talkers send later than the plan allows


def _kept(intent: Intent, then: Intent) -> Intent:
    return intent.with_lateness(
        {
            name: its
            for name, its in then.measured_lateness.items()
            if name in intent.network.end_stations and not intent.states_lateness(name)
        }
    )


def _exceeded(running: Intent, now: Intent, stated: StatedPorts) -> Iterator[Exceeded]:
    for station, (port, measured) in lateness.latest(stated.lateness).items():
        allowed_ns = running.network.lateness_ns(station)
        if not covers(allowed_ns, measured):
            yield Exceeded(
                f"talkers of {port} were measured up to {figures(measured, SENT)}; "
                f"the running plan allows for {duration(allowed_ns)}",
                None if running.states_lateness(station) else now.network.lateness_ns(station),
                lateness.too_small_hint(measured, _key(running, station)),
            )


def _figures(plan: Plan) -> Iterator[Figure]:
    for station, measured in sorted(plan.intent.measured_lateness.items()):
        source = measured_on(measured, SENT)
        yield Figure(f"talker lateness of {station}", measured.value_ns, source)


def _warnings(plan: Plan, _is_new: bool) -> Iterator[tuple[str, str]]:
    if text := lateness.warning(plan.intent):
        yield text, lateness.HINT


def _on_ports(intent: Intent) -> OnPorts:
    """Of the port of an end station whose talkers say how late they were; None of others.

    A late talker does not prevent a push, which may restore ports or give it more time.
    """

    def on_port(ref: PortRef, _desired: PortSettings | None, report: PortReport) -> OnPort | None:
        said = report[TalkerReport].lateness
        if not said:
            return None
        worst = max(said.values(), key=lambda each: each.maximum_ns)
        allowed_ns = intent.network.lateness_ns(ref.node)
        text = (
            f"its talkers send up to {figures(worst, SENT)}; the plan allows for "
            f"{duration(allowed_ns)}"
        )
        is_allowed = covers(allowed_ns, worst)

        def finding() -> Finding:
            if is_allowed:
                return Finding(*ref, Check.LATENESS, Verdict.OK, text)
            remark = ""
            if lateness.drops_late_frames(intent, ref.node):
                remark = ": policing drops frames that are later"
            hint = lateness.too_small_hint(worst, _key(intent, ref.node))
            return Finding(*ref, Check.LATENESS, Verdict.WARNING, f"{text}{remark}", hint)

        return OnPort(text, is_allowed, finding)

    return on_port


def _key(intent: Intent, station: str) -> str:
    return intent.network.end_stations[station].lateness_key


MEASURED = Measured(
    check=Check.LATENESS,
    taken=lambda intent, stated, running: lateness.with_measured(intent, stated.lateness, running),
    kept=_kept,
    refuse=lambda intent, stated: lateness.refuse_refuted(intent, stated.lateness),
    exceeded=_exceeded,
    figures=_figures,
    warnings=_warnings,
    on_ports=_on_ports,
    kind=Kind.TALKER_LATENESS,
)
"""How late talkers send."""
