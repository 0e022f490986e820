"""What the agent reports of single connections, and what it remembers of each between two looks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from zlib import crc32

from agent.kernel.mptcp_diag import DiagConnection, DiagSubflow
from agent.mechanisms.multipath.decisions.classify import Classified
from agent.mechanisms.multipath.decisions.on_demand import Demand, Measured, Playback, step
from agent.mechanisms.multipath.decisions.policy import ConnectionMode, OnDemand, Policy
from agent.mechanisms.multipath.decisions.radio import Radio

WINDOW_NS = 1_000_000_000  # in which rates are measured
NS_PER_S, BITS = 1_000_000_000, 8
_IDENTITIES = 255  # of addresses of a connection, beside 0


@dataclass(frozen=True, slots=True)
class SubflowState:
    """`interface` is the path that it leaves by, None: another one. `reason` is why it is there."""

    interface: str | None
    diag: DiagSubflow
    reason: str


@dataclass(frozen=True, slots=True)
class ConnectionState:
    """`is_managed`: its subflows are the agent's; else they are those of the kernel's own path
    manager, or of a connection that a peer has begun."""

    diag: DiagConnection
    mode: ConnectionMode
    reason: str
    application: str | None
    is_managed: bool
    subflows: tuple[SubflowState, ...] = ()


@dataclass(frozen=True, slots=True)
class Exclusion:
    """No subflow is tried from this address to that one until then (`Clock.MONOTONIC`), because the
    last one failed."""

    local: str
    remote: str
    until_ns: int


Ends = tuple[str, str, int]  # of a subflow: local and remote address, port of the peer


@dataclass(frozen=True, slots=True)
class Asked:
    """When a subflow was asked for, and why."""

    at_ns: int
    why: str = ""


@dataclass(frozen=True, slots=True)
class PathUse:
    """Of a path: what of its data limit is used up, why it is a backup, and what its driver says of
    its radio link. None: it has no limit, it is none."""

    octets: int | None = None
    demoted: str | None = None
    radio: Radio = field(default_factory=Radio)


@dataclass(slots=True)
class Memory:
    """Of a connection. Octets are those of both directions, of subflows that have ended, too.

    What subflows have carried includes what another one carries once more when one ends: 3 % in
    20 minutes of a medium whose second path came and went 21 times.
    """

    classified: Classified
    playback: Playback | None = None
    demand: Demand = field(default_factory=lambda: Demand(0))
    demanded_by: OnDemand | None = None
    carried: dict[tuple[str, int], int] = field(default_factory=dict)
    octets: int = 0
    active_ns: int = 0
    looked_ns: int = 0
    # The beginning of the time in which rates are measured: when, and what had come.
    window: tuple[int, int, int] | None = None
    asked: dict[Ends, Asked] = field(default_factory=dict)
    # What subflows had carried at the last look.
    quiet: dict[Ends, int] = field(default_factory=dict)
    announced: set[str] = field(default_factory=set)
    # By which the kernel and the peer know addresses of this side.
    identities: dict[str, int] = field(default_factory=dict)
    # What the peer has announced, by its own id of the address.
    peers: dict[int, tuple[str, int]] = field(default_factory=dict)
    is_foreign: bool = False

    def identity(self, address: str) -> int:
        """The same in each agent, unless two addresses have the same checksum: the kernel refuses
        another one for an address that has one."""
        taken, first = set(self.identities.values()), crc32(address.encode())
        free = (1 + (first + step) % _IDENTITIES for step in range(_IDENTITIES))
        if address not in self.identities:
            self.identities[address] = next(each for each in free if each not in taken)
        return self.identities[address]

    def count(
        self, connection: DiagConnection, subflows: Sequence[DiagSubflow], now_ns: int
    ) -> int:
        """Take what the connection has carried; returns what subflows from its own address have."""
        before = self.octets
        for each in subflows:
            if each.id:  # that of the first subflow is 0
                self.identities[each.local] = each.id
            key = each.local, each.local_port
            self.carried[key] = each.octets_acked + each.octets_received
        counted = connection.octets
        self.octets = sum(self.carried.values()) if counted is None else counted
        if self.octets > before and self.looked_ns:
            self.active_ns += now_ns - self.looked_ns
        self.looked_ns = now_ns
        return sum(
            octets for (address, _), octets in self.carried.items() if address == connection.local
        )

    def follow_demand(self, policy: Policy, first_octets: int, available: int, now_ns: int) -> None:
        """Algorithm 1, of a connection whose application says what its medium needs."""
        application = self.classified.application
        if application is None or application.media_rate_bps is None:
            return
        rate_bps = application.media_rate_bps
        if self.demanded_by != policy.on_demand:
            self.demanded_by = policy.on_demand
            self.demand = replace(self.demand, threshold_ns=policy.on_demand.threshold_ns)
        if self.playback is None:
            self.playback = Playback(0, self.octets, now_ns)
        self.playback = self.playback.after(self.octets, now_ns, rate_bps)
        since_ns, octets, of_first = self.window or (now_ns, self.octets, first_octets)
        self.window = since_ns, octets, of_first
        if (passed_ns := now_ns - since_ns) < WINDOW_NS:
            return
        measured = Measured(
            self.playback.ahead_ns,
            (first_octets - of_first) * BITS * NS_PER_S // passed_ns,
            (self.octets - octets) * BITS * NS_PER_S // passed_ns,
            rate_bps,
            application.media_duration_ns,
        )
        self.demand = step(self.demand, policy.on_demand, measured, available, now_ns)
        self.window = now_ns, self.octets, first_octets
