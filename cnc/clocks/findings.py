"""Checks that the switches start a schedule at the same instant: their clocks and PTP daemons."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping

from cnc.clocks.offsets import READ_TOLERANCE_NS
from cnc.clocks.settled import trust
from cnc.clocks.synchronization_tree import ClockTree
from cnc.data_tree.state import SwitchState
from cnc.data_tree.tree import ClockReport, ClockSource
from cnc.finding import Check, Finding, Verdict
from cnc.model import NS_PER_S
from cnc.support.format import counted, duration
from cnc.support.wording import GATES_WAIT_HINT, gates_wait, named

# The controller's clock only dates the history: a second is accurate enough.
CONTROLLER_TOLERANCE_NS = NS_PER_S

_SYNCHRONISE = "synchronise the switches (ptp4l, phc2sys) and set the kernel's TAI offset"


def examine_clocks(states: Mapping[str, SwitchState], clock_error_ns: int) -> Iterator[Finding]:
    """Compares the clocks of the switches with each other, and with this machine's.

    `clock_error_ns` is the difference of two clocks that the plan allows. A reported difference is
    certain: a switch read its clock at some moment between request and reply, and only what no such
    moment explains is a difference. The shorter these times, the closer the agreement shown.
    """
    yield from _waiting_gates(states)
    yield from _tai_offsets(states)
    bounds = {name: state.tai_minus_monotonic_ns() for name, state in states.items()}
    for name, offset in bounds.items():
        if offset is None and _says_no_time(states[name]):
            text = "it does not report its clock, by its profile: nothing here compares it"
            hint = "see that it follows the grandmaster of the network (gPTP)"
            yield Finding(name, None, Check.CLOCKS, Verdict.UNKNOWN, text, hint)
        elif offset is None:
            yield Finding(
                name,
                None,
                Check.CLOCKS,
                Verdict.FAILED,
                "reports no clock for any of its ports",
                "do the port names of the intent exist on the switch?",
            )
    known_bounds = {name: offset for name, offset in bounds.items() if offset is not None}
    if len(known_bounds) > 1:
        yield from _agreement(known_bounds, states, clock_error_ns + READ_TOLERANCE_NS)
    yield from _controller(known_bounds, states)
    findings = list(_ptp(states, clock_error_ns))
    yield from findings
    if all(finding.verdict is not Verdict.FAILED for finding in findings):
        yield from _along_the_tree(states, clock_error_ns)


def _says_no_time(state: SwitchState) -> bool:
    profile = state.agent.profile if state.agent else None
    return profile is not None and not profile.reports_clock


def _waiting_gates(states: Mapping[str, SwitchState]) -> Iterator[Finding]:
    """Of switches that have started and hold stored gates back. No failure: a push that the clocks
    allow sets its gates at once."""
    for name, state in states.items():
        if state.agent and state.agent.gates_wait:
            text = gates_wait(state.agent.gates_wait)
            yield Finding(name, None, Check.GATES_WAIT, Verdict.WARNING, text, GATES_WAIT_HINT)


def _tai_offsets(states: Mapping[str, SwitchState]) -> Iterator[Finding]:
    """0 means that the kernel's offset was never set: CLOCK_TAI is UTC there."""
    offsets_s = {
        name: state.agent.tai_offset_s
        for name, state in states.items()
        if state.agent and state.agent.tai_offset_s is not None
    }
    none_set = not any(offsets_s.values())
    common_s, _ = (Counter(filter(None, offsets_s.values())).most_common(1) or [(0, 0)])[0]
    for name, offset_s in offsets_s.items():
        if none_set:
            text = "the TAI offset is 0 s on every switch: CLOCK_TAI equals UTC"
            hint = "schedules are consistent with each other; tsn-clock sets the offset (37 s)"
        elif offset_s != common_s:
            text = f"TAI offset {offset_s} s, others have {common_s} s"
            hint = "let ptp4l and phc2sys, or chrony with leapsectz, set it on every switch"
        else:
            yield Finding(name, None, Check.TAI_OFFSET, Verdict.OK, f"{offset_s} s")
            continue
        yield Finding(name, None, Check.TAI_OFFSET, Verdict.WARNING, text, hint)


def _agreement(
    bounds: Mapping[str, tuple[int, int]], states: Mapping[str, SwitchState], allowed_ns: int
) -> Iterator[Finding]:
    """Compares each with those that are, for certain, furthest ahead and furthest behind."""
    behind = min(bounds, key=lambda name: bounds[name][1])
    ahead = max(bounds, key=lambda name: bounds[name][0])
    difference_ns = bounds[ahead][0] - bounds[behind][1]
    if difference_ns > allowed_ns:
        offsets = {name: state.agent.tai_offset_s for name, state in states.items() if state.agent}
        yield Finding(
            ahead,
            None,
            Check.CLOCKS,
            Verdict.FAILED,
            f"the TAI clock of {ahead} is at least {difference_ns / NS_PER_S:.6f} s ahead of that "
            f"of {behind} (TAI offsets in seconds: "
            f"{', '.join(f'{name} {offset}' for name, offset in sorted(offsets.items()))})",
            _SYNCHRONISE,
        )
        return
    for name, (lower_ns, upper_ns) in bounds.items():
        # Upper bound of the difference to the others.
        widest_ns = max(upper_ns - bounds[behind][0], bounds[ahead][1] - lower_ns)
        text = f"within {duration(widest_ns)} of the others, as measured over NETCONF"
        yield Finding(name, None, Check.CLOCKS, Verdict.OK, text)


def _controller(
    bounds: Mapping[str, tuple[int, int]], states: Mapping[str, SwitchState]
) -> Iterator[Finding]:
    """Compares with this machine's UTC: its TAI offset is not used."""
    utc_ns = time.time_ns() - time.monotonic_ns()
    for name, (lower_ns, upper_ns) in bounds.items():
        agent = states[name].agent
        offset_ns = (agent.tai_offset_s or 0) * NS_PER_S if agent else 0
        ahead_ns, behind_ns = lower_ns - offset_ns - utc_ns, utc_ns - upper_ns + offset_ns
        difference_ns = max(ahead_ns, behind_ns)
        if difference_ns <= CONTROLLER_TOLERANCE_NS:
            text = "the same time as here"
            yield Finding(name, None, Check.CONTROLLER_CLOCK, Verdict.OK, text)
            continue
        side = "ahead of" if ahead_ns > behind_ns else "behind"
        yield Finding(
            name,
            None,
            Check.CONTROLLER_CLOCK,
            Verdict.WARNING,
            f"its clock is at least {duration(difference_ns)} {side} this machine's",
            "schedules follow the switches' clocks; correct the wrong clock (chrony, ptp4l)",
        )


def _ptp(states: Mapping[str, SwitchState], clock_error_ns: int) -> Iterator[Finding]:
    daemons = {name: state.agent.ptp for name, state in states.items() if state.agent}
    leaders = Counter(ptp.grandmaster for ptp in daemons.values() if ptp and ptp.is_locked)
    leader, _ = (leaders.most_common(1) or [("", 0)])[0]
    for name, ptp in daemons.items():
        if (agent := states[name].agent) and agent.profile:
            continue  # its PTP is not asked for
        clock = _clock_of(states[name])
        # A ptp4l that the agent does not manage says more of the clock than the kernel does.
        if clock and (ptp is None or _is_managed(clock)):
            yield _trusted(name, states[name], clock, clock_error_ns, is_alone=len(states) == 1)
            if ptp is None or not ptp.is_locked:
                continue
        if ptp is None:
            text = "no ptp4l answers the agent: the source of its clock is unknown"
            yield Finding(name, None, Check.PTP, Verdict.UNKNOWN, text)
            continue
        offset_ns, hint = ptp.offset_from_master_ns or 0, None
        if not ptp.is_locked:
            verdict, text = Verdict.FAILED, f"not locked: {named(ptp.port_states) or 'no port'}"
            hint = "wait until a port of its ptp4l is in the state slave; its log says why not"
        elif ptp.grandmaster != leader:
            verdict, text = Verdict.WARNING, f"follows {ptp.grandmaster}, others {leader}"
            hint = "one PTP domain needs one grandmaster: is a cable or a priority wrong?"
        elif abs(offset_ns) > clock_error_ns:
            text = (
                f"{duration(offset_ns)} off its master; the plan allows {duration(clock_error_ns)}"
            )
            verdict, hint = Verdict.WARNING, "let it settle, or plan with a larger `clock-error`"
        elif ptp.is_grandmaster:
            verdict, text = Verdict.OK, f"grandmaster {ptp.grandmaster}"
        else:
            verdict = Verdict.OK
            text = f"locked to {ptp.grandmaster}, {duration(offset_ns)} off its master"
        yield Finding(name, None, Check.PTP, verdict, text, hint)


def _along_the_tree(states: Mapping[str, SwitchState], clock_error_ns: int) -> Iterator[Finding]:
    """Each clock may be close to the one that it follows, and two of them too far apart."""
    apart = ClockTree(states).widest()
    if apart is None or apart.links == 0 or apart.apart_ns <= clock_error_ns:
        return
    yield Finding(
        apart.second,
        None,
        Check.PTP,
        Verdict.FAILED,
        f"up to {duration(apart.apart_ns)} from {apart.first}, by the offsets of "
        f"{counted(apart.links, 'clock')} on the way, added; the plan allows "
        f"{duration(clock_error_ns)}",
        "plan with a larger `clock-error`, or make the paths to the grandmaster shorter: give a "
        "switch in the middle the lowest priority1",
    )


def _clock_of(state: SwitchState) -> ClockReport | None:
    return state.agent.clock if state.agent else None


def _is_managed(clock: ClockReport) -> bool:
    return clock.source is ClockSource.MANAGED


def _trusted(
    name: str, state: SwitchState, clock: ClockReport, clock_error_ns: int, *, is_alone: bool
) -> Finding:
    """One that is not settled is a failure, unless it is unmanaged and there is no other."""
    found = trust(clock, state.agent.tai_offset_s if state.agent else None, clock_error_ns)
    if found.is_settled is None:
        return Finding(name, None, Check.PTP, Verdict.UNKNOWN, found.text)
    if found.is_settled:
        followed = "schedules follow the instance without free-running" if clock.others else None
        return Finding(name, None, Check.PTP, Verdict.OK, found.text, followed)
    if _is_managed(clock):
        hint = (
            "wait until the clock has settled, or plan with a larger `clock-error`; "
            "the log of tsn-clock says what ptp4l does"
        )
        return Finding(name, None, Check.PTP, Verdict.FAILED, found.text, hint)
    verdict = Verdict.WARNING if is_alone else Verdict.FAILED
    hint = "let the agent manage ptp4l, or run chrony with leapsectz, or ptp4l and phc2sys"
    return Finding(name, None, Check.PTP, verdict, found.text, hint)
