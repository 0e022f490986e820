"""The static forwarding of bridges in the kernel.

An individual address is a static, sticky entry of the bridge's fdb, a group address a permanent
entry of its mdb at each port. What leaves in these VLANs without an entry, because the bridge
floods it or has learned its address, is dropped by a table of nftables, which also is the record of
what the agent has made (`agent.kernel.nft_bridge`).
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from agent.composition import Change, Contribution, KernelObject
from agent.kernel import bridge_entries
from agent.kernel.bridge_entries import BridgeEntry
from agent.kernel.netlink_batch import (
    NETLINK_NETFILTER,
    Message,
    NetlinkSocket,
    raise_first,
)
from agent.kernel.nft_bridge import BridgeTable, Listed, ListedEntry, ListedMember
from agent.kernel.refusal import reason, set_or_restore
from agent.mac_addresses import octets, text
from agent.mechanism import KernelAdapter, Node
from agent.mechanisms.forwarding.model import (
    Address,
    Entry,
    ForwardingConfig,
    ForwardingState,
    ForwardingTable,
    Member,
)
from agent.mechanisms.forwarding.rules import FilteringDatabase, repair
from agent.model import AgentError, PortConfig, PortState

# Of an entry that is to be removed: it, its VLAN or its port is gone already.
_GONE = frozenset({errno.ENOENT, errno.EINVAL, errno.ENODEV})


@dataclass(frozen=True, slots=True)
class _Found:
    """What the kernel has of one bridge. `recorded` is what the agent has made, or was about to
    make when it was killed; `present` all static entries and members, whoever has made them."""

    recorded: ForwardingTable
    present: ForwardingTable

    @property
    def own(self) -> ForwardingTable:
        return ForwardingTable(
            self.recorded.entries & self.present.entries,
            self.recorded.members & self.present.members,
        )

    @property
    def foreign(self) -> ForwardingTable:
        """An individual address that is recorded at another port stays the agent's."""
        own = {each.address for each in self.recorded.entries if not each.address.is_group}
        return ForwardingTable(
            frozenset(
                each
                for each in self.present.entries - self.recorded.entries
                if each.address not in own
            ),
            self.present.members - self.recorded.members,
        )


# No interface has such a name (net/core/dev.c: dev_valid_name): the table that the kernel is asked
# for, and does not make, is that of no bridge.
_PROBED = "/"
_NO_NFTABLES = "the kernel has no nftables (CONFIG_NF_TABLES_BRIDGE)"


class BridgeAdapter(KernelAdapter):
    """Needs CAP_NET_ADMIN. Not to be used by two threads at once."""

    def __init__(self, _ipr: IPRoute) -> None:
        self._route = NetlinkSocket(socket.NETLINK_ROUTE)
        self._netfilter = _netfilter()
        self.objects = {FilteringDatabase: self._replace}
        self._states: Mapping[str, PortState] = {}
        self._outdated: dict[str, int] = {}
        self._is_able = False  # once the kernel has taken a table it is not asked again

    def capability(self) -> str | None:
        if self._is_able:
            return None
        if self._netfilter is None:
            return _NO_NFTABLES
        if refusal := BridgeTable(self._netfilter, _PROBED).refusal():
            return (
                f"this kernel takes no table of nftables for bridges: {reason(refusal)}; boot a "
                "kernel with CONFIG_NF_TABLES_BRIDGE and CONFIG_NFT_BRIDGE_META"
            )
        self._is_able = True
        return None

    def problems(self, config: PortConfig) -> Iterator[str]:
        if config[ForwardingConfig].table and (why := self.capability()):
            yield why

    def leaves(self) -> Node:
        why = self.capability()
        return {"forwarding-refused": why} if why else {}

    def close(self) -> None:
        self._route.close()
        if self._netfilter:
            self._netfilter.close()

    def read(self, states: Mapping[str, PortState]) -> dict[str, PortState]:
        self._states = states
        found, self._outdated = dict(states), {}
        for name, state in states.items():
            if state.as_bridge is None:
                continue
            kernel = self._read(name, state.ifindex)
            own = kernel.own if state.as_bridge.vlan_filtering else ForwardingTable()
            found[name] = state.with_part(ForwardingState(own, kernel.foreign))
            if kernel.recorded != own:
                self._outdated[name] = state.ifindex
        return found

    def repairs(self) -> Iterator[Change]:
        """A record of what is there no more."""
        for bridge, ifindex in self._outdated.items():
            yield repair(bridge, ifindex)

    def _read(self, bridge: str, ifindex: int) -> _Found:
        names = {
            state.ifindex: name
            for name, state in self._states.items()
            if bridge in (name, state.bridge)
        }
        listed = BridgeTable(self._netfilter, bridge).read() if self._netfilter else Listed()
        fdb = bridge_entries.read_fdb(self._route, ifindex)
        mdb = bridge_entries.read_mdb(self._route, ifindex)
        return _Found(
            ForwardingTable(
                frozenset(
                    Entry(Address(text(each.mac), each.vlan_id), each.port)
                    for each in listed.entries
                ),
                frozenset(Member(each.vlan_id, each.port) for each in listed.members),
            ),
            ForwardingTable(
                frozenset(
                    Entry(Address(text(each.mac), each.vlan_id), names[each.ifindex])
                    for each in (*fdb, *mdb)
                    if each.ifindex in names
                ),
                frozenset(
                    Member(each.vlan_id, names[each.ifindex])
                    for each in bridge_entries.read_vlans(self._route)
                    if each.ifindex in names
                ),
            ),
        )

    def _replace(
        self, target: KernelObject, before: Sequence[Contribution], after: Sequence[Contribution]
    ) -> None:
        """Let the bridge have what `after` holds; if refused, `before` again and AgentError."""
        bridge, ifindex = target.port_and_ifindex()
        try:
            set_or_restore(
                lambda table: self._set(bridge, ifindex, table or ForwardingTable()), before, after
            )
        except (NetlinkError, OSError) as refusal:
            raise AgentError(
                f"port {bridge}: the kernel refused static forwarding: {reason(refusal)}"
            ) from refusal

    def _set(self, bridge: str, ifindex: int, wanted: ForwardingTable) -> None:
        """Entries are recorded before they are made, and forgotten after they have been removed:
        whenever the agent is killed, the next one knows what is the agent's."""
        if self._netfilter is None:
            raise OSError(_NO_NFTABLES)
        found = self._read(bridge, ifindex)
        table = BridgeTable(self._netfilter, bridge)
        obsolete = ForwardingTable(
            found.own.entries - wanted.entries, found.own.members - wanted.members
        )
        recorded = ForwardingTable(
            wanted.entries | obsolete.entries, wanted.members | obsolete.members
        )
        if recorded != found.recorded:
            table.replace(_listed(recorded))
        self._remove_entries(ifindex, obsolete.entries, wanted.entries)
        self._send_members(bridge_entries.add_vlans, wanted.members - found.present.members)
        self._add_entries(ifindex, wanted.entries - found.present.entries)
        self._send_members(bridge_entries.delete_vlans, obsolete.members, _GONE)
        if recorded != wanted:
            table.replace(_listed(wanted))

    def _remove_entries(
        self, ifindex: int, obsolete: Iterable[Entry], wanted: Iterable[Entry]
    ) -> None:
        """An individual address that gets another port is moved, not removed."""
        moved = {each.address for each in wanted if not each.address.is_group}
        removals = [
            bridge_entries.delete_mdb(ifindex, self._entry(each))
            if each.address.is_group
            else bridge_entries.delete_fdb(self._entry(each))
            for each in sorted(obsolete)
            if each.address not in moved
        ]
        raise_first(self._route.send(removals), _GONE)

    def _add_entries(self, ifindex: int, missing: Iterable[Entry]) -> None:
        additions = [
            bridge_entries.add_mdb(ifindex, self._entry(each))
            if each.address.is_group
            else bridge_entries.set_fdb(self._entry(each))
            for each in sorted(missing)
        ]
        raise_first(self._route.send(additions))

    def _send_members(
        self,
        message: Callable[[int, Iterable[int]], Message],
        members: Iterable[Member],
        ignored: frozenset[int] = frozenset(),
    ) -> None:
        vlan_ids: dict[int, list[int]] = {}
        for each in sorted(members):
            vlan_ids.setdefault(self._ifindex(each.port), []).append(each.vlan_id)
        messages = [message(ifindex, vlans) for ifindex, vlans in vlan_ids.items()]
        raise_first(self._route.send(messages), ignored)

    def _entry(self, entry: Entry) -> BridgeEntry:
        address = entry.address
        return BridgeEntry(octets(address.mac), address.vlan_id, self._ifindex(entry.port))

    def _ifindex(self, port: str) -> int:
        """Of a port that is gone 0, which the kernel refuses."""
        return self._states[port].ifindex if port in self._states else 0


def _netfilter() -> NetlinkSocket | None:
    try:
        return NetlinkSocket(NETLINK_NETFILTER)
    except OSError:
        return None


def _listed(table: ForwardingTable) -> Listed:
    return Listed(
        frozenset(
            ListedEntry(octets(each.address.mac), each.address.vlan_id, each.port)
            for each in table.entries
        ),
        frozenset(ListedMember(each.vlan_id, each.port) for each in table.members),
    )
