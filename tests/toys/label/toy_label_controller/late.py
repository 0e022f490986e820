"""The key of an intent, and the tree of a switch."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any

from lxml.builder import ElementMaker
from pydantic import Field

from cnc.data_tree.reply import Element, Reply, rows
from cnc.data_tree.tree import NETCONF, BridgeReport
from cnc.keys.keys import Keys, Level
from cnc.keys.mapping import Shape
from cnc.keys.values import text
from cnc.mechanism import Edit, Stored, Tree
from toy_label_controller import Labels, Row, Wanted, labels, rows_of

_LABEL = ElementMaker(namespace="urn:toy:label", nsmap={None: "urn:toy:label"})


class StreamKeys(Shape):
    label: Annotated[str, text("[a-z]+", "lower-case letters")] | None = Field(
        None, description="what switches label the stream with"
    )


def _stated(document: Any, _problems: object) -> Iterator[Wanted]:
    stated = {name: its[StreamKeys].label for name, its in document.streams.items()}
    yield Wanted({name: label for name, label in stated.items() if label})


def _read(component: Element) -> Labels:
    found = (each.leaves for each in rows(component, "l:label", {"l": "urn:toy:label"}))
    return labels(tuple(Row(its["destination"], int(its["vlan"]), its["text"]) for its in found))


def _reported(report: BridgeReport, _reply: Reply, component: Element) -> BridgeReport:
    return replace(report, forwarding=report.forwarding.having(_read(component)))


def _entry(operation: str, row: Row, *more: Element) -> Element:
    keys = _LABEL("destination", row.destination_mac), _LABEL("vlan", str(row.vlan_id))
    return _LABEL("label", {f"{{{NETCONF}}}operation": operation}, *keys, *more)


def _edit(wanted: Labels, stored: Labels, _edit: Edit) -> list[Element]:
    gone = stored.only(stored.by_address.keys() - wanted.by_address.keys())
    removed = [_entry("remove", row) for row in rows_of(gone)]
    return [*removed, *(_entry("replace", r, _LABEL("text", r.text)) for r in rows_of(wanted))]


KEYS = Keys({Level.STREAM: StreamKeys}, read=_stated)
TREE = Tree(
    lambda _reply, component: Stored(Labels() if component is None else _read(component)),
    _reported,
    edit_bridge=_edit,
)
