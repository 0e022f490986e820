"""The gate table of a port in the tree of a switch with a profile, from and to that of IEEE Std
802.1Qcw-2023, which all other rooms know.

    2023   interface/bridge-port/gate-parameter-table/admin-control-list/gate-control-entry*
    2018   interface/gate-parameters/admin-control-list*/sgs-params

The leaves have the same names but for the part of a time behind the seconds. (The older tree:
ieee802-dot1q-sched@2018-09-10; what TTTech's plug-in for sysrepo takes as fractional-seconds are
nanoseconds.)
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy

from lxml import etree
from lxml.builder import ElementMaker

from cnc.data_tree import reply
from cnc.data_tree.reply import Element
from cnc.data_tree.tree import BRIDGE, NETCONF, SCHED, SCHED_BRIDGE
from cnc.model import NS_PER_S, GateTree, Profile

_TABLE = ElementMaker(namespace=SCHED_BRIDGE, nsmap={None: SCHED_BRIDGE, "sched": SCHED})
_OLDER = ElementMaker(namespace=SCHED, nsmap={None: SCHED, "sched": SCHED})
_OPERATION = f"{{{NETCONF}}}operation"
_LISTS = ("admin-control-list", "oper-control-list")
_TIMES = ("admin-base-time", "oper-base-time", "config-change-time", "current-time")
LIMITS = ("supported-list-max", "supported-cycle-max", "supported-interval-max")
_OF_ENTRY = ("time-interval-value", "gate-states-value")
_IN_2018 = {"nanoseconds": "fractional-seconds"}
_IN_2023 = {its: name for name, its in _IN_2018.items()}


def table_in(interface: Element, profile: Profile) -> Element | None:
    """The gate table of an interface as the switch has sent it, in the tree of 2023; None where
    there is none. Without limits that a rollout has written beside a list."""
    table = _table_in(interface, profile)
    return without_limits(table) if table is not None and profile.writes_limits else table


def without_limits(table: Element) -> Element:
    """The table, from which what a rollout writes of limits is removed."""
    for each in list(table):
        if etree.QName(each).localname in LIMITS:
            table.remove(each)
    return table


def _table_in(interface: Element, profile: Profile) -> Element | None:
    if profile.gates is GateTree.BRIDGE_PORT:
        path = f"{{{BRIDGE}}}bridge-port/{{{SCHED_BRIDGE}}}gate-parameter-table"
        found = interface.find(path)
        return None if found is None else deepcopy(found)
    older = interface.find(f"{{{SCHED}}}gate-parameters")
    if older is None:
        return None
    table = _TABLE("gate-parameter-table")
    for name in _LISTS:
        if rows := list(reply.entries(older, f"s:{name}", {"s": SCHED})):
            table.append(_TABLE(name, *map(_entry_of_2023, rows)))
    for child in older.iterchildren(f"{{{SCHED}}}*"):
        name = etree.QName(child).localname
        if name in _TIMES:
            table.append(_renamed(child, _TABLE, _IN_2023))
        elif name not in _LISTS and not name.endswith("-list-length"):
            table.append(_renamed(child, _TABLE, {}))
    return table


def _entry_of_2023(row: Element) -> Element:
    leaves = {etree.QName(each).localname: each.text or "" for each in row.iter(f"{{{SCHED}}}*")}
    names = ("index", "operation-name", *_OF_ENTRY)
    return _TABLE("gate-control-entry", *(_TABLE(n, leaves[n]) for n in names if n in leaves))


def table_for(table: Element, profile: Profile) -> Element:
    """The same from the tree of 2023 to that of the switch, with the limits that it wants to have
    beside a list."""
    if table.get(_OPERATION) != "remove" and profile.writes_limits:
        table.extend(_limits(table))
    if profile.gates is GateTree.BRIDGE_PORT:
        return table
    older = _OLDER("gate-parameters", dict(table.attrib))
    for child in table.iterchildren(f"{{{SCHED_BRIDGE}}}*"):
        name = etree.QName(child).localname
        if name in _LISTS:
            rows = list(child)
            older.append(_OLDER(f"{name}-length", str(len(rows))))
            older.extend(_entry_of_2018(name, row) for row in rows)
        else:
            older.append(_renamed(child, _OLDER, _IN_2018 if name in _TIMES else {}))
    return older


def _entry_of_2018(name: str, row: Element) -> Element:
    leaves = {etree.QName(each).localname: each.text or "" for each in row}
    return _OLDER(
        name,
        *(_OLDER(each, leaves[each]) for each in ("index", "operation-name")),
        _OLDER("sgs-params", *(_OLDER(each, leaves[each]) for each in _OF_ENTRY)),
    )


def _limits(table: Element) -> Iterator[Element]:
    """The least that admits the list: what the published module compares a list with."""
    namespaces = {"g": SCHED_BRIDGE}
    intervals = [
        reply.number(each.text or "", "time-interval-value")
        for each in table.iterfind(
            "g:admin-control-list/g:gate-control-entry/g:time-interval-value", namespaces
        )
    ]
    entries, longest_cycle, longest_interval = LIMITS
    yield _TABLE(entries, str(len(intervals)))
    cycle = table.find("g:admin-cycle-time", namespaces)
    if cycle is not None:
        yield _TABLE(longest_cycle, *(deepcopy(each) for each in cycle))
    yield _TABLE(longest_interval, str(max(intervals, default=NS_PER_S)))


def _renamed(element: Element, make: ElementMaker, names: dict[str, str]) -> Element:
    """A copy in another namespace, with other names of leaves."""
    own = etree.QName(element).localname
    made = make(names.get(own, own), *(_renamed(each, make, names) for each in element))
    if element.text and not len(element):
        made.text = element.text
    return made
