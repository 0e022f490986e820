"""The streams of ports in the kernel: a filter each, at the ingress or the egress of the port.

They stand before all other filters of the agent: what a frame of a stream gets is not changed by
filters that look at tags or code points, which it had not, or has not any more.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from itertools import count
from typing import NamedTuple

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from agent.composition import Change, Contribution, KernelObject
from agent.filter_placement import with_placement
from agent.kernel import clsact
from agent.kernel.cls_flower import EGRESS, INGRESS
from agent.kernel.filter_flags import IN_HW, SKIP_SW, NotInHardware, flags_for, not_taken
from agent.kernel.flower_filters import (
    ANY_PROTOCOL,
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
from agent.kernel.netlink_batch import Message, NetlinkSocket, raise_first
from agent.kernel.refusal import reason
from agent.mechanism import KernelAdapter
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
from agent.mechanisms.identification.rules import StreamFilters, repair
from agent.model import AgentError, PortConfig, PortState

_NETLINK_ROUTE = 0
# The places of this mechanism: hook, `prio` (below those of `agent.kernel.priority_filters`) and
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


class IdentificationAdapter(KernelAdapter):
    """Needs CAP_NET_ADMIN. Not to be used by two threads at once."""

    def __init__(self, _ipr: IPRoute) -> None:
        self._kernel = NetlinkSocket(_NETLINK_ROUTE)
        self.objects = {StreamFilters: self._replace}
        # The ports that may have filters of ours; None until all have been looked at once.
        self._with_filters: set[int] | None = None
        self._disturbed: dict[str, int] = {}
        # The ports whose frames the hardware of the switch forwards.
        self._in_switch: frozenset[int] = frozenset()

    def capability(self) -> str | None:
        """Asks for each action in a way that is refused before anything is made.

        The classifier cannot be asked for without a queueing discipline on some interface: a kernel
        that has no cls_flower refuses the first filter, and all that was done before is undone.
        """
        for kind in _ACTIONS:
            refusals = self._kernel.send([probe_action(kind)])
            if any(each.error.code == errno.ENOENT for each in refusals):
                return (
                    f"this kernel has no act_{kind}: {reason(refusals[0].error)}; load the module "
                    f"or boot a kernel with CONFIG_NET_ACT_{kind.upper()}"
                )
        return None

    def problems(self, config: PortConfig) -> Iterator[str]:
        if config[IdentificationConfig].table and (why := self.capability()):
            yield why

    def close(self) -> None:
        self._kernel.close()

    def read(self, states: Mapping[str, PortState]) -> dict[str, PortState]:
        found, self._disturbed, with_filters = dict(states), {}, set()
        self._in_switch = frozenset(each.ifindex for each in states.values() if each.switch_id)
        for name, state in states.items():
            known = self._with_filters is None or state.ifindex in self._with_filters
            if state.bridge is None and not known:
                continue
            listed = self._read(state.ifindex)
            part, strangers = _part(listed, in_switch=state.switch_id is not None)
            ours = [each for each in listed.values() if each.filter]
            placed = with_placement(state, [bool(each.flags & IN_HW) for each in ours])
            found[name] = placed.with_part(part)
            if listed:
                with_filters.add(state.ifindex)
            if strangers:
                self._disturbed[name] = state.ifindex
        self._with_filters = with_filters
        return found

    def repairs(self) -> Iterator[Change]:
        """A filter among ours that is none of a stream."""
        for port, ifindex in self._disturbed.items():
            yield repair(port, ifindex)

    def _read(self, ifindex: int) -> dict[tuple[int, Place], Listed]:
        """What flower has in our places. One of another classifier keeps the kernel from taking
        ours there, and says so when they are set."""
        return {
            (hook, each.place): each
            for hook, prio in _PRIOS
            for each in read_filters(self._kernel, ifindex, hook, prio)
            if each.keys is not None
        }

    def _replace(
        self, target: KernelObject, before: Sequence[Contribution], after: Sequence[Contribution]
    ) -> None:
        """Let the port have what `after` holds; if refused, `before` again and AgentError."""
        if target.port is None or target.ifindex is None:
            raise TypeError(f"{target} belongs to no port")
        if self._with_filters is not None:
            self._with_filters.add(target.ifindex)
        old, new = (
            contributions[0].content if contributions else IdentificationTable()
            for contributions in (before, after)
        )
        try:
            self._set(target.ifindex, new)
        except (NetlinkError, NotInHardware, OSError) as refusal:
            with suppress(NetlinkError, NotInHardware, OSError):
                self._set(target.ifindex, old)
            if isinstance(refusal, NotInHardware):
                words = not_taken(target.port, "a filter (flower) of a stream", refusal)
                raise AgentError(words) from refusal
            why = reason(refusal) if isinstance(refusal, NetlinkError) else str(refusal)
            raise AgentError(
                f"port {target.port}: the kernel refused a filter (flower) of a stream: {why}"
            ) from refusal

    def _set(self, ifindex: int, table: IdentificationTable) -> None:
        """Filters are set before others are removed, and one with the same keys is replaced: no
        frame of a stream that stays passes as its talker has sent it."""
        present = self._read(ifindex)
        by_match = {
            _matched(hook, each.place.prio, each.keys or {}): (hook, each)
            for (hook, _place), each in present.items()
        }
        if table:
            clsact.ensure(self._kernel, ifindex)
        in_switch = ifindex in self._in_switch
        flags = flags_for(hardware_forwards=in_switch)
        changes: list[Message] = []
        kept: set[tuple[int, Place]] = set()
        free = {where: _free_handles(where, present) for where in _PRIOS}
        for wanted in _wanted(table, in_switch=in_switch):
            hook, there = by_match.get(wanted.matched, (wanted.hook, None))
            place = there.place if there else _new_place(wanted, free)
            kept.add((hook, place))
            if there is None or _in_force(there, in_switch=in_switch) != wanted.filter:
                changes.append(set_filter(ifindex, hook, place, wanted.filter, flags))
        raise_first(self._kernel.send(changes))
        if in_switch:
            self._require_hardware(ifindex, kept)
        obsolete = _obsolete(present.keys(), kept)
        removals = [delete_filter(ifindex, hook, place) for hook, place in obsolete]
        raise_first(self._kernel.send(removals), _GONE)
        if not table and present:
            clsact.remove_unused(self._kernel, ifindex)

    def _require_hardware(self, ifindex: int, kept: Set[tuple[int, Place]]) -> None:
        """Raises NotInHardware. The driver's reason is told for a filter of hardware alone."""
        for (hook, place), there in self._read(ifindex).items():
            if (hook, place) in kept and there.filter and not there.flags & IN_HW:
                request = set_filter(ifindex, hook, place, there.filter, SKIP_SW)
                for refusal in self._kernel.send([request]):
                    raise NotInHardware(reason(refusal.error)) from refusal.error
                raise NotInHardware("its driver gives no reason")


def _in_force(there: Listed, *, in_switch: bool) -> FlowerFilter | None:
    """The filter if it acts on the frames that are forwarded."""
    return there.filter if not in_switch or there.flags & IN_HW else None


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
    return Place(wanted.prio, _PRIOS[where], next(free[where]))


def _free_handles(where: tuple[int, int], present: Iterable[tuple[int, Place]]) -> Iterator[int]:
    used = {place.handle for hook, place in present if (hook, place.prio) == where}
    return (number for number in count(1) if number not in used)


def _obsolete(
    present: Set[tuple[int, Place]], kept: Set[tuple[int, Place]]
) -> list[tuple[int, Place]]:
    """What is to be removed; without a handle all at once that has the same hook and `prio`."""
    in_use = {(hook, place.prio) for hook, place in kept}
    places = {
        (hook, place if (hook, place.prio) in in_use else place._replace(handle=0))
        for hook, place in present - kept
    }
    return sorted(places)


def _part(
    listed: Mapping[tuple[int, Place], Listed], *, in_switch: bool
) -> tuple[IdentificationState, bool]:
    """The streams that filters make, and whether there is a filter that makes none."""
    frames: dict[Stream, int] = {}
    for (hook, _place), each in listed.items():
        in_force = _in_force(each, in_switch=in_switch)
        if in_force is None:
            continue
        stream = (
            ingress_stream(in_force, in_switch=in_switch)
            if hook == INGRESS
            else outgoing_stream(in_force)
        )
        if stream:
            frames[stream] = each.frames
    table = IdentificationTable(
        frozenset(each for each in frames if isinstance(each, Incoming)),
        frozenset(each for each in frames if isinstance(each, Outgoing)),
        frozenset(each for each in frames if isinstance(each, Named)),
    )
    return IdentificationState(table, frames), len(frames) < len(listed)
