"""Subtree filters (RFC 6241 6) of what is read of a switch's ports."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from copy import deepcopy

from lxml.builder import ElementMaker

from cnc.data_tree.reply import Element
from cnc.data_tree.tree import BRIDGE, INTERFACES, SCHED_BRIDGE, TSN_LINUX
from cnc.mechanisms.composition import at_places, naming
from cnc.mechanisms.registry import MECHANISMS

_IF = ElementMaker(namespace=INTERFACES, nsmap={None: INTERFACES})
_BRIDGE = ElementMaker(namespace=BRIDGE, nsmap={None: BRIDGE})
_GATES = ElementMaker(namespace=SCHED_BRIDGE, nsmap={None: SCHED_BRIDGE})
_TSNL = ElementMaker(namespace=TSN_LINUX, nsmap={None: TSN_LINUX})

# Nodes of a gate table.
_CLOCK = ("current-time",)
_LIMITS = (
    "supported-list-max",
    "supported-cycle-max",
    "supported-interval-max",
    "tick-granularity",
)
_COUNTERS = ("config-change-error", "queue-max-sdu-table")


def configuration_filter(
    ports: Iterable[str], *, talker: bool = False, bridges: Collection[str] = ()
) -> list[Element]:
    """Everything configured of these interfaces, of `bridges` how they forward frames, and of the
    station of a `talker` what it has beside. Gates and talkers may be there by modules that not
    every server knows, and no filter may name."""
    beside = (each for place in at_places() for each in place.filters(bridges))
    return [*_interfaces(ports), *beside, *_of_stations(talker)]


def _of_stations(talker: bool) -> list[Element]:
    return [each for place in at_places() for each in place.of_stations()] if talker else []


def state_filter(
    ports: Iterable[str], *, talker: bool = False, bridges: Collection[str] = ()
) -> list[Element]:
    """The agent; link, clock, limits and kernel state of these ports, what a `talker` is told, and
    how `bridges` forward frames. Other switches are asked for neither: their servers may not know
    the modules."""
    return _state_filter(ports, (*_CLOCK, *_LIMITS), talker=talker, bridges=bridges)


def watch_filter(
    ports: Iterable[str], *, talker: bool = False, bridges: Collection[str] = ()
) -> list[Element]:
    """All state that may change while the schedules stay: without the limits, with counters."""
    ports = [*ports]
    state = _state_filter(ports, (*_CLOCK, *_COUNTERS), talker=talker, bridges=bridges)
    return [*state, *(_interfaces(ports, _of_streams()) if bridges else [])]


def clock_filter(port: str) -> list[Element]:
    """The time on this port, and which clock shows it."""
    return _interfaces([port], _bridge_port(_CLOCK, _TSNL("kernel", _TSNL("clock"))))


def counter_filter(ports: Iterable[str], bridges: Collection[str] = ()) -> list[Element]:
    """The counters of these bridge ports; where they belong to `bridges`, those of streams, too."""
    kernel = _TSNL("kernel", _TSNL("class-statistics"))
    of_port = _bridge_port(_COUNTERS, kernel)
    if not bridges:
        return _interfaces(ports, of_port)
    return [*_interfaces(ports, of_port, _of_streams()), *naming().tree().filters()]


def _of_streams() -> Element:
    """What mechanisms have counted at a port, by the handles of streams."""
    counted = (element for each in MECHANISMS for element in each.tree().port_statistics())
    return _IF("statistics", *counted)


def _state_filter(
    ports: Iterable[str], of_gate_table: Iterable[str], *, talker: bool, bridges: Collection[str]
) -> list[Element]:
    port = _bridge_port(of_gate_table, _TSNL("kernel"))
    told = (each for place in at_places() for each in place.told()) if talker else ()
    state = (each for place in at_places() for each in place.state(bridges))
    of_ports = _interfaces(ports, _IF("oper-status"), port, *told)
    return [*of_ports, _TSNL("agent"), *state, *_of_stations(talker)]


def _bridge_port(of_gate_table: Iterable[str], kernel: Element) -> Element:
    return _BRIDGE(
        "bridge-port",
        _GATES("gate-parameter-table", *map(_GATES, of_gate_table)),
        _TSNL("taprio", kernel),
    )


def _interfaces(ports: Iterable[str], *filters: Element) -> list[Element]:
    """Nothing without ports: an empty `<interfaces>` selects all of them."""
    asked = [_IF("interface", _IF("name", port), *deepcopy(filters)) for port in sorted(ports)]
    return [_IF("interfaces", *asked)] if asked else []
