"""Figures on which a plan rests that switches and talkers have exceeded while it ran.

An intent that does not state its gate margin, the lateness of its talkers or its clock error
leaves them to measurement, and the latest wake-up of a plan's life may come at any time. The
switches run what they were given all the same: that is not a difference of their configuration.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from cnc.mechanisms.gates import margin
from cnc.mechanisms.talker_offsets import lateness
from cnc.model import Intent
from cnc.support.format import duration

if TYPE_CHECKING:
    from cnc.data_tree.stated import StatedPorts


class Exceeded(NamedTuple):
    """One such figure, in words.

    `planned_ns` is what a push of the intent would plan with now; None where the operator states
    the figure. `hint` says what to do then.
    """

    text: str
    planned_ns: int | None
    hint: str


def exceeded(running: Intent, now: Intent, stated: StatedPorts) -> Iterator[Exceeded]:
    """The figures of the intent that runs which are exceeded by what nodes have `stated`; `now` is
    the same intent as a push would plan it."""
    found = margin.latest(running, stated.wake_ups)
    if found and not margin.covers(running.network.gate_margin_ns, found[1]):
        port, measured = found
        yield Exceeded(
            f"gates of {port} were measured up to {margin.figures(measured)}; the running plan "
            f"allows for {duration(running.network.gate_margin_ns)}",
            None if running.states_gate_margin else now.network.gate_margin_ns,
            margin.too_small_hint(measured, margin.keepable_ns(running)),
        )
    for station, (port, measured) in lateness.latest(stated.lateness).items():
        allowed_ns = lateness.allowed_ns(running, station)
        if not margin.covers(allowed_ns, measured):
            yield Exceeded(
                f"talkers of {port} were measured up to {margin.figures(measured, lateness.SENT)}; "
                f"the running plan allows for {duration(allowed_ns)}",
                None if running.states_lateness(station) else lateness.allowed_ns(now, station),
                lateness.too_small_hint(measured),
            )
    before, apart = running.measured_clock_error, stated.clocks
    if before and apart and apart.apart_ns > before.value_ns:
        yield Exceeded(
            f"the clocks of {apart.first} and {apart.second} were measured up to "
            f"{duration(apart.apart_ns)} apart; the running plan allows for "
            f"{duration(before.value_ns)}",
            now.network.clock_error_ns,
            "let the clocks settle, or state a `clock-error` under `defaults` of the intent",
        )
