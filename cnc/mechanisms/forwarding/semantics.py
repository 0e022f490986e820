"""What a document says of the addresses of streams in a bridged network."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from cnc.keys.keys import Keys
from cnc.keys.mac_addresses import check_extent, reserved_for
from cnc.keys.problems import KeyPath, Problems
from cnc.model import (
    Forwarding,
    InHardware,
    Intent,
    IpIdentification,
    Stream,
    StreamAddress,
    mac_number,
)
from cnc.support.format import counted

if TYPE_CHECKING:
    from cnc.keys import shape


_IP_PACKETS = "which is of IP packets"
_TAG = "which is of a tag before the EtherType"
_NO_PAYLOAD = {
    **dict.fromkeys((0x0800, 0x86DD), _IP_PACKETS),
    **dict.fromkeys((0x8100, 0x88A8, 0xF1C1), _TAG),
}


def _check(document: shape.Document, intent: Intent, problems: Problems) -> None:
    """Add to `problems` what is wrong with the keys of bridged networks."""
    if intent.network.forwarding is Forwarding.ROUTED:
        problems.refuse_routed(_bridged_keys(document))
        return
    _check_range(intent, problems)
    for name, stream in intent.streams.items():
        _check_mac(stream, problems)
        _check_pcp(name, document.streams[name], intent, problems)
        _check_ethertype(document.streams[name], stream, problems)
    _check_unique(document, intent, problems)
    if problems.empty:
        _check_room(intent, problems)


def _bridged_keys(document: shape.Document) -> Iterator[tuple[KeyPath, object]]:
    """The keys of a document that only bridged networks have, and what they hold."""
    yield from _bridged_keys_of_nodes(document)
    for name, stream in document.streams.items():
        for key, value in (
            ("destination-mac", stream.destination_mac),
            ("vlan", stream.vlan),
            ("pcp", stream.pcp),
            ("ethertype", None if stream.ethertype is None else f"{stream.ethertype:#06x}"),
        ):
            if value is not None:
                yield ("streams", name, key), value


def _bridged_keys_of_nodes(document: shape.Document) -> Iterator[tuple[KeyPath, object]]:
    if document.addresses is not None:
        yield ("addresses",), "a range of addresses"
    if document.defaults.filters_in_hardware is not InHardware.PREFERRED:
        yield ("defaults", "filters-in-hardware"), document.defaults.filters_in_hardware
    for name, switch in document.switches.items():
        for key, value in (
            ("bridge", switch.bridge),
            ("filtering-entries-max", switch.filtering_entries_max),
            ("filters-in-hardware", switch.filters_in_hardware),
        ):
            if value is not None:
                yield ("switches", name, key), value


def _check_range(intent: Intent, problems: Problems) -> None:
    its = intent.assignable
    for mac in (its.first_mac, its.last_mac):
        if not StreamAddress(mac, 0).is_group:
            written = f"{its.first_mac} - {its.last_mac}"
            problems.add(("addresses", "macs"), written, f"group addresses, which {mac} is not")
            return
    check_extent(its, "macs", "all are for groups", problems)
    for vlan_id, count in Counter(its.vlan_ids).items():
        if count > 1:
            problems.add(("addresses", "vlans"), f"{vlan_id} twice", "each VLAN once")


def _check_mac(stream: Stream, problems: Problems) -> None:
    mac = stream.destination_mac
    if mac is None:
        return
    path = ("streams", stream.name, "destination-mac")
    if reason := reserved_for(mac):
        problems.add(path, f"{mac}, {reason}", "another address, or none: the plan assigns one")
    elif not StreamAddress(mac, 0).is_group and (stream.paths > 1 or len(stream.listeners) > 1):
        why = "two paths" if stream.paths > 1 else f"{len(stream.listeners)} listeners"
        problems.add(
            path,
            f"{mac}, the address of one station, for {why}",
            "a group address, whose first octet is odd, or none: the plan assigns one",
        )


def _check_pcp(name: str, its: shape.Stream, intent: Intent, problems: Problems) -> None:
    stream = intent.streams[name]
    classes = [intent.classes[each] for each in stream.traffic_classes if each in intent.classes]
    if its.pcp is None or not classes or any(each.priority == its.pcp for each in classes):
        return
    led_to = next((each for each in intent.classes.values() if each.priority == its.pcp), None)
    leads = f"leads to class {led_to.name}" if led_to else "is the priority of no class"
    allowed = " or ".join(f"{each.priority}, the priority of class {each.name}" for each in classes)
    problems.add(("streams", name, "pcp"), f"{its.pcp}, which {leads}", allowed)


def _check_ethertype(its: shape.Stream, stream: Stream, problems: Problems) -> None:
    if stream.ethertype is None:
        return
    written = f"{stream.ethertype:#06x}"
    if reason := _NO_PAYLOAD.get(stream.ethertype):
        expected = "that of what the frames carry; none, with ip, for IP packets"
        problems.add(("streams", stream.name, "ethertype"), f"{written}, {reason}", expected)
    elif "ip" in its.model_fields_set:
        found = f"{stream.ip_version}, and the ethertype {written}"
        problems.add(("streams", stream.name, "ip"), found, "one of the two")
    elif isinstance(stream.identification, IpIdentification):
        problems.add(
            ("streams", stream.name, "identification"),
            f"IP headers, and the ethertype {written}",
            "source-mac or destination-mac, by which the first switch knows frames without IP",
        )


def _check_unique(document: shape.Document, intent: Intent, problems: Problems) -> None:
    """Streams with one address are told apart by their PCP, and have one filtering entry."""
    users: dict[StreamAddress, list[str]] = {}
    for name, stream in intent.streams.items():
        address = stream.stated_address
        if address is None:
            continue
        others = users.setdefault(address, [])
        code_points = [document.streams[each].pcp for each in (*others, name)]
        alike = [each for each in others if document.streams[each].pcp == code_points[-1]]
        if others and (alike or None in code_points):
            problems.add(
                ("streams", name, "destination-mac"),
                f"{address}, which stream {(alike or others)[0]} has",
                "an address of its own: another MAC address, or another VLAN; or a pcp of its own "
                "for each of these streams",
            )
        others.append(name)
        for each in others if len(others) > 1 else ():
            _check_alone(intent.streams[each], address, problems)


def _check_alone(stream: Stream, address: StreamAddress, problems: Problems) -> None:
    """Second copies would go where those of other streams go, and a switch that translates looks at
    no PCP."""
    for key, found, expected in (
        ("paths", stream.paths > 1 and str(stream.paths), "1"),
        ("identification", stream.identification and "one", "none"),
    ):
        if found:
            problems.add(
                ("streams", stream.name, key),
                f"{found}, and {address}, which other streams have, too",
                f"{expected}, or an address of its own",
            )


def _check_room(intent: Intent, problems: Problems) -> None:
    """Whether there is an address for each stream, whatever runs."""
    streams = [*intent.streams.values()]
    tagged = [stream for stream in streams if stream.identification is None]
    untagged = [stream for stream in streams if stream.identification]
    _check_room_in("macs", tagged, intent, problems)
    _check_room_in("individual-macs", untagged, intent, problems)
    _check_room_by_mac(intent, problems)


def _check_room_in(key: str, users: Sequence[Stream], intent: Intent, problems: Problems) -> None:
    """Whether the range that is stated as `key` does for the streams that have their address of
    it."""
    its = intent.individual if key == "individual-macs" else intent.assignable
    streams = intent.streams.values()
    in_range = frozenset(its.vlan_ids)
    taken = len(
        {
            (stream.destination_mac, stream.vlan_id)
            for stream in streams
            if stream.destination_mac is not None
            if stream.vlan_id in in_range and mac_number(stream.destination_mac) in its.macs
        }
    )
    wanting = sum(stream.destination_mac is None and stream.vlan_id is None for stream in users)
    path = ("addresses", key) if "addresses" in intent.document else ("streams",)
    if wanting > (left := len(its) - taken):
        problems.add(
            path, f"{counted(left, 'address')} that no stream states", f"{wanting}, one for each"
        )
    # Streams that state a VLAN only share the MAC addresses there.
    for vlan_id, count in Counter(s.vlan_id for s in users if s.destination_mac is None).items():
        if vlan_id is None:
            continue
        in_vlan = {s.destination_mac for s in streams if s.vlan_id == vlan_id and s.destination_mac}
        left = len(its.macs) - sum(mac_number(mac) in its.macs for mac in in_vlan)
        if count > left:
            names = [s.name for s in users if s.vlan_id == vlan_id and s.destination_mac is None]
            free = counted(left, "address")
            sharing = counted(count, "stream")
            found = f"{vlan_id}, where addresses.{key} leaves {free} for {sharing}"
            problems.add(("streams", names[-1], "vlan"), found, "a longer range, or another VLAN")


def _check_room_by_mac(intent: Intent, problems: Problems) -> None:
    """Streams that state a MAC address only share the VLANs."""
    its, streams = intent.assignable, intent.streams.values()
    for mac, count in Counter(s.destination_mac for s in streams if s.vlan_id is None).items():
        if mac is None:
            continue
        taken_vlans = {s.vlan_id for s in streams if s.destination_mac == mac}
        left = sum(vlan_id not in taken_vlans for vlan_id in its.vlan_ids)
        if count > left:
            users = [s.name for s in streams if s.destination_mac == mac and s.vlan_id is None]
            free = counted(left, "VLAN")
            sharing = counted(count, "stream")
            found = f"{mac} of {sharing}, for which addresses.vlans has {free} left"
            expected = "a VLAN of its own, or more VLANs in addresses"
            problems.add(("streams", users[-1], "destination-mac"), found, expected)


KEYS = Keys({}, check=_check)
