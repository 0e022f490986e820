"""The path manager of single connections: what each has, compared with what its mode decides.

The kernel leaves a connection to this program that began while `net.mptcp.pm_type` was 1. All that
a connection has is read at each look (inet_diag): an agent that was killed has forgotten what was
measured, and no subflow.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import NamedTuple

from pyroute2.netlink.exceptions import NetlinkError

from agent.events import MultipathEvent
from agent.kernel.mptcp_diag import DiagConnection, DiagSubflow, MptcpDiag
from agent.kernel.mptcp_events import EventKind, MptcpEvent, MptcpEvents
from agent.kernel.mptcp_pm import Endpoint, MptcpPm
from agent.kernel.refusal import reason
from agent.mechanisms.multipath.connections import (
    Asked,
    ConnectionState,
    Ends,
    Exclusion,
    Memory,
    SubflowState,
)
from agent.mechanisms.multipath.decisions.classify import Features, classified
from agent.mechanisms.multipath.decisions.download import is_download
from agent.mechanisms.multipath.decisions.exclusions import is_reachable
from agent.mechanisms.multipath.decisions.on_demand import Demand
from agent.mechanisms.multipath.decisions.policy import Policy
from agent.mechanisms.multipath.decisions.roles import Decided, Role, Situation, roles
from agent.mechanisms.multipath.decisions.score import ranked
from agent.mechanisms.multipath.surroundings import Surroundings

LOG = logging.getLogger(__name__)

# A subflow that is not listed so long after it was asked for has failed.
HANDSHAKE_NS = 3_000_000_000
EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")
_KERNELS_OWN = "userspace PM not selected"
_Key = tuple[int, str, int]  # of a subflow: token, local address and port


class _Look(NamedTuple):
    """What all connections of one look have in common."""

    policy: Policy
    around: Surroundings
    now_ns: int
    ephemeral_ports: range


class _Seen(NamedTuple):
    """A connection with its subflows and what is remembered of it; `owner` is the path it began
    by."""

    connection: DiagConnection
    owner: str
    memory: Memory
    subflows: Sequence[DiagSubflow]


class PathManager:
    """Of the network namespace in which it is made. Needs CAP_NET_ADMIN."""

    def __init__(self, pm: MptcpPm) -> None:
        self._pm, self._diag, self._events = pm, MptcpDiag(), MptcpEvents()
        self._memory: dict[int, Memory] = {}
        # Of the last look: what has fallen back, and further subflows; why this one closed some.
        self._plain: set[tuple[str, int, str, int]] = set()
        self._there: dict[_Key, SubflowState] = {}
        self._closed: dict[_Key, str] = {}
        self.connections: tuple[ConnectionState, ...] = ()
        self.exclusions: dict[tuple[str, str], Exclusion] = {}

    def close(self) -> None:
        self._diag.close()
        self._events.close()

    def look(self, policy: Policy, around: Surroundings, now_ns: int) -> Iterator[MultipathEvent]:
        """Give each connection what it is to have; what has changed since the last look.

        `NetlinkError` where the kernel cannot list connections.
        """
        look = _Look(policy, around, now_ns, _ephemeral_ports())
        heard = self._events.read() or []
        listed = self._diag.connections()
        subflows: dict[int, list[DiagSubflow]] = defaultdict(list)
        for each in self._diag.subflows():
            subflows[each.token].append(each)
        self._forget(listed, now_ns)
        states = []
        for connection in listed:
            its = subflows.pop(connection.token, [])
            if owner := _owner(around, connection.local):
                seen = _Seen(connection, owner, self._remembered(connection, look), its)
                _hear(seen, heard)
                yield from _reclassified(seen, look)
                states.append(_state(seen, around, is_managed=self._manage(seen, look)))
        self.connections = tuple(states)
        yield from self._changes()
        yield from self._fallen_back(subflows, around)

    def _forget(self, listed: Sequence[DiagConnection], now_ns: int) -> None:
        tokens = {each.token for each in listed}
        self._memory = {token: its for token, its in self._memory.items() if token in tokens}
        self.exclusions = {
            key: each for key, each in self.exclusions.items() if each.until_ns > now_ns
        }

    def _remembered(self, connection: DiagConnection, look: _Look) -> Memory:
        if connection.token not in self._memory:
            found = classified(_features(connection, look.around), look.policy)
            self._memory[connection.token] = Memory(found)
        return self._memory[connection.token]

    def _manage(self, seen: _Seen, look: _Look) -> bool:
        """Whether the subflows of the connection are the agent's."""
        connection, owner, memory, subflows = seen
        first_octets = memory.count(connection, subflows, look.now_ns)
        further = [
            each.interface
            for each in look.policy.paths
            if each.is_backup and each.interface != owner
        ]
        further = ranked(further, look.around.rates_bps)
        memory.follow_demand(look.policy, first_octets, len(further), look.now_ns)
        if memory.is_foreign:
            return False
        is_begun_here = connection.local_port in look.ephemeral_ports
        try:
            if is_begun_here:
                situation = Situation(
                    owner,
                    further[: memory.demand.opened],
                    memory.demand.why,
                    is_download(memory.octets, memory.active_ns, look.policy.download),
                )
                mode, around = memory.classified.mode, look.around
                its = roles(mode, look.policy.paths, situation, around.demoted, hot=around.hot)
                self._let_be(seen, look, its)
            else:
                self._announce(seen, look)
        except NetlinkError as refusal:
            memory.is_foreign = _KERNELS_OWN in str(refusal)
            if not memory.is_foreign:
                LOG.warning("connection %08x: %s", connection.token, reason(refusal))
        return is_begun_here and not memory.is_foreign

    def _let_be(self, seen: _Seen, look: _Look, decided: Mapping[str, Decided]) -> None:
        connection, memory = seen.connection, seen.memory
        there = {(each.local, each.remote, each.remote_port): each for each in seen.subflows}
        self._exclude_failed(memory, there, look)
        left = look.policy.subflows + 1 - len(there)
        port = connection.remote_port
        remotes = {(connection.remote, port)}
        remotes |= {(address, number or port) for address, number in memory.peers.values()}
        for interface, its in decided.items():
            for local, remote in product(look.around.addresses.get(interface, ()), sorted(remotes)):
                key = local, *remote
                if key in there:
                    self._adjust(seen, there[key], its)
                elif its.role is Role.ABSENT:
                    memory.asked.pop(key, None)
                elif left > 0 and is_reachable(local, remote[0]) and self._may(memory, key):
                    self._create(seen, key, its)
                    memory.asked[key] = Asked(look.now_ns, its.why)
                    left -= 1

    def _may(self, memory: Memory, key: Ends) -> bool:
        return key not in memory.asked and key[:2] not in self.exclusions

    def _create(self, seen: _Seen, key: Ends, its: Decided) -> None:
        local, remote, port = key
        end = Endpoint(local, _flags(its), id=seen.memory.identity(local))
        self._pm.create_subflow(seen.connection.token, end, Endpoint(remote, port=port))

    def _adjust(self, seen: _Seen, there: DiagSubflow, its: Decided) -> None:
        """What leaves from the address by which the connection began stays. The kernel changes no
        subflow whose handshake is under way.

        What is on its way on a subflow that is destroyed comes once more by another one: it becomes
        a backup first, and goes when nothing has come or gone since the last look.
        """
        if not there.is_open:
            return
        remote = Endpoint(there.remote, port=there.remote_port)
        flags = frozenset() if its.role is Role.ACTIVE else frozenset({"backup"})
        local = Endpoint(there.local, flags, id=there.id, port=there.local_port)
        key = there.local, there.remote, there.remote_port
        closes = its.role is Role.ABSENT and there.local != seen.connection.local
        octets = there.octets_acked + there.octets_received
        if there.is_backup != (closes or its.role is Role.BACKUP):
            seen.memory.asked[key] = replace(seen.memory.asked.get(key, Asked(0)), why=its.why)
            self._pm.set_backup(there.token, local, remote)
        elif closes and seen.memory.quiet.get(key) == octets:
            self._closed[there.token, there.local, there.local_port] = its.why
            seen.memory.asked.pop(key, None)
            self._pm.destroy_subflow(there.token, local, remote)
        seen.memory.quiet[key] = octets

    def _exclude_failed(
        self, memory: Memory, there: Mapping[Ends, DiagSubflow], look: _Look
    ) -> None:
        """What was asked for and is not there, or no more: it is not tried again for a while."""
        for key, asked in list(memory.asked.items()):
            if key not in there and look.now_ns - asked.at_ns > HANDSHAKE_NS:
                del memory.asked[key]
                local, remote, _port = key
                until_ns = look.now_ns + look.policy.retry_after_ns
                self.exclusions[local, remote] = Exclusion(local, remote, until_ns)

    def _announce(self, seen: _Seen, look: _Look) -> None:
        """To a peer that has begun the connection, and opens the subflows, too."""
        memory, token = seen.memory, seen.connection.token
        for path in look.policy.paths:
            for address in look.around.addresses.get(path.interface, ()):
                is_new = address != seen.connection.local and address not in memory.announced
                if path.is_announced and is_new:
                    memory.announced.add(address)
                    end = Endpoint(address, frozenset({"signal"}), id=memory.identity(address))
                    self._pm.announce(token, end)

    def _changes(self) -> Iterator[MultipathEvent]:
        """Subflows beside the first ones that came or went since the last look."""
        now = {
            (each.diag.token, each.diag.local, each.diag.local_port): each
            for connection in self.connections
            for each in connection.subflows
            if each.diag.is_open and each.diag.local != connection.diag.local
        }
        before, self._there = self._there, now
        tokens = {each.diag.token for each in self.connections}
        for key in sorted(now.keys() - before.keys()):
            yield MultipathEvent("subflow-opened", _leaves(now[key], now[key].reason))
        for key in sorted(before.keys() - now.keys()):
            why = self._closed.pop(key, "the peer or the network has closed it")
            if key[0] in tokens:  # those of a connection that has ended go without a word
                yield MultipathEvent("subflow-closed", _leaves(before[key], why))

    def _fallen_back(
        self, subflows: Mapping[int, Sequence[DiagSubflow]], around: Surroundings
    ) -> Iterator[MultipathEvent]:
        """Sockets that belong to no connection of multipath TCP and have asked for it."""
        now = {
            (each.local, each.local_port, each.remote, each.remote_port)
            for listed in subflows.values()
            for each in listed
            if each.is_plain and _owner(around, each.local)
        }
        for local, _port, remote, remote_port in sorted(now - self._plain):
            leaves = {"local": local, "remote": remote, "remote-port": remote_port}
            yield MultipathEvent("fall-back", leaves)
        self._plain = now


def _hear(seen: _Seen, heard: Sequence[MptcpEvent]) -> None:
    """What the peer has announced."""
    for each in heard:
        if each.token != seen.connection.token:
            continue
        if each.kind is EventKind.ANNOUNCED and each.remote:
            seen.memory.peers[each.remote_id] = each.remote, each.remote_port
        elif each.kind is EventKind.REMOVED:
            seen.memory.peers.pop(each.remote_id, None)


def _reclassified(seen: _Seen, look: _Look) -> Iterator[MultipathEvent]:
    """By the policy of now, which may be another one than before."""
    memory, token = seen.memory, seen.connection.token
    found = classified(_features(seen.connection, look.around), look.policy)
    if found != memory.classified:
        before = memory.classified.mode
        memory.classified, memory.playback, memory.window = found, None, None
        memory.demand, memory.demanded_by = Demand(0), None
        if found.mode is not before:
            leaves = {"mode": str(found.mode), "before": str(before), "reason": found.why}
            yield MultipathEvent("mode-changed", {"token": token, **leaves})


def _flags(its: Decided) -> frozenset[str]:
    return frozenset({"backup"}) if its.role is Role.BACKUP else frozenset()


def _owner(around: Surroundings, address: str) -> str | None:
    """The path that has the address."""
    return next((name for name, its in around.addresses.items() if address in its), None)


def _features(connection: DiagConnection, around: Surroundings) -> Features:
    cgroup = around.cgroups.get(connection.cgroup)
    return Features(connection.uid, connection.remote_port, cgroup)


def _ephemeral_ports() -> range:
    """Those that the kernel chooses, for a program that begins a connection and states none."""
    low, high = (int(each) for each in EPHEMERAL.read_text(encoding="ascii").split())
    return range(low, high + 1)


def _state(seen: _Seen, around: Surroundings, *, is_managed: bool) -> ConnectionState:
    connection, its = seen.connection, seen.memory.classified
    return ConnectionState(
        connection,
        its.mode,
        its.why,
        its.application.name if its.application else None,
        is_managed,
        tuple(
            SubflowState(_owner(around, each.local), each, _why(seen, each))
            for each in sorted(seen.subflows, key=lambda each: (each.local, each.local_port))
        ),
    )


def _why(seen: _Seen, subflow: DiagSubflow) -> str:
    if asked := seen.memory.asked.get((subflow.local, subflow.remote, subflow.remote_port)):
        return asked.why
    began_here = subflow.local == seen.connection.local
    return "the connection began here" if began_here else "another program has opened it"


def _leaves(its: SubflowState, why: str) -> dict[str, object]:
    interface = {"interface": its.interface} if its.interface else {}
    ends = {"local": its.diag.local, "remote": its.diag.remote, "backup": its.diag.is_backup}
    return {"token": its.diag.token, **interface, **ends, "reason": why}
