"""Fields of the model as leaves of `tsn-multipath`, both ways: one table for each list entry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from lxml.builder import ElementMaker

from cnc.data_tree import reply
from cnc.data_tree.reply import Element
from cnc.mechanisms.multipath.connections import (
    Application,
    ConnectionMode,
    Connections,
    Reading,
    Source,
)
from cnc.mechanisms.multipath.model import RadioTechnology

MULTIPATH = "urn:tsn-control-plane:yang:tsn-multipath"
MP = ElementMaker(namespace=MULTIPATH, nsmap={None: MULTIPATH})
LEAVES = reply.Leaves(MULTIPATH)
NAMESPACES = {"m": MULTIPATH}
_NS_PER_MS, _NS_PER_S = 1_000_000, 1_000_000_000


class _Number(NamedTuple):
    """`unit` is the leaf's in units of the field, negative where the field's is the larger one."""

    path: str
    unit: int = 1

    def text(self, value: int) -> str:
        return str(value // self.unit if self.unit > 0 else value * -self.unit)

    def value(self, text: str) -> int:
        number = reply.number(text, self.path)
        return number * self.unit if self.unit > 0 else number // -self.unit


class _Text(NamedTuple):
    path: str
    kind: type[StrEnum] | type[str] = str

    def text(self, value: str) -> str:
        return str(value)

    def value(self, text: str) -> str:
        return self.kind(text)


class _List(NamedTuple):
    """A leaf-list: a tuple of such values, sorted, since the server keeps no order."""

    of: _Number | _Text


_Table = Mapping[str, _Number | _Text | _List]
PATH: _Table = {
    "radio_technologies": _List(_Text("radio-technology", RadioTechnology)),
    "minimum_signal_dbm": _Number("minimum-signal"),
    "data_limit_octets": _Number("data-limit/maximum"),
    "data_warning_percent": _Number("data-limit/warning"),
}
_APPLICATION: _Table = {
    "name": _Text("name"),
    "mode": _Text("mode", ConnectionMode),
    "source": _Text("source", Source),
    "users": _List(_Number("user")),
    "control_groups": _List(_Text("control-group")),
    "remote_ports": _List(_Number("remote-port")),
    "media_rate_bps": _Number("media-rate"),
    "media_duration_ns": _Number("media-duration", _NS_PER_S),
}
_MORE: _Table = {field: its for field, its in _APPLICATION.items() if field != "name"}
_CONNECTIONS: _Table = {
    "threshold_ns": _Number("on-demand/threshold", _NS_PER_MS),
    "removal_threshold_ns": _Number("on-demand/removal-threshold", _NS_PER_MS),
    "reading": _Text("on-demand/reading", Reading),
    "small_object_octets": _Number("download/small-object"),
    "long_running_ns": _Number("download/long-running", _NS_PER_MS),
    "heat_zone": _Text("heat/zone"),
    "heat_stop_celsius": _Number("heat/stop-level", -1000),
    "heat_restart_celsius": _Number("heat/restart-level", -1000),
    "retry_after_ns": _Number("retry-after", _NS_PER_MS),
}


def written(part: object, table: _Table) -> list[Element]:
    """The leaves of what is not None, in the containers that they are in."""
    found: list[Element] = []
    holders: dict[str, Element] = {}
    for path, text in texts(part, table):
        *parents, leaf = path.split("/")
        element = MP(leaf, text)
        for parent in parents:
            if parent not in holders:
                found.append(holders.setdefault(parent, MP(parent)))
            holders[parent].append(element)
        if not parents:
            found.append(element)
    return found


def texts(part: object, table: _Table) -> Iterator[tuple[str, str]]:
    """The paths and texts of the leaves of what is not None; of a list one for each value."""
    for name, its in table.items():
        value: Any = getattr(part, name)
        if isinstance(its, _List):
            yield from ((its.of.path, its.of.text(each)) for each in value)
        elif value is not None:
            yield its.path, its.text(value)


def read(node: Element, table: _Table) -> dict[str, Any]:
    """The fields of the leaves that are there."""
    found: dict[str, Any] = {}
    for name, its in table.items():
        if isinstance(its, _List):
            texts = reply.entries(node, f"m:{its.of.path}", NAMESPACES)
            found[name] = tuple(sorted(its.of.value(each.text or "") for each in texts))
        elif (text := LEAVES.text(node, its.path)) is not None:
            found[name] = its.value(text)
    return found


def connections(its: Connections) -> list[Element]:
    """What is in `connections`; the order of applications counts."""
    applications = [MP("application", *written(each, _APPLICATION)) for each in its.applications]
    return [*applications, *written(its, _CONNECTIONS)]


def words(its: Connections | None) -> dict[str, str]:
    """What differs of connections is said by these, each application as one."""
    if its is None:
        return {}
    applications = {
        f"application {each.name}": " ".join(f"{leaf} {text}" for leaf, text in texts(each, _MORE))
        for each in its.applications
    }
    order = {"applications": " ".join(each.name for each in its.applications)}
    return applications | order | dict(texts(its, _CONNECTIONS))


def stored_connections(node: Element | None) -> Connections | None:
    if node is None:
        return None
    listed = reply.entries(node, "m:application", NAMESPACES)
    applications = tuple(Application(**read(each, _APPLICATION)) for each in listed)
    return Connections(applications, **read(node, _CONNECTIONS))
