"""How a switch's bridge forwards the frames of streams: to the YANG tree, and read back.

`/bridges/bridge/component/filtering-database` of IEEE 802.1Q's module has the filtering entries
(8.8.1) and the VLAN registrations (8.8.2); `priority-regeneration` of a bridge port (6.9.4) makes
it take the priority of a tagged frame from its PCP. Which port a row is about is the leaf
`interface` of tsn-linux: the standard's `port-ref` is a number, which Linux gives a port anew each
time it joins a bridge; it only tells the rows of an entry apart.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Literal, NamedTuple

from lxml.builder import ElementMaker

from cnc.data_tree import reply
from cnc.data_tree.bridge_port import bridge_port_of
from cnc.data_tree.mac_addresses import from_tree, to_tree
from cnc.data_tree.reply import Element, Reply
from cnc.data_tree.tree import (
    BRIDGE,
    NETCONF,
    PRIORITIES,
    TSN_LINUX,
    BridgeReport,
    ForeignEntry,
    Recoding,
)
from cnc.mechanism import Interfaces, PlaceEdit
from cnc.mechanisms.composition import edits, within
from cnc.mechanisms.forwarding import code_points
from cnc.mechanisms.modules import installed_modules, lacking_modules
from cnc.mechanisms.registry import MECHANISMS
from cnc.model import (
    NO_FORWARDING,
    BridgeForwarding,
    Parts,
    StoredBridge,
    StreamAddress,
)

_BRIDGE = ElementMaker(namespace=BRIDGE, nsmap={None: BRIDGE})
_TSNL = ElementMaker(namespace=TSN_LINUX, nsmap={None: TSN_LINUX})
_NAMESPACES = {"b": BRIDGE, "t": TSN_LINUX}
_OPERATION = f"{{{NETCONF}}}operation"
_REPLACE = {_OPERATION: "replace"}
_REMOVE = {_OPERATION: "remove"}
_DATABASE_ID = "1"  # Linux has one filtering database for all VLANs (independent VLAN learning)
_VLAN_ID_MAX = 4094
# VLANs of all ports of a bridge together that the agent has not registered: all, of 64 ports. A
# range of 4094 takes six characters of a reply.
_FOREIGN_VLANS_MAX = 2**18
# States of a port with a link in which it forwards no frame (802.1Q 13.38, Linux's BR_STATE_*).
_HELD_BACK = frozenset({"listening", "learning", "blocking"})


def edit(parts: Mapping[str, BridgeForwarding], its: PlaceEdit) -> list[Element]:
    """Sets the forwarding of bridges, removes what is stored in the VLANs of streams beside it, and
    configures their ports as far as entries refer to them."""
    if not parts:
        return []
    stored = {name: at[StoredBridge] for name in parts if (at := its.stored.get(name))}
    before = {name: stored[name].forwarding if name in stored else None for name in parts}
    tables = {name: at.tables for name, at in stored.items()}
    of_switch, of_bridges = edits(parts, before, tables, its.base_time_ns)
    _add_bridge_ports(its.interfaces, parts, before)
    return [_bridges_element(parts, before, of_bridges), *of_switch]


def _add_bridge_ports(
    interfaces: Interfaces,
    bridges: Mapping[str, BridgeForwarding],
    before: Mapping[str, BridgeForwarding | None],
) -> None:
    """Add what bridges need of their ports: that they are configured, since entries refer to them,
    and whether a frame's PCP gives its priority."""
    members = {port for each in bridges.values() for port in each.members}
    changed = regenerations([(bridges[name], before[name]) for name in bridges])
    for port in sorted(members | changed.keys()):
        interface = interfaces.of(port)
        if operation := changed.get(port):
            bridge_port_of(interface).append(regeneration_element(operation))


def _bridges_element(
    changes: Mapping[str, BridgeForwarding],
    stored: Mapping[str, BridgeForwarding | None],
    beside: Mapping[str, Iterable[Element]],
) -> Element:
    """The `<bridges>` that sets the forwarding of these bridges, and removes what is `stored` in
    the VLANs of streams beside it; `beside` by bridge is what else changes of its component."""
    return _BRIDGE(
        "bridges",
        *(
            _bridge(name, desired, within(stored.get(name) or NO_FORWARDING, desired), beside[name])
            for name, desired in sorted(changes.items())
        ),
    )


def _bridge(
    name: str, desired: BridgeForwarding, stored: BridgeForwarding, beside: Iterable[Element]
) -> Element:
    obsolete_entries = stored.entries.keys() - desired.entries.keys()
    registered = {vlan_id: ports for vlan_id, ports in desired.vlans.items() if ports}
    obsolete_vlans = {vlan_id for vlan_id, ports in stored.vlans.items() if ports} - {*registered}
    return _BRIDGE(
        "bridge",
        _BRIDGE("name", name),
        _BRIDGE(
            "component",
            _BRIDGE("name", name),
            _BRIDGE(
                "filtering-database",
                *(_entry(_REMOVE, address) for address in sorted(obsolete_entries, key=str)),
                *(
                    _entry(_REPLACE, address, ports)
                    for address, ports in sorted(desired.entries.items(), key=str)
                ),
                *(_registration(_REMOVE, vlan_id) for vlan_id in sorted(obsolete_vlans)),
                *(
                    _registration(_REPLACE, vlan_id, ports)
                    for vlan_id, ports in sorted(registered.items())
                ),
            ),
            *beside,
        ),
    )


def _entry(operation: dict[str, str], address: StreamAddress, ports: Iterable[str] = ()) -> Element:
    return _BRIDGE(
        "filtering-entry",
        operation,
        _BRIDGE("database-id", _DATABASE_ID),
        _BRIDGE("vids", str(address.vlan_id)),
        # The key of the list is text: the agent writes it in upper case, too.
        _BRIDGE("address", to_tree(address.destination_mac)),
        *([_BRIDGE("entry-type", "static")] if ports else []),
        *(
            _row(number, port, _BRIDGE("static-filtering-entries", _leaf("control-element")))
            for number, port in enumerate(ports, start=1)
        ),
    )


def _registration(operation: dict[str, str], vlan_id: int, ports: Iterable[str] = ()) -> Element:
    return _BRIDGE(
        "vlan-registration-entry",
        operation,
        _BRIDGE("database-id", _DATABASE_ID),
        _BRIDGE("vids", str(vlan_id)),
        *([_BRIDGE("entry-type", "static")] if ports else []),
        *(
            _row(
                number,
                port,
                _BRIDGE(
                    "static-vlan-registration-entries",
                    _leaf("registrar-admin-control"),
                    _leaf("vlan-transmitted"),
                ),
            )
            for number, port in enumerate(ports, start=1)
        ),
    )


_VALUES = {
    "control-element": "forward",
    "registrar-admin-control": "fixed-new-ignored",
    "vlan-transmitted": "tagged",
}


def _leaf(name: str) -> Element:
    return _BRIDGE(name, _VALUES[name])


def _row(number: int, port: str, content: Element) -> Element:
    return _BRIDGE("port-map", _BRIDGE("port-ref", str(number)), content, _TSNL("interface", port))


Operation = Literal["merge", "remove"]


def regeneration_element(operation: Operation) -> Element:
    """The `<priority-regeneration>` of a bridge port: each priority as its PCP says, or none."""
    # Not replaced: where the container is there by default, sysrepo takes a replacement by values
    # that are the defaults for no change. All leaves are sent.
    element = _BRIDGE("priority-regeneration", {_OPERATION: operation})
    if operation == "merge":
        element.extend(_BRIDGE(f"priority{p}", str(p)) for p in range(PRIORITIES))
    return element


def regenerations(
    changes: Collection[tuple[BridgeForwarding, BridgeForwarding | None]],
) -> dict[str, Operation]:
    """By port what is to be done with its `<priority-regeneration>`; of each bridge the desired and
    the stored forwarding."""
    operations: dict[str, Operation] = {}
    for desired, stored in changes:
        before = within(stored or NO_FORWARDING, desired)
        operations |= dict.fromkeys({*before.trusting} - {*desired.trusting}, "remove")
    for desired, _ in changes:
        operations |= dict.fromkeys(desired.trusting, "merge")
    return operations


def configured_filters(bridges: Collection[str]) -> list[Element]:
    """Subtree filters: these bridges, and of all ports which priority received frames get."""
    return [code_points.configured_filter(), *bridge_filters(bridges)] if bridges else []


def state_filters(bridges: Collection[str]) -> list[Element]:
    """Subtree filters: these bridges, and of all ports what they make of code points."""
    return [code_points.state_filter(), *bridge_filters(bridges)] if bridges else []


def bridge_filters(bridges: Collection[str]) -> list[Element]:
    """Subtree filters: these bridges, and what mechanisms have beside them; none without any. A
    server that does not know the modules of the latter selects nothing."""
    if not bridges:
        return []
    names = (_BRIDGE("bridge", _BRIDGE("name", bridge)) for bridge in sorted(bridges))
    beside = (element for each in MECHANISMS for element in each.tree().filters())
    return [_BRIDGE("bridges", *names), *beside]


def settings_filter() -> Element:
    """A subtree filter: of each bridge its ports and what it is set to, without its entries."""
    settings = (_TSNL("vlan-filtering"), _TSNL("multicast-snooping"))
    component = _BRIDGE("component", _BRIDGE("name"), _BRIDGE("bridge-port"), *settings)
    return _BRIDGE("bridges", _BRIDGE("bridge", _BRIDGE("name"), component))


def stored_bridges(whole: Reply, bridges: Collection[str]) -> dict[str, StoredBridge]:
    """What is configured of these bridges, from the reply to a get-config; without those of which
    nothing is, where the tables of their switch are empty, too."""
    found: dict[str, StoredBridge] = {}
    if not bridges:
        return found
    components = _components(whole.data)
    trusting = code_points.configured_trust(whole.data)
    for name in bridges:
        component = components.get(name)
        stored = [each.tree().stored(whole, component) for each in MECHANISMS]
        tables = Parts.of(*(each.table for each in stored if each.table is not None))
        forwarding = None
        if component is not None:
            forwarding = _forwarding(component, trusting).having(*(each.part for each in stored))
        if forwarding or tables.parts:
            found[name] = StoredBridge(forwarding, tables)
    return found


def bridge_reports(whole: Reply, bridges: Collection[str]) -> dict[str, BridgeReport]:
    """What these bridges of the kernel do, from the operational state; without absent bridges."""
    if not bridges:
        return {}
    data = whole.data
    components = _components(data)
    if not components:
        return {}
    of_ports, revisions = _code_points(data), installed_modules(data)
    lacking = lacking_modules(revisions)
    found = {}
    for name in bridges:
        if (component := components.get(name)) is not None:
            report = replace(
                _report(component, of_ports), lacking_modules=lacking, revisions=revisions
            )
            for each in MECHANISMS:
                report = each.tree().reported(report, whole, component)
            found[name] = report
    return found


def all_bridge_reports(data: Element) -> dict[str, BridgeReport]:
    """What all bridges that the operational state has do, by name."""
    of_ports = _code_points(data)
    return {name: _report(component, of_ports) for name, component in _components(data).items()}


class _CodePoints(NamedTuple):
    """What the ports of a switch make of priority code points, whatever their bridge."""

    trusting: tuple[str, ...]
    recoded: dict[str, tuple[Recoding, ...]]


def _code_points(data: Element) -> _CodePoints:
    return _CodePoints(code_points.trust_in_kernel(data), code_points.recoded(data))


def _components(data: Element) -> dict[str, Element]:
    """By the name of the bridge its component, of which a Linux bridge has one."""
    found = {}
    for bridge in reply.entries(data, "b:bridges/b:bridge", _NAMESPACES):
        component = bridge.find("b:component", _NAMESPACES)
        if component is not None:
            found[_text(bridge, "name")] = component
    return found


def _report(component: Element, of_ports: _CodePoints) -> BridgeReport:
    ports = {
        reply.short(each.text or "", "bridge-port")
        for each in reply.entries(component, "b:bridge-port", _NAMESPACES)
    }
    return BridgeReport(
        ports=tuple(sorted(ports)),
        forwarding=_forwarding(component, of_ports.trusting),
        filters_vlans=reply.text(component, "t:vlan-filtering", _NAMESPACES) != "false",
        snoops_multicast=reply.text(component, "t:multicast-snooping", _NAMESPACES) != "false",
        recoded=of_ports.recoded,
        held_back={
            name: state
            for row in reply.entries(component, "t:port", _NAMESPACES)
            if (name := reply.text(row, "t:interface", _NAMESPACES))
            and (state := reply.text(row, "t:spanning-tree-state", _NAMESPACES)) in _HELD_BACK
        },
        hides_tags=frozenset(
            name
            for row in reply.entries(component, "t:port", _NAMESPACES)
            if (name := reply.text(row, "t:interface", _NAMESPACES))
            and reply.text(row, "t:rx-vlan-offload", _NAMESPACES) == "true"
        ),
        foreign_vlans=_foreign_vlans(component),
        foreign_entries=_foreign_entries(component),
    )


def _foreign_vlans(component: Element) -> dict[str, frozenset[int]]:
    found: dict[str, frozenset[int]] = {}
    total = 0
    for row in reply.entries(component, "t:foreign-vlans", _NAMESPACES):
        if name := reply.text(row, "t:interface", _NAMESPACES):
            found[name] = frozenset(_vlan_ids(reply.text(row, "t:vids", _NAMESPACES) or ""))
            total += len(found[name])
            if total > _FOREIGN_VLANS_MAX:
                raise ValueError(f"more than {_FOREIGN_VLANS_MAX} VLANs in foreign-vlans")
    return found


def _foreign_entries(component: Element) -> dict[str, tuple[ForeignEntry, ...]]:
    found: defaultdict[str, list[ForeignEntry]] = defaultdict(list)
    for row in reply.entries(component, "t:foreign-entries", _NAMESPACES):
        mac, port, vids = (
            reply.text(row, f"t:{leaf}", _NAMESPACES) for leaf in ("address", "interface", "vids")
        )
        if mac and port and vids:
            found[from_tree(mac)].append(ForeignEntry(port, tuple(_vlan_ranges(vids))))
    return {mac: tuple(entries) for mac, entries in found.items()}


def _forwarding(component: Element, trusting: tuple[str, ...]) -> BridgeForwarding:
    entries: dict[StreamAddress, tuple[str, ...]] = {}
    vlans: dict[int, tuple[str, ...]] = {}
    database = "b:filtering-database"
    for entry in _static(component, f"{database}/b:filtering-entry"):
        mac = from_tree(_text(entry, "address"))
        ports = tuple(sorted(_ports(entry, "static-filtering-entries/b:control-element")))
        for vlan_id in _vlan_ids(_text(entry, "vids")):
            entries[StreamAddress(mac, vlan_id)] = ports
        if len(entries) > reply.ENTRIES_MAX:
            raise ValueError(f"more than {reply.ENTRIES_MAX} addresses of filtering-entry")
    for entry in _static(component, f"{database}/b:vlan-registration-entry"):
        ports = tuple(sorted(_ports(entry, "static-vlan-registration-entries/b:vlan-transmitted")))
        for vlan_id in _vlan_ids(_text(entry, "vids")):
            if vlan_id in vlans:
                raise ValueError(f"more than one vlan-registration-entry of VLAN {vlan_id}")
            vlans[vlan_id] = ports
    return BridgeForwarding(entries, vlans, trusting)


def _static(component: Element, path: str) -> Iterator[Element]:
    """The entries that management made; what was learned comes and goes with the traffic."""
    for entry in reply.entries(component, path, _NAMESPACES):
        if reply.text(entry, "b:entry-type", _NAMESPACES) != "dynamic":
            yield entry


def _ports(entry: Element, leaf: str) -> Iterator[str]:
    """The ports of which a row has this leaf with the value that a rollout sets."""
    name = leaf.rpartition(":")[2]
    for row in reply.entries(entry, "b:port-map", _NAMESPACES):
        if reply.text(row, f"b:{leaf}", _NAMESPACES) == _VALUES[name]:
            port = reply.text(row, "t:interface", _NAMESPACES)
            if port is None:
                raise ValueError("the reply has no interface of tsn-linux in a port-map")
            yield port


def _vlan_ids(text: str) -> Iterator[int]:
    """The VLANs of a leaf `vids`: single ones and ranges, 1,10-100,250."""
    for each in _vlan_ranges(text):
        yield from each


def _vlan_ranges(text: str) -> Iterator[range]:
    end = 1
    for part in text.split(","):
        first, _, last = part.partition("-")
        low, high = reply.number(first, "vids"), reply.number(last or first, "vids")
        if not end <= low <= high <= _VLAN_ID_MAX:
            raise ValueError(f"vids is {text}: VLANs are 1 to {_VLAN_ID_MAX}, in rising order")
        end = high + 1
        yield range(low, end)


def _text(parent: Element, leaf: str) -> str:
    text = reply.text(parent, f"b:{leaf}", _NAMESPACES)
    if text is None:
        raise ValueError(f"the reply has no {leaf} in {parent.tag!s}")
    return text
