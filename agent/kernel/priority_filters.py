"""Filters that give frames a priority as they enter or leave a port: flower with skbedit.

They stand at one of the two hooks of a port's clsact qdisc. Ours are those with the priorities
(`prio`) of a `Hook`; filters of others on the same hook stay. A filter is replaced in place, so
that no frame finds none. Filters of several mechanisms see a frame one after another, the lowest
`prio` first: each ends in `continue`.

    hook     prio             filters
    ingress  0x7900 - 0x7902  identification of streams: frames that it translates go on in chain 1
    ingress  0x7903           streams of tagged frames are named and counted
    ingress  0x7A00, 0x7A01   the priority of received frames: of all, then of those with a tag
    ingress  0x7B00           filters of streams, in chain 0 and in chain 1
    egress   0x7900           identification of streams: no other filter sees their frames
    egress   0x7A00 - 0x7A02  the priority of bridged frames by their DSCP
    egress   0x7C00           the code point in the tag, by the priority that a frame then has
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError
from pyroute2.netlink.rtnl import tcmsg
from pyroute2.netlink.rtnl.tcmsg import common_act
from pyroute2.netlink.rtnl.tcmsg.common import tc_actions

from agent.composition import Change, Contribution, KernelObject
from agent.filter_placement import with_placement
from agent.kernel import act_skbedit, cls_flower, clsact
from agent.kernel.cls_flower import EGRESS
from agent.kernel.filter_flags import IN_HW, SKIP_SW, NotInHardware, flags_for, not_taken
from agent.kernel.netlink_batch import NetlinkSocket
from agent.kernel.refusal import reason
from agent.mechanism import KernelAdapter
from agent.model import AgentError, PortState

tcmsg.plugins["flower"] = cls_flower
common_act.plugins["skbedit"] = act_skbedit

_NETLINK_ROUTE = 0
_DSCP_MASK = 0xFC
# TC_ACT_UNSPEC: the filters that follow see the frame, too.
CONTINUE = "unspec"


class Match(NamedTuple):
    """What a frame has: a priority code point, an Ethertype behind its VLAN tag, a DSCP."""

    pcp: int | None = None
    vlan_ethertype: int | None = None
    dscp: int | None = None


class PriorityFilter(NamedTuple):
    """A filter: its place, what it matches, and the skb priority that it gives.

    The kernel keeps one Ethertype (`protocol`) for each `prio`. `label` is a number other than 0
    that the kernel keeps with the filter; it does nothing with it.
    """

    prio: int
    handle: int
    match: Match
    priority: int
    label: int | None = None


# What stands in our places; None: a filter that is none of ours.
Filters = Set[PriorityFilter | None]


class PlacedFilter(Protocol):
    """A filter with its place at a hook."""

    @property
    def prio(self) -> int: ...
    @property
    def handle(self) -> int: ...


Filter = TypeVar("Filter", bound=PlacedFilter)


@dataclass(frozen=True, slots=True)
class FilterForm(Generic[Filter]):
    """How filters of one kind are written and read.

    `request` gives what a request says beside the place, `parsed` the filter of a message, None for
    one that the agent did not set, `flags` the flags of `agent.kernel.filter_flags` in a message:
    only a kind that has them can be in hardware.
    """

    kind: str
    request: Callable[[Filter], Mapping[str, Any]]
    parsed: Callable[[Any], Filter | None]
    flags: Callable[[Any], int] = lambda _message: 0


@dataclass(frozen=True, slots=True)
class Hook:
    """Where a mechanism has its filters; `protocols` are its own, by `prio`."""

    parent: int
    protocols: Mapping[int, int]


class FilterAdapter(KernelAdapter, Generic[Filter]):
    """The kernel side of a mechanism that has filters at one hook of bridged ports.

    Needs CAP_NET_ADMIN. Not to be used by two threads at once.
    """

    def __init__(
        self,
        ipr: IPRoute,
        hook: Hook,
        form: FilterForm[Filter],
        target: type[KernelObject],
        *,
        wanted: Callable[[Any], Collection[Filter]],
        part: Callable[[Set[Filter | None]], tuple[object, Any]],
        repair: Callable[[str, int], Change],
    ) -> None:
        """`wanted` gives the filters of a contribution's content, `part` the part of a port's state
        that filters make, with its content (None: no contribution); `repair` puts them right."""
        self._filters = _PortFilters(ipr, hook, form)
        self._wanted, self._part, self._repair = wanted, part, repair
        self.objects = {target: self._replace}
        # The ports that may have filters of ours; None until all have been looked at once.
        self._with_filters: set[int] | None = None
        self._disturbed: dict[str, int] = {}
        # The ports whose frames the hardware of the switch forwards.
        self._in_switch: frozenset[int] = frozenset()

    def read(self, states: Mapping[str, PortState]) -> dict[str, PortState]:
        found, self._disturbed, with_filters = dict(states), {}, set()
        self._in_switch = frozenset(each.ifindex for each in states.values() if each.switch_id)
        for name, state in states.items():
            known = self._with_filters is None or state.ifindex in self._with_filters
            if state.bridge is None and not known:
                continue
            listed = list(self._filters.read(state.ifindex).values())
            # One that acts on no frame which the switch forwards is as good as none.
            filters = {
                each.filter if each.in_hardware or not state.switch_id else None for each in listed
            }
            part, content = self._part(filters)
            placed = with_placement(state, [each.in_hardware for each in listed if each.filter])
            found[name] = placed.with_part(part)
            if filters:
                with_filters.add(state.ifindex)
                if filters != set(self._wanted(content) if content else ()):
                    self._disturbed[name] = state.ifindex
        self._with_filters = with_filters
        return found

    def close(self) -> None:
        self._filters.close()

    def in_switch(self, target: KernelObject) -> bool:
        """Whether hardware forwards the frames of the port, as the newest `read` found it."""
        return target.ifindex in self._in_switch

    def repairs(self) -> Iterator[Change]:
        """A filter of another kind among ours, or one that is missing."""
        for port, ifindex in self._disturbed.items():
            yield self._repair(port, ifindex)

    def _replace(
        self, target: KernelObject, before: Sequence[Contribution], after: Sequence[Contribution]
    ) -> None:
        if target.port is None or target.ifindex is None:
            raise TypeError(f"{target} belongs to no port")
        if self._with_filters is not None:
            self._with_filters.add(target.ifindex)
        old, new = (
            [each for one in contributions for each in self._wanted(one.content)]
            for contributions in (before, after)
        )
        self._filters.replace(
            target.port, target.ifindex, old, new, in_switch=self.in_switch(target)
        )


@dataclass(frozen=True, slots=True)
class _Listed(Generic[Filter]):
    """A filter in a dump; `filter` is None for one that is none of ours."""

    filter: Filter | None
    in_hardware: bool


class _PortFilters(Generic[Filter]):
    """The filters of one hook, on any port."""

    def __init__(self, ipr: IPRoute, hook: Hook, form: FilterForm[Filter]) -> None:
        self._ipr = ipr
        self._kernel = NetlinkSocket(_NETLINK_ROUTE)
        self._hook = hook
        self._form = form

    def close(self) -> None:
        self._kernel.close()

    def read(self, ifindex: int) -> dict[tuple[int, int], _Listed[Filter]]:
        """What stands in our places, by prio and handle."""
        return {
            (prio, message["handle"]): _Listed(
                self._form.parsed(message), bool(self._form.flags(message) & IN_HW)
            )
            for prio in self._hook.protocols
            for message in self._dump(ifindex, prio)
            if message["handle"]
        }

    def _dump(self, ifindex: int, prio: int) -> Iterable[Any]:
        """Filters of this `prio` only: of streams there may be a thousand at the same hook."""
        where = {"index": ifindex, "parent": self._hook.parent, "info": prio << 16}
        listed: Iterable[Any] = self._ipr.tc("get-filter", **where)
        return listed

    def replace(
        self,
        port: str,
        ifindex: int,
        before: Collection[Filter],
        after: Collection[Filter],
        *,
        in_switch: bool,
    ) -> None:
        """Let the port have `after`; if the kernel refuses, `before` again and AgentError.

        `in_switch`: its frames are forwarded by hardware, which refuses as well.
        """
        try:
            self._set(ifindex, after, in_switch=in_switch)
        except (NetlinkError, NotInHardware, OSError) as refusal:
            with suppress(NetlinkError, NotInHardware, OSError):
                self._set(ifindex, before, in_switch=in_switch)
            side = "egress" if self._hook.parent == EGRESS else "ingress"
            words = f"a filter ({self._form.kind}, at {side})"
            if isinstance(refusal, NotInHardware):
                raise AgentError(not_taken(port, words, refusal)) from refusal
            why = reason(refusal) if isinstance(refusal, NetlinkError) else str(refusal)
            raise AgentError(
                f"port {port}: the kernel refused {words} for the frames of its bridge: {why}"
            ) from refusal

    def _set(self, ifindex: int, filters: Collection[Filter], *, in_switch: bool) -> None:
        if not filters:
            self._remove(ifindex)
            return
        present = self.read(ifindex)
        if not present:
            clsact.ensure(self._kernel, ifindex)
        flags = flags_for(hardware_forwards=in_switch)
        for each in filters:
            self._replace(ifindex, each, flags)
        if in_switch:
            self._require_hardware(ifindex, filters)
        for prio, handle in present.keys() - {(each.prio, each.handle) for each in filters}:
            place = {"handle": handle, "prio": prio, "protocol": self._hook.protocols[prio]}
            self._ipr.tc("del-filter", self._form.kind, ifindex, parent=self._hook.parent, **place)

    def _replace(self, ifindex: int, wanted: Filter, flags: int) -> None:
        request = {
            "parent": self._hook.parent,
            "prio": wanted.prio,
            "protocol": self._hook.protocols[wanted.prio],
            "handle": wanted.handle,
            "flags": flags,
            **self._form.request(wanted),
        }
        self._ipr.tc("replace-filter", self._form.kind, ifindex, **request)

    def _require_hardware(self, ifindex: int, filters: Collection[Filter]) -> None:
        """Raises NotInHardware. The driver's reason is told for a filter of hardware alone."""
        present = self.read(ifindex)
        for each in filters:
            if not present[each.prio, each.handle].in_hardware:
                try:
                    self._replace(ifindex, each, SKIP_SW)
                except NetlinkError as refusal:
                    raise NotInHardware(reason(refusal)) from refusal
                raise NotInHardware("its driver gives no reason")

    def _remove(self, ifindex: int) -> None:
        """All of ours, and the qdisc if nothing else is on it."""
        parent = self._hook.parent
        for prio, protocol in self._hook.protocols.items():
            place = {"parent": parent, "prio": prio, "protocol": protocol}
            try:
                self._ipr.tc("del-filter", self._form.kind, ifindex, **place)
            except NetlinkError as refusal:
                if refusal.code not in {errno.ENOENT, errno.EINVAL}:  # no filter, no hook
                    raise
        clsact.remove_unused(self._kernel, ifindex)


def _request(wanted: PriorityFilter) -> Mapping[str, Any]:
    match = wanted.match
    keys: dict[str, Any] = {
        "vlan_prio": match.pcp,
        "vlan_ethertype": match.vlan_ethertype,
        "ip_tos": None if match.dscp is None else (match.dscp << 2, _DSCP_MASK),
        "classid": wanted.label,
    }
    return {
        **{key: value for key, value in keys.items() if value is not None},
        "action": {"kind": "skbedit", "priority": wanted.priority, "control": CONTINUE},
    }


def _parsed(message: Any) -> PriorityFilter | None:
    options = message.get("TCA_OPTIONS")
    if message.get("TCA_KIND") != "flower" or options is None:
        return None
    acts = actions_of(options.get("TCA_FLOWER_ACT"))
    if [action.get("TCA_ACT_KIND") for action in acts] != ["skbedit"]:
        return None
    tos = options.get("TCA_FLOWER_KEY_IP_TOS")
    if tos is not None and options.get("TCA_FLOWER_KEY_IP_TOS_MASK") != _DSCP_MASK:
        return None
    set_to = acts[0].get("TCA_ACT_OPTIONS")
    if set_to.get("TCA_SKBEDIT_PARMS")["action"] != tc_actions[CONTINUE]:
        return None
    match = Match(
        pcp=options.get("TCA_FLOWER_KEY_VLAN_PRIO"),
        vlan_ethertype=options.get("TCA_FLOWER_KEY_VLAN_ETH_TYPE"),
        dscp=None if tos is None else tos >> 2,
    )
    return PriorityFilter(
        prio=message["info"] >> 16,
        handle=message["handle"],
        match=match,
        priority=set_to.get("TCA_SKBEDIT_PRIORITY"),
        label=options.get("TCA_FLOWER_CLASSID"),
    )


def actions_of(listed: Any) -> list[Any]:
    """The actions of a filter in a dump, in their order."""
    return [action for _, action in listed["attrs"]] if listed else []


def _flags(message: Any) -> int:
    return (message.get("TCA_OPTIONS") or {}).get("TCA_FLOWER_FLAGS") or 0


FLOWER = FilterForm("flower", _request, _parsed, _flags)
