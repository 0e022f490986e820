"""Filters that give frames a priority as they enter or leave a port: flower with skbedit.

They stand at one of the two hooks of a port's clsact qdisc. Ours are those with the priorities
(`prio`) of a `Hook`; filters of others on the same hook stay. A filter is replaced in place, so
that no frame finds none. Filters of several mechanisms see a frame one after another, the lowest
`prio` first: each ends in `continue`.

    hook     prio             filters
    ingress  0x7900 - 0x7902  identification of streams: no other filter sees their frames
    ingress  0x7A00, 0x7A01   the priority of received frames: of all, then of those with a tag
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
from agent.kernel import act_skbedit, cls_flower, clsact
from agent.kernel.cls_flower import EGRESS
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
    one that the agent did not set.
    """

    kind: str
    request: Callable[[Filter], Mapping[str, Any]]
    parsed: Callable[[Any], Filter | None]


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

    def read(self, states: Mapping[str, PortState]) -> dict[str, PortState]:
        found, self._disturbed, with_filters = dict(states), {}, set()
        for name, state in states.items():
            known = self._with_filters is None or state.ifindex in self._with_filters
            if state.bridge is None and not known:
                continue
            filters = set(self._filters.read(state.ifindex).values())
            part, content = self._part(filters)
            found[name] = state.with_part(part)
            if filters:
                with_filters.add(state.ifindex)
                if filters != set(self._wanted(content) if content else ()):
                    self._disturbed[name] = state.ifindex
        self._with_filters = with_filters
        return found

    def close(self) -> None:
        self._filters.close()

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
        self._filters.replace(target.port, target.ifindex, old, new)


class _PortFilters(Generic[Filter]):
    """The filters of one hook, on any port."""

    def __init__(self, ipr: IPRoute, hook: Hook, form: FilterForm[Filter]) -> None:
        self._ipr = ipr
        self._kernel = NetlinkSocket(_NETLINK_ROUTE)
        self._hook = hook
        self._form = form

    def close(self) -> None:
        self._kernel.close()

    def read(self, ifindex: int) -> dict[tuple[int, int], Filter | None]:
        """What stands in our places, by prio and handle; None: a filter that is none of ours."""
        return {
            (prio, message["handle"]): self._form.parsed(message)
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
    ) -> None:
        """Let the port have `after`; if the kernel refuses, `before` again and AgentError."""
        try:
            self._set(ifindex, after)
        except (NetlinkError, OSError) as refusal:
            with suppress(NetlinkError, OSError):
                self._set(ifindex, before)
            why = reason(refusal) if isinstance(refusal, NetlinkError) else str(refusal)
            side = "egress" if self._hook.parent == EGRESS else "ingress"
            raise AgentError(
                f"port {port}: the kernel refused a filter ({self._form.kind}, at {side}) for the "
                f"frames of its bridge: {why}"
            ) from refusal

    def _set(self, ifindex: int, filters: Collection[Filter]) -> None:
        if not filters:
            self._remove(ifindex)
            return
        present = self.read(ifindex)
        if not present:
            clsact.ensure(self._kernel, ifindex)
        for each in filters:
            self._ipr.tc("replace-filter", self._form.kind, ifindex, **self._request(each))
        for prio, handle in present.keys() - {(each.prio, each.handle) for each in filters}:
            place = {"handle": handle, "prio": prio, "protocol": self._hook.protocols[prio]}
            self._ipr.tc("del-filter", self._form.kind, ifindex, parent=self._hook.parent, **place)

    def _request(self, wanted: Filter) -> dict[str, Any]:
        return {
            "parent": self._hook.parent,
            "prio": wanted.prio,
            "protocol": self._hook.protocols[wanted.prio],
            "handle": wanted.handle,
            **self._form.request(wanted),
        }

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


FLOWER = FilterForm("flower", _request, _parsed)
