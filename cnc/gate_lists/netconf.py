"""Gate tables of ports in XML, as NETCONF servers and OpenIL take them.

The revisions of ieee802-dot1q-sched differ in names: `gate-parameters` of 2018 has its entries
under `sgs-params`, those of 2020 and 2021 a `gate-parameter-table`, which 2023 has in the bridge
port and in a module of its own. A file is read by the names of elements, whatever namespace a
client gave them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from fractions import Fraction
from typing import Any

from lxml import etree
from lxml.builder import ElementMaker

from cnc.data_tree.list_times import gate_entries, list_times
from cnc.data_tree.reply import Element
from cnc.gate_lists.listed import Listed, listed, number, refused
from cnc.model import NS_PER_S, GateControlList, GateEntry

_TABLES = {"gate-parameters", "gate-parameter-table"}
_ENTRIES = {"admin-control-list", "gate-control-entry"}
_INTERFACES = "urn:ietf:params:xml:ns:yang:ietf-interfaces"
_BRIDGE = "urn:ieee:std:802.1Q:yang:ieee802-dot1q-bridge"
_SCHED = "urn:ieee:std:802.1Q:yang:ieee802-dot1q-sched"
_SCHED_BRIDGE = "urn:ieee:std:802.1Q:yang:ieee802-dot1q-sched-bridge"


class Revision(StrEnum):
    """Of the standard's modules, by the year of their names."""

    OF_2018 = "2018"
    OF_2021 = "2021"
    OF_2023 = "2023"


def read(text: bytes, source: str) -> list[Listed]:
    """The lists of all interfaces. Raises InputError."""
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False)
    try:
        root = etree.fromstring(text, parser)
    except etree.XMLSyntaxError as error:
        line = error.lineno or 1
        raise refused(f"{source}:{line}", f"no XML: {error.msg}", "an XML document") from None
    found = [_table(each, source) for each in root.iter() if _name(each) in _TABLES]
    if not found:
        raise refused(source, "no gate-parameters or gate-parameter-table", "one of a port")
    return found


def _name(element: Element) -> str:
    """Without its namespace; nothing of comments."""
    return etree.QName(element).localname if isinstance(element.tag, str) else ""


def _table(table: Element, source: str) -> Listed:
    where = f"{source}:{table.sourceline}"
    interface = next((each for each in table.iterancestors() if _name(each) == "interface"), None)
    port = None if interface is None else _text(interface, "name")
    rows = [_row(each, source) for each in table.iter() if _name(each) in _ENTRIES]
    entries = [entry for _, entry in sorted(filter(None, rows), key=lambda row: row[0])]
    cycle, base = _child(table, "admin-cycle-time"), _child(table, "admin-base-time")
    remarks = []
    if _text(table, "gate-enabled") == "false":
        remarks.append("its gates are off (gate-enabled false)")
    if (_text(table, "admin-cycle-time-extension") or "0") != "0":
        remarks.append("admin-cycle-time-extension is not taken")
    return listed(
        where,
        port,
        entries,
        cycle_ns=None if cycle is None else _cycle_ns(cycle, source),
        base_time_ns=0 if base is None else _base_ns(base, source),
        remarks=remarks,
    )


def _row(entry: Element, source: str) -> tuple[int, GateEntry] | None:
    """The index and the entry; None of a list around entries."""
    where = f"{source}:{entry.sourceline}"
    inner = entry if _text(entry, "gate-states-value") else _child(entry, "sgs-params")
    if inner is None or _text(inner, "gate-states-value") is None:
        return None
    operation = (_text(entry, "operation-name") or "set-gate-states").rpartition(":")[2]
    if operation != "set-gate-states":
        expected = "set-gate-states: no plan holds preemptable frames back"
        raise refused(where, f"the operation {operation}", expected)
    return _number(entry, "index", where), GateEntry(
        _number(inner, "gate-states-value", where), _number(inner, "time-interval-value", where)
    )


def _cycle_ns(cycle: Element, source: str) -> int:
    where = f"{source}:{cycle.sourceline}"
    numerator, denominator = (_number(cycle, each, where) for each in ("numerator", "denominator"))
    cycle_s = Fraction(numerator, denominator) if denominator else Fraction(0)
    if cycle_s <= 0 or (cycle_s * NS_PER_S).denominator != 1:
        raise refused(where, f"a cycle of {numerator}/{denominator} s", "whole nanoseconds")
    return int(cycle_s * NS_PER_S)


def _base_ns(base: Element, source: str) -> int:
    where = f"{source}:{base.sourceline}"
    if (_text(base, "fractional-seconds") or "0") != "0":
        found = f"fractional-seconds {_text(base, 'fractional-seconds')}"
        expected = "0: revisions differ in its unit; state base-offset in the intent"
        raise refused(where, found, expected)
    seconds, nanoseconds = (
        number(where, _text(base, each) or "0", each) for each in ("seconds", "nanoseconds")
    )
    return seconds * NS_PER_S + nanoseconds


def _child(parent: Element, name: str) -> Element | None:
    return next((each for each in parent if _name(each) == name), None)


def _text(parent: Element, name: str) -> str | None:
    child = _child(parent, name)
    return None if child is None else (child.text or "").strip()


def _number(parent: Element, name: str, where: str) -> int:
    text = _text(parent, name)
    if text is None:
        raise refused(where, f"no {name}", "one")
    return number(where, text, name)


def text(lists: Mapping[str, GateControlList], revision: Revision) -> str:
    """A document for one switch: the interfaces with these lists, by name."""
    make = ElementMaker(namespace=_INTERFACES, nsmap={None: _INTERFACES})
    interfaces = make(
        "interfaces",
        *(
            make("interface", make("name", port), _placed(its, revision))
            for port, its in lists.items()
        ),
    )
    written: bytes = etree.tostring(interfaces, pretty_print=True, encoding="utf-8")
    return written.decode()


def _placed(gates: GateControlList, revision: Revision) -> Element:
    """The table where the revision has it."""
    if revision is not Revision.OF_2023:
        return _written(gates, revision, _SCHED)
    bridge = ElementMaker(namespace=_BRIDGE, nsmap={None: _BRIDGE})
    return bridge("bridge-port", _written(gates, revision, _SCHED_BRIDGE))


def _written(gates: GateControlList, revision: Revision, namespace: str) -> Element:
    make = ElementMaker(namespace=namespace, nsmap={None: namespace, "sched": _SCHED})
    if revision is Revision.OF_2018:
        return make(
            "gate-parameters",
            make("gate-enabled", "true"),
            *_of_2018(make, gates),
            *list_times(make, gates.cycle_ns, 0, "fractional-seconds"),
        )
    return make(
        "gate-parameter-table",
        make("gate-enabled", "true"),
        gate_entries(make, gates),
        *list_times(make, gates.cycle_ns, 0),
    )


def _of_2018(make: Any, gates: GateControlList) -> Iterator[Element]:
    yield make("admin-control-list-length", str(len(gates.entries)))
    for index, each in enumerate(gates.entries):
        yield make(
            "admin-control-list",
            make("index", str(index)),
            make("operation-name", "set-gate-states"),
            make(
                "sgs-params",
                make("gate-states-value", str(each.gate_states)),
                make("time-interval-value", str(each.interval_ns)),
            ),
        )
