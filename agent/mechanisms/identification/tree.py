"""The entries of the Stream identity table that name a port → what that port is asked to do. Pure.

The tree is that of ieee802-dot1cb-stream-identification. What it offers and the deviations of
tsn-linux-unsupported leave out never gets here; what depends on several leaves is refused here.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import Any

from agent.mac_addresses import is_group
from agent.mechanism import STREAM_IDENTITY, Refused, Tree
from agent.mechanisms.identification.model import (
    IdentificationConfig,
    IdentificationTable,
    Incoming,
    Match,
    Named,
    Outgoing,
)
from agent.model import PortState
from agent.stream_identities import ACTIVE, NULL, is_naming

SOURCE_MAC, IP = (f"{kind}-stream-identification" for kind in ("smac-vlan", "ip"))
_KINDS = (NULL, SOURCE_MAC, IP, ACTIVE)


def configured(interface: Tree, _state: PortState | None) -> IdentificationConfig:
    """What the entries ask of this port; raises `Refused`, naming the entry."""
    port, listed = interface["name"], interface.get(STREAM_IDENTITY, [])
    for entry in listed:
        _refuse_misplaced(entry, port)
    named = [each for each in listed if is_naming(each)]
    entries = [each for each in listed if not is_naming(each)]
    identifying = [each for each in entries if port in _ports(each, "out-facing", "input-port")]
    rewriting = _rewriting(entries, port)
    for entry in identifying:
        if entry["handle"] not in rewriting:
            raise Refused(
                f"{_name(entry)}: frames of stream {entry['handle']} are identified, but no entry "
                f"with {port} among its in-facing output-ports says what they get; add one of "
                f"{ACTIVE} with the same handle"
            )
    for handle in rewriting.keys() - {each["handle"] for each in identifying}:
        raise Refused(
            f"{_name(rewriting[handle])}: no entry with {port} among its out-facing input-ports "
            f"identifies the frames of stream {handle}; add one with the same handle"
        )
    restoring = [each for each in entries if port in _ports(each, "in-facing", "input-port")]
    return IdentificationConfig(
        IdentificationTable(
            frozenset(_incoming(each, rewriting[each["handle"]]) for each in identifying),
            frozenset(_outgoing(each) for each in restoring),
            frozenset(_named(each, port) for each in named),
        )
    )


def _rewriting(entries: Sequence[Tree], port: str) -> dict[int, Tree]:
    """The entry that says what the frames of each stream get at this port, by handle."""
    found: dict[int, Tree] = {}
    for entry in entries:
        if port not in _ports(entry, "in-facing", "output-port"):
            continue
        if other := found.get(entry["handle"]):
            raise Refused(
                f"{_name(entry)}: {_name(other)} says already what frames of stream "
                f"{entry['handle']} get at {port} (IEEE Std 802.1CB-2017, 9.1.1.2); remove one"
            )
        found[entry["handle"]] = entry
    return found


def _refuse_misplaced(entry: Tree, port: str) -> None:
    kind = _kind(entry)
    if is_naming(entry):
        _refuse_twice(entry, port)
        return
    is_active = kind == ACTIVE
    facing = "out-facing" if is_active else "in-facing"
    if any(port in _ports(entry, facing, side) for side in ("input-port", "output-port")):
        other = "in-facing input-port or output-port" if is_active else "out-facing input-port"
        raise Refused(
            f"{_name(entry)}: {port} is {facing}, where {kind} has no effect; name it as {other}"
        )
    active = entry.get(ACTIVE, {})
    if active.get("up") and not _ports(entry, "in-facing", "input-port"):
        raise Refused(f"{_name(entry)}: up has no effect without an in-facing input-port")
    if "priority" in active.get("down", {}) and not _ports(entry, "in-facing", "output-port"):
        raise Refused(
            f"{_name(entry)}: the priority of down has no effect without an in-facing output-port"
        )


def _refuse_twice(entry: Tree, port: str) -> None:
    if port in _ports(entry, "in-facing", "output-port"):
        raise Refused(
            f"{_name(entry)}: {port} is an in-facing output-port, where {NULL} has no effect; name "
            "it as input-port"
        )
    if all(port in _ports(entry, facing, "input-port") for facing in ("in-facing", "out-facing")):
        raise Refused(
            f"{_name(entry)}: {port} is both in-facing and out-facing, and would count each frame "
            "twice; name it once"
        )


def _named(entry: Tree, port: str) -> Named:
    mac, vlan_id = (_given(entry, entry[NULL], leaf) for leaf in ("destination-mac", "vlan"))
    is_out_facing = port in _ports(entry, "out-facing", "input-port")
    return Named(entry["handle"], entry["index"], mac.upper(), vlan_id, is_out_facing)


def _incoming(entry: Tree, active: Tree) -> Incoming:
    down = active[ACTIVE].get("down", {})
    mac, vlan_id, pcp = (
        _given(active, down, f"down/{leaf}") for leaf in ("destination-mac", "vlan", "priority")
    )
    _given(active, down, "down/tagged")
    match = _match(entry)
    if match.ip_destination and is_group(mac):
        raise Refused(
            f"{_name(active)}: {mac} is a group address, and the bridge forwards IP packets to a "
            "group by their IP address, whatever the MAC address; choose an individual one"
        )
    return Incoming(
        entry["handle"], entry["index"], active["index"], match, mac.upper(), vlan_id, pcp
    )


def _outgoing(entry: Tree) -> Outgoing:
    down, up = (entry[ACTIVE].get(name, {}) for name in ("down", "up"))
    mac, vlan_id = (_given(entry, down, f"down/{leaf}") for leaf in ("destination-mac", "vlan"))
    restored = _given(entry, up, "up/destination-mac")
    for node, leaf in ((down, "down/tagged"), (up, "up/tagged")):
        _given(entry, node, leaf)
    return Outgoing(entry["handle"], entry["index"], mac.upper(), vlan_id, restored.upper())


def _match(entry: Tree) -> Match:
    parameters = entry[_kind(entry)]
    _given(entry, parameters, "tagged")
    if NULL in entry:
        return Match(destination_mac=_given(entry, parameters, "destination-mac").upper())
    if SOURCE_MAC in entry:
        return Match(source_mac=_given(entry, parameters, "source-mac").upper())
    return _ip_match(entry, parameters)


def _ip_match(entry: Tree, parameters: Tree) -> Match:
    """Zero stands for any source address and any port (IEEE Std 802.1CB-2017, 9.1.5)."""
    destination = _address(entry, _given(entry, parameters, "ip-destination"))
    source = _address(entry, parameters["ip-source"]) if "ip-source" in parameters else None
    if destination.is_unspecified:
        raise Refused(f"{_name(entry)}: ip-destination {destination} is the address of no station")
    if source and source.version != destination.version:
        raise Refused(
            f"{_name(entry)}: ip-source {source} and ip-destination {destination} are of two "
            "versions of IP"
        )
    protocol = parameters.get("next-protocol", "none")
    ports = [parameters.get(leaf, 0) for leaf in ("source-port", "destination-port")]
    if protocol == "none" and any(ports):
        raise Refused(
            f"{_name(entry)}: ports have no effect without a next-protocol; add udp, tcp or sctp"
        )
    mac = parameters.get("destination-mac")
    return Match(
        destination_mac=mac.upper() if mac else None,
        ip_source=None if source is None or source.is_unspecified else str(source),
        ip_destination=str(destination),
        dscp=parameters.get("dscp"),
        protocol=None if protocol == "none" else protocol,
        source_port=ports[0] or None,
        destination_port=ports[1] or None,
    )


def _address(entry: Tree, text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    if "%" in text:
        raise Refused(f"{_name(entry)}: {text}: no packet carries a zone; leave it out")
    return ipaddress.ip_address(text)


def _ports(entry: Tree, facing: str, side: str) -> Sequence[str]:
    ports: Sequence[str] = entry.get(facing, {}).get(side, ())
    return ports


def _given(entry: Tree, node: Tree, path: str) -> Any:
    """A leaf, which the standard does not require, but what it does here."""
    leaf = path.rpartition("/")[2]
    if leaf not in node:
        raise Refused(f"{_name(entry)}: {_kind(entry)} has no {path}")
    return node[leaf]


def _kind(entry: Tree) -> str:
    """The choice is mandatory; a container without any leaf is not in the tree."""
    kind = next((each for each in _KINDS if each in entry), None)
    if kind is None:
        raise Refused(f"{_name(entry)}: what identifies its frames is not given")
    return kind


def _name(entry: Tree) -> str:
    return f"entry {entry['index']} of stream-identity"
