"""Compares what control classes send by a port with the token bucket that the plan allows for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from cnc.data_tree.state import SwitchState
from cnc.data_tree.tree import GatesReport
from cnc.finding import Check
from cnc.mechanism import Followed
from cnc.mechanisms.gates.kinds import Kind
from cnc.model import NS_PER_S, ClassRole, Intent, Link
from cnc.support.format import rate

HINT = (
    "state the `rate` and `burst` of the control class as they are, plan and push again; or mark "
    "the traffic otherwise: its DSCP or PCP puts it into a control class"
)
_SECOND_LOOK_S = 2
_FCS_OCTETS = 4  # the kernel counts frames without it


class _Look(NamedTuple):
    """What control has sent by the time of a look, in octets on the wire."""

    asked_ns: int
    sent_frames: int
    sent_octets: int


class ControlTraffic:
    """Compares the looks at one node: what control sends between two is at most its burst, and its
    rate for the time that may have passed (RFC 2697), as the planner counts.

    The counters have run since the agent has set taprio. If they say more than the rate allows
    since the list began, a second look can tell whether it goes on.
    """

    def __init__(self, intent: Intent, node: str) -> None:
        self._intent = intent
        self._numbers = [each.number for each in intent.classes_with(ClassRole.CONTROL)]
        self._links = {
            port.port: link for port, link in intent.network.links.items() if port.node == node
        }
        self._before: dict[str, _Look] = {}
        self.next_poll_s = 0.0

    def update(self, state: SwitchState) -> dict[str, str]:
        """After this look: what is sent beyond what is allowed, by port."""
        before, self._before, self.next_poll_s = self._before, {}, 0.0
        found = {}
        for port, gates, now in self._sent(state):
            link, then = self._links[port], before.get(port)
            self._before[port] = now
            # The counters begin again when the agent sets taprio anew.
            if then and then.sent_frames <= now.sent_frames:
                lasted_ns = state.answered_ns - then.asked_ns
                sent_octets = now.sent_octets - then.sent_octets
                if lasted_ns > 0 and sent_octets > self._allowed_octets(link, lasted_ns):
                    found[port] = self._text(link, sent_octets, lasted_ns)
            elif gates.running and gates.current_time_ns:
                since_ns = gates.current_time_ns - gates.running.base_time_ns
                if now.sent_octets > self._allowed_octets(link, max(since_ns, 0)):
                    self.next_poll_s = _SECOND_LOOK_S
        return found

    def _sent(self, state: SwitchState) -> Iterator[tuple[str, GatesReport, _Look]]:
        """What control has sent by each port that counts it."""
        beside = _FCS_OCTETS + self._intent.network.overhead.physical_octets
        for port in state.ports.keys() & self._links.keys():
            gates = state.ports[port][GatesReport]
            sent = (gates.traffic.get(number) for number in self._numbers)
            counted = [each for each in sent if each and each.sent_octets is not None]
            if counted:
                frames = sum(each.sent_frames for each in counted)
                octets = sum(each.sent_octets or 0 for each in counted)
                yield port, gates, _Look(state.asked_ns, frames, octets + frames * beside)

    def _allowed_octets(self, link: Link, lasted_ns: int) -> int:
        """The most that control may send in a time, beside a frame for which it had to wait."""
        longest = max(c.max_frame_octets for c in self._intent.classes.values())
        waited_ns = (longest + self._intent.network.overhead.physical_octets) * 8 * NS_PER_S
        total_ns = lasted_ns + waited_ns // link.rate_bps
        earned = self._intent.control_rate_bps(link) * total_ns // (8 * NS_PER_S)
        return self._intent.control_burst_octets() + earned

    def _text(self, link: Link, sent_octets: int, lasted_ns: int) -> str:
        sent_bps = sent_octets * 8 * NS_PER_S // lasted_ns
        return (
            f"control classes sent {rate(sent_bps)} in {lasted_ns // NS_PER_S} s, the plan "
            f"allows for {rate(self._intent.control_rate_bps(link))}: scheduled frames behind "
            "it may be late"
        )


FOLLOWED = Followed(Check.CONTROL, Kind.CONTROL_RATE, HINT, ControlTraffic)
"""Control classes that send more than the plan allows for."""
