"""The clock error of a plan where the operator leaves it to the clocks: `clock-error: measured`.

Each clock that follows another has measured how far it was from that one, and two of a network are
apart by no more than all offsets on the way between them (`synchronization_tree.py`).
No clock sees by how much its time stamps and its cable are asymmetric: `UNSEEN_NS` is added there
to each offset for that. These are figures of seconds, and a plan is to hold for longer: it allows
for `ROOM` times as much. `watch` tells when clocks are further apart.
"""

from __future__ import annotations

from cnc.errors import InputError
from cnc.mechanisms.measurements import rounded_up
from cnc.model import ClocksApart, Intent, MeasuredClockError, Plan
from cnc.support.format import duration

ROOM = 2


def with_measured(intent: Intent, apart: ClocksApart | None, running: Plan | None = None) -> Intent:
    """The intent with the clock error that its clocks measured, where it is to be measured.

    As with the gate margin, that of the `running` plan stays as long as clocks are no further
    apart. Without a measurement nothing is added: `require` refuses that.
    """
    if not intent.wants_measured_clock_error or apart is None:
        return intent
    before = running.intent.measured_clock_error if running else None
    if before and apart.apart_ns <= before.value_ns:
        return intent.with_clock_error(before)
    return intent.with_clock_error(MeasuredClockError(rounded_up(ROOM * apart.apart_ns), apart))


def refuse_unmeasured(intent: Intent, outside: list[str]) -> None:
    """Raise InputError where the clock error is to be measured, and the clocks of the nodes
    `outside` have measured nothing."""
    if intent.wants_measured_clock_error and outside:
        raise InputError(
            "defaults.clock-error: found measured, but by what they say the clocks of "
            f"{', '.join(outside)} do not follow the one that the others follow",
            hint="state a duration; or give each switch, and each end station that talks, a "
            "`management` address and a PTP instance (docs/operate/clocks.md)",
        )


def require(intent: Intent) -> None:
    """Raise InputError where the clock error is to be measured and was not."""
    if intent.wants_measured_clock_error and intent.measured_clock_error is None:
        raise InputError(
            "defaults.clock-error: found measured, but no switch has reported how far clocks are "
            "apart",
            hint="`cnc plan --ask-switches` and `cnc push` ask the switches; or state a duration",
        )


def nodes(intent: Intent) -> list[str]:
    """The nodes whose clocks a plan rests on: those with gates, and those that talk."""
    talkers = {stream.talker for stream in intent.streams.values()}
    return sorted({*intent.network.bridges, *talkers})


def source(measured: MeasuredClockError) -> str:
    """Where the clock error comes from, in words."""
    apart = measured.apart
    return (
        f"measured: {ROOM} x {duration(apart.apart_ns)} between {apart.first} and {apart.second}, "
        "rounded up"
    )
