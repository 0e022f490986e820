"""The gate margin of a plan: what it rests on, what it costs, and whether it is enough.

A gate in software opens when a timer of the kernel wakes up, and that is late. A frame planned for
that instant leaves as late, or not at all if its window is then too short. So a plan allows for a
margin: what the operator states; else what the switches have measured, rounded up; else a constant.
"""

from __future__ import annotations

from collections.abc import Mapping

from cnc.errors import InputError
from cnc.finding import FORCE_HINT
from cnc.mechanisms.measurements import (
    covers,
    figures,
    in_intent,
    is_enough,
    measured_on,
    rounded_up,
)
from cnc.model import (
    GateMode,
    Intent,
    MeasuredMargin,
    Plan,
    PortRef,
    WakeUps,
)
from cnc.support import exact_clock
from cnc.support.format import counted, duration

HINT = (
    "gate-margin: 50us under `defaults` of the intent, or how late the switch's timers wake up at "
    "worst; `gates: full-offload` needs none"
)
# A machine that starts is late once. One that is so much later than a plan allows for, after so
# many wake-ups, is no machine for that plan.
FAR = 10
FEW = 100


def warning(plan: Plan, switch: str | None = None) -> str | None:
    """What to say of ports, of one node or of all, that change gates by timer without a margin.

    None where there are none, or where the clock is virtual and a timer is never late.
    """
    network = plan.intent.network
    ports = sum(
        network.gate_mode(port.node) is GateMode.SOFTWARE and port.node == (switch or port.node)
        for port in plan.gates
    )
    if not ports or network.gate_margin_ns or exact_clock.is_exact():
        return None
    return (
        f"{counted(ports, 'port')} with software gates and gate-margin 0ns: a timer that is late "
        "misses the window, and frames may never leave"
    )


def with_measured(
    intent: Intent, wake_ups: Mapping[PortRef, WakeUps], running: Plan | None = None
) -> Intent:
    """The intent with the gate margin that the switches measured, unless the operator states one.

    The margin of the `running` plan stays as long as no gate was later: a plan that changed with
    each measurement would move every stream each time. Too few wake-ups to tell do not make the
    margin smaller than the constant.
    """
    found = latest(intent, wake_ups)
    if intent.states_gate_margin or found is None:
        return intent
    port, worst = found
    if running and not running.intent.states_gate_margin:
        before = running.intent
        if covers(before.network.gate_margin_ns, worst):
            return intent.with_gate_margin(before.network.gate_margin_ns, before.measured_margin)
    if not is_enough(worst) and covers(intent.network.gate_margin_ns, worst):
        return intent
    value_ns = 0 if covers(0, worst) else rounded_up(worst.maximum_ns)
    measured = MeasuredMargin(value_ns, port, worst.maximum_ns, worst.count)
    return intent.with_gate_margin(value_ns, measured)


def refuse_refuted(intent: Intent, wake_ups: Mapping[PortRef, WakeUps]) -> None:
    """Raise InputError where the switches measured more than the margin that the operator states.

    Which measurements suffice for that, `is_refuted` says.
    """
    margin_ns = intent.network.gate_margin_ns
    found = latest(intent, wake_ups)
    if not intent.states_gate_margin or found is None:
        return
    port, worst = found
    if is_refuted(margin_ns, worst):
        raise InputError(
            f"defaults.gate-margin: found {in_intent(margin_ns)}, but {port} opens its gates "
            f"up to {figures(worst)}",
            hint=f"{too_small_hint(worst, keepable_ns(intent))}; {FORCE_HINT}",
        )


def latest(intent: Intent, wake_ups: Mapping[PortRef, WakeUps]) -> tuple[PortRef, WakeUps] | None:
    """The port whose gates were latest, of those that wait for a timer by the intent; of several
    the last by name. None where none of them has measured anything."""
    software = {
        port: its
        for port, its in wake_ups.items()
        if intent.network.gate_mode(port.node) is GateMode.SOFTWARE
    }
    return max(software.items(), key=lambda item: (item[1].maximum_ns, item[0]), default=None)


def keepable_ns(intent: Intent) -> int:
    """By how much each sender on the way of a frame may be late, one after the other, within the
    shortest period: a larger gate margin is hard to plan with.

    The ways are those with the fewest links.
    """
    shortest_ns = min((each.period_ns for each in intent.streams.values()), default=0)
    listeners: dict[str, set[str]] = {}
    for each in intent.streams.values():
        if each.period_ns == shortest_ns:
            listeners.setdefault(each.talker, set()).update(each.listeners)
    onward: dict[str, list[str]] = {}
    for port, link in intent.network.links.items():
        onward.setdefault(port.node, []).append(link.target.node)
    senders = (_senders(intent, onward, talker, its) for talker, its in listeners.items())
    return shortest_ns // max(senders, default=1)


def _senders(
    intent: Intent, onward: Mapping[str, list[str]], talker: str, listeners: set[str]
) -> int:
    """How many nodes send a frame on its way to the farthest of `listeners`."""
    senders, reached, edge = 0, {talker}, {talker}
    while edge and not listeners <= reached:
        forwarding = [each for each in edge if each == talker or each in intent.network.bridges]
        edge = {target for each in forwarding for target in onward.get(each, ())} - reached
        reached |= edge
        senders += 1
    return senders


def is_refuted(margin_ns: int, measured: WakeUps) -> bool:
    """Whether a plan with this margin must not be pushed.

    Without a margin a plan needs gates that are never late: one that was refutes it. A margin is
    refuted once there are enough wake-ups, or by few if it is exceeded by far; before, a late one
    may have been that of a machine that was starting.
    """
    if covers(margin_ns, measured):
        return False
    by_far = measured.count > FEW and measured.maximum_ns >= FAR * margin_ns
    return not margin_ns or is_enough(measured) or by_far


def too_small_hint(measured: WakeUps, keepable_ns: int) -> str:
    """What to do about a margin that is too small; to state a larger one than `keepable_ns` is of
    little use."""
    needed_ns = rounded_up(measured.maximum_ns)
    if needed_ns > keepable_ns:
        factor = rounded_up(-(-needed_ns // max(1, keepable_ns)))
        return (
            "gates that are so late are too late for these streams: within the shortest period "
            f"each sender on the way may be late by {duration(keepable_ns)}. Use a real-time "
            "kernel (PREEMPT_RT) or `gates: full-offload`; in a lab virtual time, or "
            f"`cnc lab up --slower {factor}`"
        )
    return (
        f"state `gate-margin: {in_intent(needed_ns)}`, or leave it out and let "
        "`cnc plan --ask-switches` or `cnc push INTENT` take what is measured; a real-time kernel "
        "(PREEMPT_RT) wakes up earlier, and `gates: full-offload` needs no margin"
    )


def source(intent: Intent) -> str:
    """Where the gate margin comes from, in words."""
    if intent.states_gate_margin:
        return "as the intent states"
    if intent.measured_margin is None:
        return "the default; `--ask-switches` takes what is measured"
    return measured_on(intent.measured_margin)
