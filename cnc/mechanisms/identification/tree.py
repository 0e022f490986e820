"""What a switch makes of frames that talkers send untagged: to the YANG tree, and read back.

`/stream-identity` of IEEE 802.1CB's module is one list for the whole switch. An entry at
`out-facing/input-port` tells by what the first switch knows a stream's frames; one at
`in-facing/output-port`, on their way into the bridge, gives them the address, VLAN and priority of
the stream; one at `in-facing/input-port`, on their way out, gives them back the listener's address.
Where frames come in with the address of their stream, and something refers to it by its handle, an
entry at `out-facing/input-port` names it, and changes nothing of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from ipaddress import ip_address

from lxml.builder import ElementMaker

from cnc.data_tree import reply
from cnc.data_tree.mac_addresses import from_tree, to_tree
from cnc.data_tree.reply import Element, Reply
from cnc.data_tree.tree import NETCONF, STREAM_IDENTIFICATION, BridgeReport
from cnc.mechanism import IdentityTable, Stored, Tree
from cnc.mechanisms.handles import (
    Handles,
    KnownStream,
    NamedAt,
    Number,
    Numbers,
    StoredIdentities,
    StoredIdentity,
)
from cnc.mechanisms.identification.model import (
    IdentityPart,
    Inward,
    Outward,
    Translation,
    Translations,
    parts_of,
)
from cnc.model import (
    Identification,
    IpIdentification,
    NextProtocol,
    NullIdentification,
    Parts,
    SourceMacIdentification,
    StreamAddress,
)

_SID = ElementMaker(namespace=STREAM_IDENTIFICATION, nsmap={None: STREAM_IDENTIFICATION})
_NAMESPACES = {"s": STREAM_IDENTIFICATION}
_LEAVES = reply.Leaves(STREAM_IDENTIFICATION)
_OPERATION = f"{{{NETCONF}}}operation"
_ACTIVE = "dmac-vlan-stream-identification"
_NULL = "null-stream-identification"
_SOURCE_MAC = "smac-vlan-stream-identification"
_IP = "ip-stream-identification"
# How an entry says whether frames have a tag.
_TAGGED, _UNTAGGED = "tagged", "priority"


# --- to the tree ---------------------------------------------------------------------------------


def _edit(
    parts: Collection[Translations],
    named: Mapping[StreamAddress, NamedAt],
    vlan_ids: Collection[int],
    tables: Parts,
) -> tuple[list[Element], Handles]:
    """What sets the translations of a switch's bridges and names the streams that other tables
    refer to, and removes what is stored, of all of its list, in the VLANs of streams beside them.
    """
    desired = {a: its for each in parts for a, its in each.by_stream.items()}
    stored = tables[StoredIdentities].entries
    numbers = Numbers(stored)
    wanted: dict[Number, list[Element]] = {}
    handles: dict[tuple[StreamAddress, str], int] = {}
    for address in sorted(desired.keys() | named.keys(), key=str):
        for ports in named.get(address, ()):
            number = numbers.of_name(address, ports)
            wanted[number] = [*_name(address, ports)]
            handles |= {(address, port): number.handle for port in ports}
        translation = desired.get(address, Translation())
        for part in parts_of(translation):
            wanted[numbers.of(address, part)] = [*_parameters(address, translation, part)]
        for its in (translation.inward, translation.outward):
            if its is not None:
                handles[address, its.port] = numbers.handle(address)
    kept = {each.index for each in wanted}
    removed = [
        each
        for each in stored
        if each.address and each.address.vlan_id in vlan_ids and each.index not in kept
    ]
    elements = [
        *(
            _SID("stream-identity", {_OPERATION: "remove"}, _SID("index", str(each.index)))
            for each in sorted(removed, key=lambda each: each.index)
        ),
        *(_entry(number, wanted[number]) for number in sorted(wanted)),
    ]
    obsolete = {each.handle for each in removed} - {each.handle for each in wanted}
    return elements, Handles(handles, obsolete)


def _entry(number: Number, parameters: list[Element]) -> Element:
    return _SID(
        "stream-identity",
        {_OPERATION: "replace"},
        _SID("index", str(number.index)),
        _SID("handle", str(number.handle)),
        *parameters,
    )


def _address_leaves(address: StreamAddress) -> list[Element]:
    return [
        _SID("destination-mac", to_tree(address.destination_mac)),
        _SID("tagged", _TAGGED),
        _SID("vlan", str(address.vlan_id)),
    ]


def _name(address: StreamAddress, ports: Iterable[str]) -> Iterator[Element]:
    """By what frames are known that come in with their tag: the address itself (802.1CB 6.4)."""
    yield _SID("out-facing", *(_SID("input-port", port) for port in ports))
    yield _SID(_NULL, *_address_leaves(address))


def _parameters(
    address: StreamAddress, translation: Translation, part: IdentityPart
) -> Iterator[Element]:
    down = _address_leaves(address)
    inward, outward = translation.inward, translation.outward
    if part is IdentityPart.OUTWARD and outward:
        yield _SID("in-facing", _SID("input-port", outward.port))
        up = (_SID("destination-mac", to_tree(outward.listener_mac)), _SID("tagged", _UNTAGGED))
        yield _SID(_ACTIVE, _SID("down", *down), _SID("up", *up))
    elif part is IdentityPart.INWARD and inward:
        yield _SID("in-facing", _SID("output-port", inward.port))
        yield _SID(_ACTIVE, _SID("down", *down, _SID("priority", str(inward.pcp))))
    elif inward:
        yield _SID("out-facing", _SID("input-port", inward.port))
        yield _known_by(inward.identification)


def _known_by(its: Identification) -> Element:
    untagged = _SID("tagged", _UNTAGGED)
    match its:
        case SourceMacIdentification(mac):
            return _SID(_SOURCE_MAC, _SID("source-mac", to_tree(mac)), untagged)
        case NullIdentification(mac):
            return _SID(_NULL, _SID("destination-mac", to_tree(mac)), untagged)
        case IpIdentification() as ip:
            leaves = {
                "ip-source": ip.source,
                "ip-destination": ip.destination,
                "dscp": ip.dscp,
                "next-protocol": None if ip.protocol is NextProtocol.NONE else ip.protocol,
                "source-port": ip.source_port,
                "destination-port": ip.destination_port,
            }
            stated = (_SID(leaf, str(value)) for leaf, value in leaves.items() if value is not None)
            return _SID(_IP, untagged, *stated)


# --- from the tree -------------------------------------------------------------------------------


def _filters() -> list[Element]:
    """The whole list, since entries refer to their streams by number."""
    return [_SID("stream-identity")]


def _stored(whole: Reply) -> StoredIdentities:
    """The whole list of a switch, and what its entries are part of."""
    handles: dict[int, StreamAddress] = {}
    parsed = whole.once(_entries)
    for each in parsed:
        if each.address:
            handles.setdefault(each.handle, each.address)
    return StoredIdentities(
        tuple(
            StoredIdentity(
                each.index,
                each.handle,
                handles.get(each.handle) if each.part is IdentityPart.IDENTIFY else each.address,
                each.part,
                each.named_at,
            )
            for each in parsed
        )
    )


def _translations(whole: Reply) -> dict[StreamAddress, Translation]:
    """What a switch makes of untagged frames, by the address of the stream.

    A part of which something is missing, or is otherwise than any rollout sets it, is left out.
    """
    by_handle: dict[int, list[_Parsed]] = defaultdict(list)
    for parsed in whole.once(_entries):
        by_handle[parsed.handle].append(parsed)
    found: dict[StreamAddress, Translation] = {}
    for parts in by_handle.values():
        passive = {each.port: each.known_by for each in parts if each.known_by and each.port}
        inward: dict[StreamAddress, Inward] = {}
        outward: dict[StreamAddress, Outward] = {}
        for each in parts:
            if each.address is None or each.port is None or not each.is_whole:
                continue
            known_by = passive.get(each.port)
            if each.part is IdentityPart.INWARD and known_by and each.pcp is not None:
                inward[each.address] = Inward(each.port, known_by, each.pcp)
            elif each.part is IdentityPart.OUTWARD and each.listener_mac:
                outward[each.address] = Outward(each.port, each.listener_mac)
        for address in inward | outward:
            found[address] = Translation(inward.get(address), outward.get(address))
    return found


def _known(whole: Reply) -> dict[int, KnownStream]:
    """The streams that other tables of a switch may refer to, by handle."""
    found = {}
    translated = whole.once(_translations)
    for each in whole.once(_entries):
        if each.address is None:
            continue
        inward = translated.get(each.address, Translation()).inward
        if each.part is IdentityPart.NAME:
            found[each.handle] = KnownStream(each.address, each.named_at)
        elif each.part is IdentityPart.INWARD and inward:
            found[each.handle] = KnownStream(each.address, (inward.port,))
    return found


def _reported(report: BridgeReport, whole: Reply, _component: Element) -> BridgeReport:
    part = Translations(whole.once(_translations))
    return replace(report, forwarding=report.forwarding.having(part))


def _entries(whole: Reply) -> tuple[_Parsed, ...]:
    found = reply.entries(whole.data, "s:stream-identity", _NAMESPACES)
    return tuple(map(_Parsed.of, found))


@dataclass(frozen=True, slots=True)
class _Parsed:
    """An entry, as far as it is one that a rollout sets. `port` is None where it has none, or
    several; `is_whole` is False where something is set that no rollout sets so."""

    index: int
    handle: int
    part: IdentityPart | None
    port: str | None
    address: StreamAddress | None = None
    known_by: Identification | None = None
    pcp: int | None = None
    listener_mac: str | None = None
    is_whole: bool = True
    named_at: tuple[str, ...] = ()

    @classmethod
    def of(cls, entry: Element) -> _Parsed:
        index, handle = _LEAVES.number(entry, "index"), _LEAVES.number(entry, "handle")
        part, port = _place(entry)
        active = entry.find(f"s:{_ACTIVE}", _NAMESPACES)
        if active is None:
            is_passive = part is IdentityPart.IDENTIFY
            if is_passive and (address := _tagged_address(entry)):
                ports = _input_ports(entry)
                name = IdentityPart.NAME
                return cls(index, handle, name, port, address=address, named_at=ports)
            known_by = _identification(entry) if is_passive else None
            return cls(index, handle, part if is_passive else None, port, known_by=known_by)
        if part is None:  # both ways in one entry, or at ports that are gone
            part = (
                IdentityPart.INWARD
                if _LEAVES.text(active, "down/priority")
                else IdentityPart.OUTWARD
            )
        priority, up_mac = (
            _LEAVES.text(active, "down/priority"),
            _LEAVES.text(active, "up/destination-mac"),
        )
        is_outward = part is IdentityPart.OUTWARD
        return cls(
            index,
            handle,
            part,
            port,
            address=_address(active),
            pcp=None if priority is None else reply.number(priority, "priority"),
            listener_mac=None if up_mac is None else from_tree(up_mac),
            is_whole=_LEAVES.text(active, "down/tagged") == _TAGGED
            and (not is_outward or _LEAVES.text(active, "up/tagged") == _UNTAGGED),
        )


def _place(entry: Element) -> tuple[IdentityPart | None, str | None]:
    """What an entry does by where it stands, and the port; None where there are several."""
    places = {
        part: [reply.short(port.text or "", "port") for port in found]
        for part, path in _FACINGS
        if (found := [*reply.entries(entry, path, _NAMESPACES)])
    }
    if len(places) != 1:
        return None, None
    ((part, ports),) = places.items()
    return part, ports[0] if len(ports) == 1 else None


_FACINGS = (
    (IdentityPart.IDENTIFY, "s:out-facing/s:input-port"),
    (IdentityPart.INWARD, "s:in-facing/s:output-port"),
    (IdentityPart.OUTWARD, "s:in-facing/s:input-port"),
)


def _tagged_address(entry: Element) -> StreamAddress | None:
    """The address by which an entry knows frames with a tag; None where it knows others."""
    null = entry.find(f"s:{_NULL}", _NAMESPACES)
    if null is None or _LEAVES.text(null, "tagged") != _TAGGED:
        return None
    return _address_of(_LEAVES.text(null, "destination-mac"), _LEAVES.text(null, "vlan"))


def _input_ports(entry: Element) -> tuple[str, ...]:
    """Where frames come in from the wire, sorted."""
    found = reply.entries(entry, "s:out-facing/s:input-port", _NAMESPACES)
    return tuple(sorted(reply.short(port.text or "", "input-port") for port in found))


def _address(active: Element) -> StreamAddress | None:
    return _address_of(
        _LEAVES.text(active, "down/destination-mac"), _LEAVES.text(active, "down/vlan")
    )


def _address_of(mac: str | None, vlan: str | None) -> StreamAddress | None:
    if mac is None or vlan is None:
        return None
    return StreamAddress(from_tree(mac), reply.number(vlan, "vlan"))


def _identification(entry: Element) -> Identification | None:
    """By what an entry knows untagged frames; None where it does otherwise."""
    for name in (_NULL, _SOURCE_MAC, _IP):
        known_by = entry.find(f"s:{name}", _NAMESPACES)
        if known_by is None or _LEAVES.text(known_by, "tagged") != _UNTAGGED:
            continue
        if name == _IP:
            return _ip(known_by)
        leaf = "source-mac" if name == _SOURCE_MAC else "destination-mac"
        if mac := _LEAVES.text(known_by, leaf):
            of_mac = SourceMacIdentification if name == _SOURCE_MAC else NullIdentification
            return of_mac(from_tree(mac))
    return None


def _ip(known_by: Element) -> IpIdentification | None:
    destination, source = (
        _LEAVES.text(known_by, "ip-destination"),
        _LEAVES.text(known_by, "ip-source"),
    )
    protocol = _LEAVES.text(known_by, "next-protocol") or NextProtocol.NONE
    is_known = protocol in {*NextProtocol} and _LEAVES.text(known_by, "destination-mac") is None
    if destination is None or not is_known:
        return None
    return IpIdentification(
        destination=str(ip_address(destination)),
        source=None if source is None else str(ip_address(source)),
        protocol=NextProtocol(protocol),
        source_port=_LEAVES.optional_number(known_by, "source-port"),
        destination_port=_LEAVES.optional_number(known_by, "destination-port"),
        dscp=_LEAVES.optional_number(known_by, "dscp"),
    )


TREE: Tree[Translations] = Tree(
    filters=_filters,
    stored=lambda whole, _component: Stored(
        Translations(whole.once(_translations)), whole.once(_stored)
    ),
    reported=_reported,
    streams=IdentityTable(_edit, _known),
)
