"""Who crosses which port, and how late: what changes go on from, and what is taken back."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, MutableMapping, Sequence
from typing import TypeVar

from cnc.model import GateControlList, Intent, Link, PortRef
from cnc.planner.endless import Why
from cnc.planner.lateness.port import Port
from cnc.planner.pauses import Behind, Sending
from cnc.planner.route import Member
from cnc.planner.visits import Visit

_NOTHING = object()

_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value")


class State:
    """Visits of frames to ports by number, what talkers send, and ports with what they clear.

    `recovered_ns` is by link how long after a disturbance frames may leave it late; links are
    missing that frames may leave late for ever, for what this account finds, and `why` says why.
    """

    def __init__(
        self, intent: Intent, links: Sequence[Link], gates: Mapping[PortRef, GateControlList]
    ) -> None:
        self.intent = intent
        self.links = links
        self.gates = gates
        self.disturbance_ns = intent.network.disturbance_ns or 0
        self.next = 0
        self.visits: dict[int, Visit] = {}
        # How long after its latest time on plan each may come.
        self.late: dict[int, int] = {}
        self.children: dict[int, list[int]] = {}
        self.numbers: dict[Member, list[int]] = {}
        self.sends: dict[Member, list[int]] = {}  # the links of its talker
        self.crossing: defaultdict[int, dict[int, None]] = defaultdict(dict)
        self.fed_by: defaultdict[int, dict[int, None]] = defaultdict(dict)  # by talkers' links
        self.sent: defaultdict[int, dict[Member, Sending]] = defaultdict(dict)
        self.behind: dict[int, Behind] = {}
        self.busy: dict[int, None] = {}  # links of talkers that never catch up
        self.ports: dict[int, Port] = {}
        self.feeders: dict[int, dict[int, int]] = {}
        self.why: dict[int, Why] = {}
        self.slack: dict[int, None] = {}  # ports at which figures may come down
        self.chains: dict[frozenset[int], int | None] = {}
        self.changed: set[int] = set()
        self.recovered_ns: dict[int, int] = {}
        self._undo: list[tuple[MutableMapping[object, object], object, object]] | None = None
        self._before_ns: dict[int, int] = {}

    def keep(self) -> None:
        """From here on `back` takes all back."""
        self._undo, self._before_ns = [], self.recovered_ns

    def back(self) -> None:
        """Be as when `keep` was called."""
        for mapping, key, value in reversed(self._undo or ()):
            if value is _NOTHING:
                mapping.pop(key, None)
            else:
                mapping[key] = value
        self.recovered_ns = self._before_ns
        self._undo = None

    def done(self) -> None:
        """No more of what was done since `keep` is to be taken back."""
        self._undo = None

    def put(self, mapping: MutableMapping[_Key, _Value], key: _Key, value: _Value) -> None:
        if self._undo is not None:
            self._undo.append((mapping, key, mapping.get(key, _NOTHING)))  # type: ignore[arg-type]
        mapping[key] = value

    def drop(self, mapping: MutableMapping[_Key, _Value], key: _Key) -> None:
        if key in mapping:
            if self._undo is not None:
                self._undo.append((mapping, key, mapping[key]))  # type: ignore[arg-type]
            del mapping[key]

    def is_left_out(self, link: int) -> bool:
        """Whether frames may leave by a link late for ever."""
        return link not in self.ports and link in self.feeders

    def leave_out(self, late: Iterable[int]) -> None:
        """Take those ports out at which frames stay late, and all to which such frames go on."""
        waiting = list(late)
        for link in waiting:
            is_known = self.is_left_out(link)
            self.put(self.feeders, link, {})
            self.drop(self.ports, link)
            if not is_known:
                children = (c for n in self.crossing[link] for c in self.children.get(n, ()))
                waiting += dict.fromkeys(self.visits[child].link for child in children)

    def later_ns(self, number: int) -> int:
        """How much later than on plan a frame that comes late may still be there."""
        visit = self.visits[number]
        last_comes_ns = visit.latest_ns + visit.spread_ns + self.late[number]
        return max(0, last_comes_ns - visit.gone_ns)
