"""What the gates of a port do by the state that the standard has for it (802.1Q-2022 12.29.1), as
our agent reports the same of a kernel (`tsn-linux`).

A switch that reports no state is taken to do what it has stored; a report says that it is so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from lxml.builder import ElementMaker

from cnc.data_tree import reply
from cnc.data_tree.reply import Element
from cnc.data_tree.tree import BRIDGE, CLOCK, INTERFACES, SCHED_BRIDGE, TSN_LINUX
from cnc.model import FIXED_CLASSES, NS_PER_S, GateMode, Profile

_TSNL = ElementMaker(namespace=TSN_LINUX, nsmap={None: TSN_LINUX})
_NAMESPACES = {"b": BRIDGE, "g": SCHED_BRIDGE, "if": INTERFACES}
_TABLE = reply.Leaves(SCHED_BRIDGE)
_CLASSES = reply.Leaves(BRIDGE)
_INTERFACE = reply.Leaves(INTERFACES)


def kernel(interface: Element, port: Element, table: Element | None, its: Profile) -> Element:
    """What an interface reports; `port` and `table` are of the tree of 2023."""
    speed = _INTERFACE.optional_number(interface, "speed")
    made = _TSNL("kernel", _TSNL("root-qdisc", "none, a switch with a profile"))
    if speed:
        made.append(_TSNL("link-speed-bps", str(speed)))
    if table is not None and is_on(table):
        schedules = list(_schedules(table, its))
        if schedules:
            made.extend([_TSNL("mode", GateMode.FULL_OFFLOAD), _TSNL("clock", CLOCK)])
            made.extend(_classes(port, its))
            made.extend(schedules)
    return made


def is_on(table: Element) -> bool:
    """Whether gates are enabled."""
    return _TABLE.text(table, "gate-enabled") == "true"


def _schedules(table: Element, its: Profile) -> Iterator[Element]:
    """The list that runs and the one that is pending."""
    if not its.reads_back:
        yield from _schedule(table, "running", "admin", _time_ns(table, "admin-base-time"))
        return
    yield from _schedule(table, "running", "oper", _time_ns(table, "oper-base-time"))
    if _TABLE.text(table, "config-pending") == "true":
        # A base time that has passed when it was set: the change is a whole number of cycles later.
        due_ns = _time_ns(table, "config-change-time") or _time_ns(table, "admin-base-time")
        yield from _schedule(table, "pending", "admin", due_ns)


def _schedule(table: Element, state: str, which: str, base_time_ns: int) -> Iterator[Element]:
    rows = list(reply.rows(table, f"g:{which}-control-list/g:gate-control-entry", _NAMESPACES))
    numerator = _TABLE.optional_number(table, f"{which}-cycle-time/numerator")
    denominator = _TABLE.optional_number(table, f"{which}-cycle-time/denominator")
    if not rows or not numerator or not denominator:
        return
    yield _TSNL(
        "schedule",
        _TSNL("state", state),
        _TSNL("base-time-ns", str(base_time_ns)),
        _TSNL("cycle-time-ns", str(NS_PER_S * numerator // denominator)),
        *(
            _TSNL(
                "entry",
                _TSNL("index", str(row.number("index"))),
                _TSNL("gate-states", str(row.number("gate-states-value"))),
                _TSNL("interval-ns", str(row.optional_number("time-interval-value") or 0)),
                _TSNL("operation", row.leaves.get("operation-name", ":set-gate-states")),
            )
            for row in rows
        ),
    )


def _time_ns(table: Element, leaf: str) -> int:
    seconds = _TABLE.optional_number(table, f"{leaf}/seconds") or 0
    return seconds * NS_PER_S + (_TABLE.optional_number(table, f"{leaf}/nanoseconds") or 0)


def _classes(port: Element, its: Profile) -> Iterator[Element]:
    """The traffic class of each priority; those of the standard where none is set."""
    stored = port.find("b:traffic-class/b:traffic-class-table", _NAMESPACES)
    count: int | None = None
    by_priority: Mapping[int, int] = dict(enumerate(FIXED_CLASSES))
    if its.sets_classes and stored is not None:
        count = _CLASSES.optional_number(stored, "number-of-traffic-classes")
        found = {p: _CLASSES.optional_number(stored, f"priority{p}") for p in by_priority}
        by_priority = {p: by_priority[p] if n is None else n for p, n in found.items()}
    yield _TSNL("traffic-classes", str(len(by_priority) if count is None else count))
    for priority, number in by_priority.items():
        row = _TSNL("priority", str(priority)), _TSNL("traffic-class", str(number))
        yield _TSNL("priority-map", *row)
