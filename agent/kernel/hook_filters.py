"""The few filters that a mechanism has at one hook of a port, written and read by pyroute2.

Each has a place of its own, `prio` and handle, where it is replaced: no frame finds none.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Collection, Iterable, Mapping, Set
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from agent.composition import KernelObject
from agent.kernel import clsact
from agent.kernel.cls_flower import EGRESS
from agent.kernel.filter_adapter import FilterAdapter, in_force, require_hardware
from agent.kernel.filter_flags import IN_HW, SKIP_SW, flags_for

# TC_ACT_UNSPEC: the filters that follow see the frame, too.
CONTINUE = "unspec"


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


@dataclass(frozen=True, slots=True)
class Listed(Generic[Filter]):
    """A filter in a dump; `filter` is None for one that is none of ours."""

    prio: int
    handle: int
    filter: Filter | None
    in_hardware: bool


class HookAdapter(FilterAdapter, Generic[Filter]):
    """Needs CAP_NET_ADMIN. Not to be used by two threads at once."""

    def __init__(
        self,
        ipr: IPRoute,
        hook: Hook,
        form: FilterForm[Filter],
        target: type[KernelObject],
        *,
        object_words: str,
        wanted: Callable[[Any], Collection[Filter]],
        part: Callable[[Set[Filter | None]], tuple[object, Any]],
    ) -> None:
        """`wanted` gives the filters of a contribution's content, `part` the part of a port's state
        that filters make, with its content (None: no contribution)."""
        super().__init__(target)
        self._ipr, self._hook, self._form = ipr, hook, form
        self._wanted, self._part_of = wanted, part
        side = "egress" if hook.parent == EGRESS else "ingress"
        self.filter_words = f"a filter ({form.kind}, at {side})"
        self.object_words = object_words

    def _listed(self, ifindex: int) -> list[Listed[Filter]]:
        return [
            Listed(
                prio,
                message["handle"],
                self._form.parsed(message),
                bool(self._form.flags(message) & IN_HW),
            )
            for prio in self._hook.protocols
            for message in self._dump(ifindex, prio)
            if message["handle"]  # without a handle it is the list of filters itself
        ]

    def _dump(self, ifindex: int, prio: int) -> Iterable[Any]:
        """Filters of this `prio` only: of streams there may be a thousand at the same hook."""
        where = {"index": ifindex, "parent": self._hook.parent, "info": prio << 16}
        listed: Iterable[Any] = self._ipr.tc("get-filter", **where)
        return listed

    def _part(self, listed: Collection[Listed[Filter]], *, in_switch: bool) -> tuple[object, bool]:
        """Disturbed where a filter of another kind is among ours, or one is missing."""
        filters = {in_force(each, in_switch=in_switch) for each in listed}
        part, content = self._part_of(filters)
        return part, filters != set(self._filters_of(content))

    def _filters_of(self, content: Any) -> Collection[Filter]:
        return self._wanted(content) if content else ()

    def _set(self, ifindex: int, content: Any) -> None:
        wanted = self._filters_of(content)
        if not wanted:
            self._remove(ifindex)
            return
        present = self._listed(ifindex)
        if not present:
            clsact.ensure(self._kernel, ifindex)
        in_switch = self.in_switch(ifindex)
        for each in wanted:
            self._set_one(ifindex, each, flags_for(hardware_forwards=in_switch))
        if in_switch:
            self._require_hardware(ifindex, wanted)
        kept = {(each.prio, each.handle) for each in wanted}
        for prio, handle in {(each.prio, each.handle) for each in present} - kept:
            self._delete(ifindex, prio, handle=handle)

    def _set_one(self, ifindex: int, wanted: Filter, flags: int) -> None:
        request = {
            "parent": self._hook.parent,
            "prio": wanted.prio,
            "protocol": self._hook.protocols[wanted.prio],
            "handle": wanted.handle,
            "flags": flags,
            **self._form.request(wanted),
        }
        self._ipr.tc("replace-filter", self._form.kind, ifindex, **request)

    def _require_hardware(self, ifindex: int, wanted: Collection[Filter]) -> None:
        in_hardware = {
            (each.prio, each.handle) for each in self._listed(ifindex) if each.in_hardware
        }
        require_hardware(
            (each for each in wanted if (each.prio, each.handle) not in in_hardware),
            lambda each: self._set_one(ifindex, each, SKIP_SW),
        )

    def _remove(self, ifindex: int) -> None:
        """All of ours, and the qdisc if nothing else is on it."""
        for prio in self._hook.protocols:
            try:
                self._delete(ifindex, prio)
            except NetlinkError as refusal:
                if refusal.code not in {errno.ENOENT, errno.EINVAL}:  # no filter, no hook
                    raise
        clsact.remove_unused(self._kernel, ifindex)

    def _delete(self, ifindex: int, prio: int, **handle: int) -> None:
        """Without a handle all filters of that `prio`."""
        where = {"parent": self._hook.parent, "protocol": self._hook.protocols[prio]}
        self._ipr.tc("del-filter", self._form.kind, ifindex, prio=prio, **where, **handle)


def actions_of(listed: Any) -> list[Any]:
    """The actions of a filter in a dump, in their order."""
    return [action for _, action in listed["attrs"]] if listed else []
