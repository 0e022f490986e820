"""How late talkers are by a plan: what it rests on, and whether that is enough.

A frame leaves its talker later than planned by what the program needs after it has woken up. A
plan allows for what the operator states of the end station; else for what its talkers have
measured, rounded up, where its agent says so; else for the gate margin.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cnc.errors import InputError
from cnc.mechanisms.measurements import SENT, covers, figures, in_intent, is_enough, rounded_up
from cnc.mechanisms.terms import may_be_dropped
from cnc.model import GateMode, Intent, MeasuredMargin, Plan, PortRef, WakeUps
from cnc.support import exact_clock
from cnc.support.format import duration

HINT = (
    "`talker-lateness: 50us` of the end station, or under `defaults`, or how late its program is "
    "at worst; `0ns` if it sends by launch time in hardware; `--ask-switches` takes what talkers "
    "of stations with an agent measured"
)
_NAMED_MAX = 5


def warning(intent: Intent) -> str | None:
    """What to say of talkers that are taken to be exact because nobody says how late they are.

    None where software gates have no margin either (`margin.warning` tells of these), and where the
    clock is virtual and a talker is never late.
    """
    network = intent.network
    if network.gate_margin_ns or exact_clock.is_exact():
        return None
    if any(bridge.gate_mode is GateMode.SOFTWARE for bridge in network.bridges.values()):
        return None
    exact = sorted(
        {
            stream.talker
            for stream in intent.streams.values()
            if network.end_stations[stream.talker].lateness_ns is None
        }
    )
    if not exact:
        return None
    names = ", ".join(exact[:_NAMED_MAX])
    if len(exact) > _NAMED_MAX:
        names += f" and {len(exact) - _NAMED_MAX} more"
    return (
        f"no talker-lateness is stated of {names}: the plan takes each frame to leave its talker "
        "to the nanosecond when it is due. One that a program sends later breaks its bound, makes "
        "others late, and is dropped where policing says drop"
    )


def with_measured(
    intent: Intent, measured: Mapping[PortRef, WakeUps], running: Plan | None = None
) -> Intent:
    """The intent with the lateness that talkers measured, unless the operator states one of their
    end station.

    As with the gate margin, that of the `running` plan stays as long as no talker was later, and
    too few periods to tell do not make it smaller than the default.
    """
    taken = {
        station: found
        for station, (port, worst) in latest(measured).items()
        if not intent.states_lateness(station)
        and (found := _taken(intent, port, worst, running.intent if running else None))
    }
    return intent.with_lateness(taken) if taken else intent


def refuse_refuted(intent: Intent, measured: Mapping[PortRef, WakeUps]) -> None:
    """Raise InputError where the first switch would drop frames of talkers that were measured to be
    later than the operator states, or where talkers were late by a period and more.

    Where frames are counted only, what is stated holds: `cnc doctor` tells of it.
    """
    for station, (port, worst) in sorted(latest(measured).items()):
        text = f"{port} sends up to {figures(worst, SENT)}"
        key = intent.network.end_stations[station].lateness_key
        if intent.states_lateness(station):
            lateness_ns = intent.network.lateness_ns(station)
            stream = next(_dropped(intent, station), None)
            if stream and not covers(lateness_ns, worst):
                raise InputError(
                    f"{key} of {station}: found {in_intent(lateness_ns)}, but "
                    f"{text}, and policing drops later frames of {stream}",
                    hint=too_small_hint(worst, key),
                )
        elif station in intent.measured_lateness:
            shortest = min(_streams(intent, station), default=None)
            if shortest and shortest[0] <= intent.network.lateness_ns(station):
                raise InputError(
                    f"{text}, and stream {shortest[1]} has a period of {duration(shortest[0])}",
                    hint=f"state `{key}` of {station}, less than the period: later "
                    "frames are then out of their window; or let the talker be punctual "
                    "(be_punctual, PREEMPT_RT) and start it again",
                )


def latest(measured: Mapping[PortRef, WakeUps]) -> dict[str, tuple[PortRef, WakeUps]]:
    """By end station the port whose talkers were latest; of several the last by name."""
    ordered = sorted(measured.items(), key=lambda item: (item[1].maximum_ns, item[0]))
    return {port.node: (port, its) for port, its in ordered}


def drops_late_frames(intent: Intent, station: str) -> bool:
    """Whether a first switch may drop frames of the station that are later than planned."""
    return next(_dropped(intent, station), None) is not None


def too_small_hint(measured: WakeUps, key: str) -> str:
    """What to do about a lateness that talkers exceed, which an operator states by this key."""
    needed = in_intent(rounded_up(measured.maximum_ns))
    return (
        f"state `{key}: {needed}`, or leave it out and let `cnc plan --ask-switches` or "
        "`cnc push INTENT` take what is measured; or `policing: count`; a talker with real-time "
        "priority (be_punctual) on a real-time kernel is earlier; restart it to begin a "
        "new count"
    )


def _taken(
    intent: Intent, port: PortRef, worst: WakeUps, running: Intent | None
) -> MeasuredMargin | None:
    """The lateness to plan with; None: the default."""
    if running and port.node in running.network.end_stations:
        before = running.measured_lateness.get(port.node)
        if before and covers(before.value_ns, worst):
            return before
        is_kept = before is None and not running.states_lateness(port.node)
    else:
        is_kept = False
    if covers(intent.network.gate_margin_ns, worst) and (is_kept or not is_enough(worst)):
        return None
    value_ns = 0 if covers(0, worst) else rounded_up(worst.maximum_ns)
    return MeasuredMargin(value_ns, port, worst.maximum_ns, worst.count)


def _streams(intent: Intent, station: str) -> Iterator[tuple[int, str]]:
    """Period and name of the streams that it sends."""
    for name, stream in intent.streams.items():
        if stream.talker == station:
            yield stream.period_ns, name


def _dropped(intent: Intent, station: str) -> Iterator[str]:
    """The streams of which a first switch drops late frames, in a class that they may have."""
    for _period_ns, name in sorted(_streams(intent, station)):
        if may_be_dropped(intent, name):
            yield name
