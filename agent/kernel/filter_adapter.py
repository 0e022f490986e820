"""The kernel side of mechanisms that have filters at bridged ports, as far as it is alike.

Filters stand at the two hooks of a port's clsact qdisc. The agent's are those at its own priorities
(`prio`) there; filters of others stay. Several mechanisms see a frame one after another, the lowest
`prio` first:

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

import socket
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from pyroute2.netlink.exceptions import NetlinkError

from agent.composition import Change, Contribution, KernelObject, repair
from agent.filter_placement import with_placement
from agent.kernel.filter_flags import not_taken
from agent.kernel.netlink_batch import NetlinkSocket
from agent.kernel.refusal import NotInHardware, reason, set_or_restore
from agent.mechanism import KernelAdapter
from agent.model import AgentError, PortState

Filter_co = TypeVar("Filter_co", covariant=True)
Filter = TypeVar("Filter")


class ListedFilter(Protocol[Filter_co]):
    """A filter that the kernel lists in a place of the agent's; `filter` is None for one that the
    agent did not set."""

    @property
    def filter(self) -> Filter_co | None: ...
    @property
    def in_hardware(self) -> bool: ...


class FilterAdapter(KernelAdapter):
    """A mechanism's filters at bridged ports, which are one kernel object of each port.

    A subclass says how they are listed, understood and set. Needs CAP_NET_ADMIN. Not to be used by
    two threads at once.
    """

    # What it sets, as in "does not take a filter (flower)", and the object as in "restore the
    # ingress filters".
    filter_words: str
    object_words: str

    def __init__(self, target: type[KernelObject]) -> None:
        self._kernel = NetlinkSocket(socket.NETLINK_ROUTE)
        self._target = target
        self.objects = {target: self._replace}
        # The ports that may have filters of ours; None until all have been looked at once.
        self._with_filters: set[int] | None = None
        self._disturbed: dict[str, int] = {}
        # The ports whose frames the hardware of the switch forwards.
        self._in_switch: frozenset[int] = frozenset()

    def _listed(self, ifindex: int) -> Collection[ListedFilter[Any]]:
        """What stands in the places of the mechanism. Raises NetlinkError."""
        raise NotImplementedError

    def _part(self, listed: Any, *, in_switch: bool) -> tuple[object, bool]:
        """The part of a port's state that these filters make, and whether they need repair."""
        raise NotImplementedError

    def _set(self, ifindex: int, content: Any) -> None:
        """Let the port have the filters of this content, None for none.

        Raises NetlinkError, NotInHardware or OSError.
        """
        raise NotImplementedError

    def close(self) -> None:
        self._kernel.close()

    def read(self, states: Mapping[str, PortState]) -> dict[str, PortState]:
        found, self._disturbed, with_filters = dict(states), {}, set()
        self._in_switch = frozenset(each.ifindex for each in states.values() if each.switch_id)
        for name, state in states.items():
            known = self._with_filters is None or state.ifindex in self._with_filters
            if state.bridge is None and not known:
                continue
            listed = self._listed(state.ifindex)
            part, disturbed = self._part(listed, in_switch=self.in_switch(state.ifindex))
            placed = with_placement(state, [each.in_hardware for each in listed if each.filter])
            found[name] = placed.with_part(part)
            if listed:
                with_filters.add(state.ifindex)
            if disturbed:
                self._disturbed[name] = state.ifindex
        self._with_filters = with_filters
        return found

    def in_switch(self, ifindex: int) -> bool:
        """Whether hardware forwards the frames of the port, as the newest `read` found it."""
        return ifindex in self._in_switch

    def repairs(self) -> Iterator[Change]:
        """Filters among ours that are not as set, which the state of their port does not show."""
        for port, ifindex in self._disturbed.items():
            yield repair(
                self._target(port, ifindex),
                f"port {port}: restore {self.object_words}, which another program has changed",
                f"{self.object_words} were changed",
            )

    def _replace(
        self, target: KernelObject, before: Sequence[Contribution], after: Sequence[Contribution]
    ) -> None:
        """Let the port have what `after` holds; if refused, `before` again and AgentError."""
        port, ifindex = target.port_and_ifindex()
        if self._with_filters is not None:
            self._with_filters.add(ifindex)
        try:
            set_or_restore(lambda content: self._set(ifindex, content), before, after)
        except NotInHardware as refusal:
            raise AgentError(not_taken(port, self.filter_words, refusal)) from refusal
        except (NetlinkError, OSError) as refusal:
            raise AgentError(
                f"port {port}: the kernel refused {self.filter_words}: {reason(refusal)}"
            ) from refusal


def in_force(listed: ListedFilter[Filter], *, in_switch: bool) -> Filter | None:
    """The filter if it acts on the frames that are forwarded."""
    return listed.filter if listed.in_hardware or not in_switch else None


def require_hardware(
    in_software: Iterable[Filter], set_in_hardware_alone: Callable[[Filter], None]
) -> None:
    """Refuse filters that hardware which forwards does not have; raises NotInHardware.

    The kernel tells the driver's reason, as NetlinkError, for a filter of hardware alone.
    """
    for each in in_software:
        try:
            set_in_hardware_alone(each)
        except NetlinkError as refusal:
            raise NotInHardware(reason(refusal)) from refusal
        raise NotInHardware("its driver gives no reason")
