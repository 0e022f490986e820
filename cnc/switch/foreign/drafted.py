"""A device profile as far as a server says what it can do: its hello, its modules, its state."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lxml import etree
from lxml.builder import ElementMaker

from cnc.data_tree.reply import Element
from cnc.data_tree.tree import INTERFACES
from cnc.model import CommitStyle, GateTree
from cnc.switch.foreign.gate_tables import LIMITS, without_limits
from cnc.switch.offered import CAPABILITY, Module, commit_styles

OUR_MODULE = "tsn-linux"
_BRIDGE_MODULE = "ieee802-dot1q-bridge"
_IF = ElementMaker(namespace=INTERFACES, nsmap={None: INTERFACES})
_ENTRIES, _, _INTERVAL = LIMITS
_TABLES = {"gate-parameter-table", "gate-parameters"}
_OF_A_LIST_THAT_RUNS = ("oper-control-list", "config-pending")


@dataclass(frozen=True, slots=True)
class DraftProfile:
    """The keys of a device profile (`cnc.keys.profile`), None where the switch has no gates that
    are known here; what an operator should look at."""

    keys: Mapping[str, Any] | None
    remarks: tuple[str, ...]


def ports_filter() -> list[Element]:
    """A subtree filter: all of all ports."""
    return [_IF("interfaces")]


def drafted(
    capabilities: Collection[str],
    modules: Mapping[str, Module],
    reported: Element,
    stored: Element,
) -> DraftProfile:
    """`reported` is the operational state of `ports_filter`, `stored` what is configured there."""
    remarks = ["runs no tsn-agent: its profile is drafted from what its server says"]
    remarks += _deviations(modules)
    tree = next((its for its in GateTree if its in modules), None)
    style = next(iter(commit_styles(capabilities)), None)
    if tree is None:
        remarks.append(f"has none of {', '.join(GateTree)}: nothing here sets its gates")
    if style is None:
        remarks.append("takes neither edits of candidate nor of running")
    if tree is None or style is None:
        return DraftProfile(None, tuple(remarks))
    tables = _tables(reported)
    # Limits that are configured are those that a rollout has written beside lists.
    if _least(_tables(stored), _ENTRIES):
        tables = [without_limits(each) for each in tables]
    keys: dict[str, Any] = {"name": "drafted", "gates-tree": str(tree), "commit": str(style)}
    keys |= dict.fromkeys(_facts(capabilities, modules, tables), True)
    if "writes-limits" in keys:
        remarks.append("reports no supported-list-max: its limits are unknown, and go with a list")
    if (entries := _least(tables, _ENTRIES)) > 0:
        keys["gate-entries-max"] = entries
    if (interval_ns := _least(tables, _INTERVAL)) > 0:
        keys["gate-interval-max"] = f"{interval_ns}ns"
    if style is not CommitStyle.CONFIRMED:
        remarks.append("does not revert by itself what is not confirmed: see foreign-switches.md")
    return DraftProfile(keys, tuple(remarks))


def _tables(data: Element) -> list[Element]:
    return [each for each in data.iter(etree.Element) if etree.QName(each).localname in _TABLES]


def _facts(
    capabilities: Collection[str], modules: Mapping[str, Module], tables: list[Element]
) -> Iterator[str]:
    if any(_has(table, name) for table in tables for name in _OF_A_LIST_THAT_RUNS):
        yield "reads-back"
    if any(_has(table, "current-time") for table in tables):
        yield "reports-clock"
    if f"{CAPABILITY}startup:1.0" in capabilities:
        yield "has-startup"
    if GateTree.BRIDGE_PORT in modules and not _least(tables, _ENTRIES):
        yield "writes-limits"
    if _BRIDGE_MODULE in modules:
        yield from ("sets-classes", "forwards")


def _deviations(modules: Mapping[str, Module]) -> Iterator[str]:
    for name in sorted({*GateTree, _BRIDGE_MODULE} & modules.keys()):
        if deviations := modules[name].deviations:
            yield f"deviates from {name} by {', '.join(deviations)}: read what it lacks"


def _has(table: Element, name: str) -> bool:
    return table.find(f"{{*}}{name}") is not None


def _least(tables: list[Element], name: str) -> int:
    found = [_number(each) for table in tables for each in table.iterfind(f"{{*}}{name}")]
    return min(filter(None, found), default=0)


def _number(leaf: Element) -> int:
    text = leaf.text or ""
    return int(text) if text.isdecimal() else 0
