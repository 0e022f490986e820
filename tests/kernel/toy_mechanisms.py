"""Three mechanisms that the product does not have, each as small as one can be.

`QUEUE_LIMIT` bounds how many frames wait in a transmit queue: a qdisc below the port's taprio,
which belongs to the mechanism "gates". `COUNTED` and `PRIORITY` are two actions of one filter: it
counts the frames of a stream as they come in, and gives them a priority. None knows another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from agent.composition import Change, Contribution, KernelObject, Stage
from agent.mechanism import KernelAdapter, Mechanism, MemoryAdapter
from agent.model import AgentError, PortConfig, PortState
from agent.root_qdisc import CHILD_MAJOR, ChildQdisc, RootQdisc

STREAM_ETHERTYPE = 0x88B5  # IEEE Std 802, local experimental 1
CLSACT, INGRESS = 0xFFFF0000, 0xFFFFFFF2
FILTER = 0x80000800  # the first rule of the first table of a u32 filter


@dataclass(frozen=True, slots=True)
class QueueLimit:
    """The frames that may wait, by transmit queue; of the configuration and of the state."""

    frames: Mapping[int, int] = None

    def __post_init__(self):
        object.__setattr__(self, "frames", dict(self.frames or {}))


@dataclass(frozen=True, slots=True)
class Counted:
    """Whether frames of the stream are counted as they come in."""

    is_on: bool = False


@dataclass(frozen=True, slots=True)
class Priority:
    """The skb priority that frames of the stream get as they come in."""

    value: int | None = None


@dataclass(frozen=True, slots=True)
class IngressFilter(KernelObject):
    """The filter of one stream on one port; contents are its actions, in their order."""

    removed_in: ClassVar[Stage] = Stage.CLASSIFY
    set_in: ClassVar[Stage] = Stage.CLASSIFY


def _diff(name, kind, contributed, config: PortConfig, state: PortState) -> Iterator[Change]:
    """One change for each object in which the contributions differ."""
    before, after = dict(contributed(state, state[kind])), dict(contributed(state, config[kind]))
    for target in {key[0] for key in before.items() ^ after.items()}:
        yield Change(
            port=state.name,
            target=target,
            before=before.get(target, ()),
            after=after.get(target, ()),
            description=f"port {state.name}: {name}: {config[kind]}",
            difference=f"{name}: {state[kind]}",
        )


def _mechanism(name, kind, contributed, part_of, kernel) -> Mechanism:
    """`contributed(state, part)` gives pairs of an object and its contributions.

    `part_of(contents)` is the other way round.
    """
    return Mechanism(
        name=name,
        subtrees=(),
        configured=lambda _interface, _state: kind(),
        as_is=lambda state: state[kind],
        contributions=lambda state: [
            (target, each) for target, own in contributed(state, state[kind]) for each in own
        ],
        diff=partial(_diff, name, kind, contributed),
        problems=lambda _config, _state: (),
        operational=lambda _state, _reading: {},
        memory=MemoryAdapter(lambda state, contents, _now_ns: state.with_part(part_of(contents))),
        kernel=kernel,
    )


def _queue_limits(state: PortState, limit: QueueLimit):
    children = [
        ChildQdisc(queue, "pfifo", (("limit", frames),))
        for queue, frames in sorted(limit.frames.items())
    ]
    if own := tuple(Contribution("limit", state.name, each.place, each) for each in children):
        yield RootQdisc(state.name, state.ifindex), own


def _counting(state: PortState, counted: Counted):
    if counted.is_on:
        action = (("kind", "gact"), ("action", "pipe"))
        yield _filter(state), (Contribution("counted", state.name, 0, action),)


def _prioritising(state: PortState, priority: Priority):
    if priority.value is not None:
        action = (("kind", "skbedit"), ("priority", priority.value))
        yield _filter(state), (Contribution("priority", state.name, 1, action),)


def _filter(state: PortState) -> IngressFilter:
    return IngressFilter(state.name, state.ifindex)


class QueueLimitAdapter(KernelAdapter):
    """Reads its own children; the root qdisc is set by the mechanism that owns the root."""

    objects: ClassVar = {}

    def __init__(self, ipr: IPRoute) -> None:
        self._ipr = ipr

    def read(self, states):
        limits: dict[int, dict[int, int]] = {}
        for qdisc in self._ipr.get_qdiscs():
            queue = (qdisc["parent"] & 0xFFFF) - 1
            if qdisc["handle"] >> 16 == CHILD_MAJOR + queue:
                frames = qdisc.get("TCA_OPTIONS")["limit"]
                limits.setdefault(qdisc["index"], {})[queue] = frames
        return {
            name: state.with_part(QueueLimit(limits.get(state.ifindex)))
            for name, state in states.items()
        }


class FilterAdapter(KernelAdapter):
    """Sets the filter of both mechanisms; each reads the action that is its own."""

    def __init__(self, ipr: IPRoute, kind: type[Any]) -> None:
        self._ipr, self._kind = ipr, kind
        self.objects = {IngressFilter: self._replace}

    def read(self, states):
        return {name: state.with_part(self._part(state.ifindex)) for name, state in states.items()}

    def _part(self, ifindex: int):
        kinds, priority = set(), None
        for rule in self._ipr.get_filters(index=ifindex, parent=INGRESS):
            actions = (rule.get("TCA_OPTIONS") or rule).get("TCA_U32_ACT")
            for _, action in actions["attrs"] if actions else ():
                kinds.add(action.get("TCA_ACT_KIND"))
                if action.get("TCA_ACT_KIND") == "skbedit":
                    priority = action.get("TCA_ACT_OPTIONS").get("TCA_SKBEDIT_PRIORITY")
        return Counted("gact" in kinds) if self._kind is Counted else Priority(priority)

    def _replace(self, target, _before, after):
        where = {
            "index": target.ifindex,
            "parent": INGRESS,
            "prio": 1,
            "protocol": STREAM_ETHERTYPE,
        }
        try:
            if not after:
                self._ipr.tc("del-filter", "u32", handle=FILTER, target=0, **where)
                return
            with suppress(NetlinkError):  # it is there
                self._ipr.tc("add", "clsact", target.ifindex)
            actions = [dict(each.content) for each in after]
            rule = {"keys": ["0x0/0x0+0"], "target": 0x10000, "action": actions}
            self._ipr.tc("replace-filter", "u32", handle=FILTER, **where, **rule)
        except NetlinkError as refusal:
            raise AgentError(f"port {target.port}: the kernel refused the filter") from refusal


QUEUE_LIMIT = _mechanism(
    "limit",
    QueueLimit,
    _queue_limits,
    lambda children: QueueLimit({each.queue: dict(each.options)["limit"] for each in children}),
    QueueLimitAdapter,
)
COUNTED = _mechanism(
    "counted",
    Counted,
    _counting,
    lambda actions: Counted(bool(actions)),
    partial(FilterAdapter, kind=Counted),
)
PRIORITY = _mechanism(
    "priority",
    Priority,
    _prioritising,
    lambda actions: Priority(*(dict(each)["priority"] for each in actions)),
    partial(FilterAdapter, kind=Priority),
)
TOYS = (QUEUE_LIMIT, COUNTED, PRIORITY)


def asking(config: PortConfig, *parts: object) -> PortConfig:
    """The port, asked for these parts as well."""
    return replace(config, parts=(*config.parts, *parts))
