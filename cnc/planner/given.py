"""Ports whose gate control lists an operator gives: nothing is planned there, but beside windows
that classes have by share."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from itertools import chain

from cnc.mechanisms import terms
from cnc.model import (
    ClassRole,
    GateControlList,
    GateEntry,
    Intent,
    PortRef,
    StreamPlan,
    Windows,
)
from cnc.planner.edges import cut
from cnc.planner.graph import Tree
from cnc.planner.routing import Router

_WHAT_HELPS = "its frames have no planned time there; leave that list to the plan, or add a cable"

_NOT_SHARED = (
    "its frames are to share windows (`windows: shared`), and beside classes with windows by share "
    "each planned frame has one of its own; state `windows: exact`, or leave the key out"
)


def lists(intent: Intent) -> dict[PortRef, GateControlList]:
    """As given, with entries that are too long for their port cut."""
    links = intent.network.links
    return {port: cut(its, links[port]) for port, its in terms.given_lists(intent).items()}


def open_lists(
    intent: Intent,
    ways: Mapping[str, Sequence[Sequence[PortRef]]],
    others: Collection[PortRef],
) -> dict[PortRef, GateControlList]:
    """Of the ports of switches by which frames with a shaper leave, and that have no list: gates
    that are always open, but those of planned frames. Without any a port with gates in software
    sends frames of all classes as they come (taprio alone asks its queues by priority)."""
    ports: defaultdict[PortRef, int] = defaultdict(int)
    for name, paths in ways.items():
        stream = intent.streams[name]
        for port in chain.from_iterable(paths if intent.shaper_of(stream) else ()):
            if port.node in intent.network.bridges and port not in others:
                ports[port] = max(ports[port], stream.period_ns)
    opened = intent.classes_with(ClassRole.CONTROL) + intent.classes_with(ClassRole.BEST_EFFORT)
    states, links = sum(1 << its.number for its in opened), intent.network.links
    return {
        port: cut(GateControlList(cycle_ns, (GateEntry(states, cycle_ns),)), links[port])
        for port, cycle_ns in ports.items()
    }


def crosses(planned: StreamPlan, ports: Collection[PortRef]) -> PortRef | None:
    """The first of these ports by which frames of a stream leave."""
    return next((hop.egress for hop in planned.hops if hop.egress in ports), None)


def reason(port: PortRef) -> str:
    """Why a stream that would leave by it has no place."""
    return f"its path leads by {port}, whose gate control list is given: {_WHAT_HELPS}"


def without_place(router: Router, trees: dict[str, tuple[Tree, ...]]) -> Mapping[str, str]:
    """Take the streams out of `trees` that would leave by a port where nothing is planned, or share
    windows beside such by share, and say why."""
    intent, barred = router.intent, terms.closed_ports(router.intent)
    is_shared = bool(terms.given_windows(intent))
    refused: dict[str, str] = {}
    for name, its in list(trees.items()) if barred or is_shared else ():
        stream = intent.streams[name]
        sources = (router.links[link].source for tree in its for link in tree)
        if port := next((source for source in sources if source in barred), None):
            refused[name] = reason(port)
        elif is_shared and stream.windows is Windows.SHARED:
            refused[name] = _NOT_SHARED
        if name in refused:
            router.carry(stream, trees.pop(name), -1)
    return refused
