"""Entries of Linux bridges by netlink: the filtering database, groups, members of VLANs.

Messages and dumps of RTM_*NEIGH (struct ndmsg), RTM_*MDB (struct br_mdb_entry) and RTM_*LINK with
AF_BRIDGE, from linux/neighbour.h and linux/if_bridge.h. MAC addresses are octets.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from agent.kernel.netlink_batch import (
    NLM_F_CREATE,
    NLM_F_EXCL,
    NLM_F_REPLACE,
    Message,
    NetlinkSocket,
    attribute,
    attributes,
)
from agent.kernel.rtnetlink import (
    IFINFOMSG,
    RTM_DELLINK,
    RTM_DELMDB,
    RTM_DELNEIGH,
    RTM_GETLINK,
    RTM_GETMDB,
    RTM_GETNEIGH,
    RTM_NEWMDB,
    RTM_NEWNEIGH,
    RTM_SETLINK,
)

AF_BRIDGE = 7

_NDMSG = struct.Struct("=BxxxiHBB")
_NTF_MASTER, _NTF_STICKY = 0x04, 0x40
_NUD_NOARP, _NUD_PERMANENT = 0x40, 0x80
_NDA_LLADDR, _NDA_VLAN, _NDA_MASTER = 2, 5, 9

_BR_PORT_MSG = struct.Struct("=BxxxI")
_BR_MDB_ENTRY = struct.Struct("=IBBH16sHxx")
_MDB_PERMANENT = 1
_MDBA_SET_ENTRY = _MDBA_MDB = _MDBA_MDB_ENTRY = _MDBA_MDB_ENTRY_INFO = 1

_IFLA_AF_SPEC, _IFLA_EXT_MASK = 26, 29
_RTEXT_FILTER_BRVLAN = 2
_IFLA_BRIDGE_VLAN_INFO = 2
_BRIDGE_VLAN_INFO = struct.Struct("=HH")
MAC_OCTETS = 6


class BridgeEntry(NamedTuple):
    """Frames to this address in this VLAN leave by this port; made, not learned."""

    mac: bytes
    vlan_id: int
    ifindex: int


class VlanMember(NamedTuple):
    """A port, or a bridge itself, is a member of a VLAN, where frames are tagged."""

    vlan_id: int
    ifindex: int


def set_fdb(entry: BridgeEntry) -> Message:
    """A static entry for an individual address, in place of what was learned.

    Sticky: without it the bridge moves a static entry, too, when it sees the address as the source
    of a frame at another port (br_fdb_update).
    """
    return Message(
        RTM_NEWNEIGH,
        _ndmsg(entry, _NUD_NOARP, _NTF_MASTER | _NTF_STICKY),
        NLM_F_CREATE | NLM_F_REPLACE,
    )


def delete_fdb(entry: BridgeEntry) -> Message:
    return Message(RTM_DELNEIGH, _ndmsg(entry, 0, _NTF_MASTER))


def add_mdb(bridge_ifindex: int, entry: BridgeEntry) -> Message:
    """A permanent entry for a group address."""
    return Message(RTM_NEWMDB, _mdb(bridge_ifindex, entry), NLM_F_CREATE | NLM_F_EXCL)


def delete_mdb(bridge_ifindex: int, entry: BridgeEntry) -> Message:
    return Message(RTM_DELMDB, _mdb(bridge_ifindex, entry))


def add_vlans(ifindex: int, vlan_ids: Iterable[int]) -> Message:
    """Make a port a member of VLANs, all or none."""
    return Message(RTM_SETLINK, _vlans(ifindex, vlan_ids))


def delete_vlans(ifindex: int, vlan_ids: Iterable[int]) -> Message:
    return Message(RTM_DELLINK, _vlans(ifindex, vlan_ids))


def read_fdb(kernel: NetlinkSocket, bridge_ifindex: int) -> Iterator[BridgeEntry]:
    """The static and permanent entries; those of the bridge itself have its own index."""
    request = _NDMSG.pack(AF_BRIDGE, 0, 0, 0, 0)
    for message in kernel.dump(Message(RTM_GETNEIGH, request)):
        _family, ifindex, state, _flags, _type = _NDMSG.unpack_from(message.payload)
        if not state & (_NUD_NOARP | _NUD_PERMANENT):
            continue
        found = dict(attributes(message.payload[_NDMSG.size :]))
        if _NDA_VLAN in found and _u32(found.get(_NDA_MASTER)) == bridge_ifindex:
            yield BridgeEntry(found[_NDA_LLADDR], _u16(found[_NDA_VLAN]), ifindex)


def read_mdb(kernel: NetlinkSocket, bridge_ifindex: int) -> Iterator[BridgeEntry]:
    """The permanent entries for group addresses; those for groups of IP are left out."""
    request = _BR_PORT_MSG.pack(AF_BRIDGE, 0)
    for message in kernel.dump(Message(RTM_GETMDB, request)):
        if _BR_PORT_MSG.unpack_from(message.payload)[1] != bridge_ifindex:
            continue
        for kind, database in attributes(message.payload[_BR_PORT_MSG.size :]):
            if kind == _MDBA_MDB:
                yield from _groups(database)


def read_vlans(kernel: NetlinkSocket) -> Iterator[VlanMember]:
    """All members of VLANs, on all bridges; a bridge that is one itself has its own index."""
    request = IFINFOMSG.pack(AF_BRIDGE, 0, 0, 0, 0)
    request += attribute(_IFLA_EXT_MASK, struct.pack("=I", _RTEXT_FILTER_BRVLAN))
    for message in kernel.dump(Message(RTM_GETLINK, request)):
        ifindex = IFINFOMSG.unpack_from(message.payload)[2]
        for kind, of_family in attributes(message.payload[IFINFOMSG.size :]):
            if kind != _IFLA_AF_SPEC:
                continue
            for each, value in attributes(of_family):
                if each == _IFLA_BRIDGE_VLAN_INFO:
                    yield VlanMember(_BRIDGE_VLAN_INFO.unpack(value)[1], ifindex)


def _ndmsg(entry: BridgeEntry, state: int, flags: int) -> bytes:
    return (
        _NDMSG.pack(AF_BRIDGE, entry.ifindex, state, flags, 0)
        + attribute(_NDA_LLADDR, entry.mac)
        + attribute(_NDA_VLAN, struct.pack("=H", entry.vlan_id))
    )


def _mdb(bridge_ifindex: int, entry: BridgeEntry) -> bytes:
    packed = _BR_MDB_ENTRY.pack(entry.ifindex, _MDB_PERMANENT, 0, entry.vlan_id, entry.mac, 0)
    return _BR_PORT_MSG.pack(AF_BRIDGE, bridge_ifindex) + attribute(_MDBA_SET_ENTRY, packed)


def _vlans(ifindex: int, vlan_ids: Iterable[int]) -> bytes:
    vlans = b"".join(
        attribute(_IFLA_BRIDGE_VLAN_INFO, _BRIDGE_VLAN_INFO.pack(0, each)) for each in vlan_ids
    )
    return IFINFOMSG.pack(AF_BRIDGE, 0, ifindex, 0, 0) + attribute(_IFLA_AF_SPEC, vlans)


def _groups(database: bytes) -> Iterator[BridgeEntry]:
    for _kind, of_group in attributes(database):
        for kind, info in attributes(of_group):
            if kind != _MDBA_MDB_ENTRY_INFO:
                continue
            ifindex, state, _flags, vlan_id, mac, protocol = _BR_MDB_ENTRY.unpack_from(info)
            if state == _MDB_PERMANENT and protocol == 0:
                yield BridgeEntry(mac[:MAC_OCTETS], vlan_id, ifindex)


def _u16(value: bytes) -> int:
    return int(struct.unpack("=H", value)[0])


def _u32(value: bytes | None) -> int | None:
    return int(struct.unpack("=I", value)[0]) if value else None
