"""The streams of ports in the kernel: a filter each, at the ingress or the egress of the port.

They stand before all other filters of the agent: what a frame of a stream gets is not changed by
filters that look at tags or code points, which it had not, or has not any more.
"""

from __future__ import annotations

import errno
from collections.abc import Collection, Iterable, Iterator, Mapping, Set
from itertools import count
from typing import NamedTuple

from pyroute2 import IPRoute

from agent.kernel import clsact
from agent.kernel.cls_flower import ANY_PROTOCOL, EGRESS, INGRESS
from agent.kernel.filter_adapter import FilterAdapter, in_force, require_hardware
from agent.kernel.filter_flags import SKIP_SW, flags_for
from agent.kernel.flower_filters import (
    FlowerFilter,
    Key,
    Listed,
    Place,
    delete_filter,
    probe_action,
    read_filters,
    set_filter,
)
from agent.kernel.frame_actions import Continue, PushVlan, SetDestination, SetPriority
from agent.kernel.netlink_batch import Message, raise_first
from agent.kernel.refusal import reason
from agent.mechanism import Node
from agent.mechanisms.identification.filters import (
    IPV4,
    IPV6,
    VLAN,
    incoming_filter,
    ingress_stream,
    named_filter,
    outgoing_filter,
    outgoing_stream,
    protocol_of,
)
from agent.mechanisms.identification.model import (
    IdentificationConfig,
    IdentificationState,
    IdentificationTable,
    Incoming,
    Named,
    Outgoing,
    Stream,
)
from agent.mechanisms.identification.rules import StreamFilters
from agent.model import PortConfig

# The places of this mechanism: hook, `prio` (of all: `agent.kernel.filter_adapter`) and
# the Ethertype that the kernel keeps for it.
_PRIOS = {
    (INGRESS, 0x7900): IPV4,
    (INGRESS, 0x7901): IPV6,
    (INGRESS, 0x7902): ANY_PROTOCOL,
    (INGRESS, 0x7903): VLAN,
    (EGRESS, 0x7900): VLAN,
}
_PRIO_BY_PROTOCOL = {(hook, protocol): prio for (hook, prio), protocol in _PRIOS.items()}
_ACTIONS = (SetDestination.KIND, PushVlan.KIND, SetPriority.KIND, Continue.KIND)
_GONE = frozenset({errno.ENOENT})


class _Wanted(NamedTuple):
    """A filter and where it belongs; the kernel takes one filter of the same keys there."""

    hook: int
    prio: int
    filter: FlowerFilter

    @property
    def matched(self) -> _Matched:
        return _matched(self.hook, self.prio, self.filter.keys)


_Matched = tuple[int, int, frozenset[tuple[int, bytes]]]


class IdentificationAdapter(FilterAdapter):
    """Needs CAP_NET_ADMIN. Not to be used by two threads at once."""

    filter_words = "a filter (flower) of a stream"
    object_words = "the stream filters"

    def __init__(self, _ipr: IPRoute) -> None:
        super().__init__(StreamFilters)
        self._is_able = False  # a kernel that has all actions is not asked again

    def capability(self) -> str | None:
        """Asks for each action in a way that is refused before anything is made.

        The classifier cannot be asked for without a queueing discipline on some interface: a kernel
        that has no cls_flower refuses the first filter, and all that was done before is undone.
        """
        if self._is_able:
            return None
        for kind in _ACTIONS:
            refusals = self._kernel.send([probe_action(kind)])
            if any(each.error.code == errno.ENOENT for each in refusals):
                return (
                    f"this kernel has no act_{kind}: {reason(refusals[0].error)}; load the module "
                    f"or boot a kernel with CONFIG_NET_ACT_{kind.upper()}"
                )
        self._is_able = True
        return None

    def leaves(self) -> Node:
        why = self.capability()
        return {"identification-refused": why} if why else {}

    def problems(self, config: PortConfig) -> Iterator[str]:
        if config[IdentificationConfig].table and (why := self.capability()):
            yield why

    def _listed(self, ifindex: int) -> list[Listed]:
        """What flower has in our places. One of another classifier keeps the kernel from taking
        ours there, and says so when they are set."""
        return [
            each
            for hook, prio in _PRIOS
            for each in read_filters(self._kernel, ifindex, hook, prio)
            if each.keys is not None
        ]

    def _part(
        self, listed: Collection[Listed], *, in_switch: bool
    ) -> tuple[IdentificationState, bool]:
        """Disturbed where a filter is none of a stream."""
        frames: dict[Stream, int] = {}
        for each in listed:
            acting = in_force(each, in_switch=in_switch)
            if acting is None:
                continue
            stream = (
                ingress_stream(acting, in_switch=in_switch)
                if each.place.hook == INGRESS
                else outgoing_stream(acting)
            )
            if stream:
                frames[stream] = each.frames
        table = IdentificationTable(
            frozenset(each for each in frames if isinstance(each, Incoming)),
            frozenset(each for each in frames if isinstance(each, Outgoing)),
            frozenset(each for each in frames if isinstance(each, Named)),
        )
        return IdentificationState(table, frames), len(frames) < len(listed)

    def _set(self, ifindex: int, content: IdentificationTable | None) -> None:
        """Filters are set before others are removed, and one with the same keys is replaced: no
        frame of a stream that stays passes as its talker has sent it."""
        table = content or IdentificationTable()
        present = self._listed(ifindex)
        if table:
            clsact.ensure(self._kernel, ifindex)
        kept = self._set_missing(ifindex, table, present)
        if self.in_switch(ifindex):
            self._require_hardware(ifindex, kept)
        obsolete = _obsolete({each.place for each in present}, kept)
        removals = [delete_filter(ifindex, place) for place in obsolete]
        raise_first(self._kernel.send(removals), _GONE)
        if not table and present:
            clsact.remove_unused(self._kernel, ifindex)

    def _set_missing(
        self, ifindex: int, table: IdentificationTable, present: Collection[Listed]
    ) -> set[Place]:
        """Where the filters of the table are now."""
        by_match = {
            _matched(each.place.hook, each.place.prio, each.keys or {}): each for each in present
        }
        in_switch = self.in_switch(ifindex)
        flags = flags_for(hardware_forwards=in_switch)
        free = {where: _free_handles(*where, present) for where in _PRIOS}
        changes: list[Message] = []
        places: set[Place] = set()
        for wanted in _wanted(table, in_switch=in_switch):
            there = by_match.get(wanted.matched)
            place = there.place if there else _new_place(wanted, free)
            places.add(place)
            if there is None or in_force(there, in_switch=in_switch) != wanted.filter:
                changes.append(set_filter(ifindex, place, wanted.filter, flags))
        raise_first(self._kernel.send(changes))
        return places

    def _require_hardware(self, ifindex: int, places: Set[Place]) -> None:
        require_hardware(
            (
                (each.place, each.filter)
                for each in self._listed(ifindex)
                if each.place in places and each.filter and not each.in_hardware
            ),
            lambda software: raise_first(
                self._kernel.send([set_filter(ifindex, *software, SKIP_SW)])
            ),
        )


def _wanted(table: IdentificationTable, *, in_switch: bool) -> Iterator[_Wanted]:
    for stream in sorted(table.incoming, key=lambda each: each.index):
        prio = _PRIO_BY_PROTOCOL[INGRESS, protocol_of(stream.match)]
        yield _Wanted(INGRESS, prio, incoming_filter(stream, in_switch=in_switch))
    for named in sorted(table.named, key=lambda each: each.index):
        yield _Wanted(INGRESS, _PRIO_BY_PROTOCOL[INGRESS, VLAN], named_filter(named))
    for other in sorted(table.outgoing, key=lambda each: each.index):
        yield _Wanted(EGRESS, _PRIO_BY_PROTOCOL[EGRESS, VLAN], outgoing_filter(other))


def _matched(hook: int, prio: int, keys: Mapping[Key, bytes] | Mapping[int, bytes]) -> _Matched:
    return hook, prio, frozenset((int(key), value) for key, value in keys.items())


def _new_place(wanted: _Wanted, free: Mapping[tuple[int, int], Iterator[int]]) -> Place:
    where = wanted.hook, wanted.prio
    return Place(*where, _PRIOS[where], next(free[where]))


def _free_handles(hook: int, prio: int, present: Iterable[Listed]) -> Iterator[int]:
    used = {each.place.handle for each in present if each.place[:2] == (hook, prio)}
    return (number for number in count(1) if number not in used)


def _obsolete(present: Set[Place], kept: Set[Place]) -> list[Place]:
    """What is to be removed; without a handle all at once that has the same hook and `prio`."""
    in_use = {(place.hook, place.prio) for place in kept}
    return sorted(
        {
            place if (place.hook, place.prio) in in_use else place._replace(handle=0)
            for place in present - kept
        }
    )
