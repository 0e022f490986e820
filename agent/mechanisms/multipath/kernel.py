"""Multipath TCP in the kernel: endpoints, rules and tables of ports, and settings of the namespace.

An endpoint bears no mark of who has made it. Its address has a rule that does: an endpoint of an
address with a rule of the agent's is the agent's. So the rule comes first and goes last: whenever
the agent is killed, the next one knows what is its own.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from agent.composition import Change, Contribution, KernelObject, repair
from agent.kernel.mptcp_pm import CHANGEABLE, Endpoint, MptcpPm
from agent.kernel.refusal import reason, set_or_restore
from agent.mechanism import KernelAdapter, Observation
from agent.mechanisms.multipath import source_routes
from agent.mechanisms.multipath.decisions.exclusions import unfit
from agent.mechanisms.multipath.decisions.policy import Policy
from agent.mechanisms.multipath.model import (
    EndpointState,
    MultipathConfig,
    MultipathState,
    NodeState,
    RoutedPath,
)
from agent.mechanisms.multipath.path_manager import PathManager
from agent.mechanisms.multipath.rules import SETTINGS, Addresses, Connections, Managed
from agent.mechanisms.multipath.rules import NamespaceSettings as SettingsObject
from agent.mechanisms.multipath.settings import SYSCTLS, NamespaceSettings
from agent.mechanisms.multipath.source_routes import Address
from agent.mechanisms.multipath.surroundings import Gatherer, PathLink
from agent.model import AgentError, PortConfig, PortState

COUNTERS = Path("/proc/thread-self/net/netstat")  # of the namespace of this thread, not of another
_PREFIX = "MPTcpExt:"
# Connections are looked at so often where the agent manages them, routes so often.
LOOK_NS, ROUTES_NS = 250_000_000, 1_000_000_000
NO_MPTCP = "this kernel has no multipath TCP (CONFIG_MPTCP)"


class _Found(NamedTuple):
    """What the kernel has by port index, and its endpoints by address."""

    addresses: Mapping[int, Sequence[Address]]
    rules: Mapping[int, set[Address]]
    endpoints: Mapping[str, Endpoint]


class MultipathAdapter(KernelAdapter):
    """Needs CAP_NET_ADMIN. Not to be used by two threads at once."""

    def __init__(self, ipr: IPRoute, record: Path) -> None:
        self._ipr = ipr
        self._pm = MptcpPm()
        self._settings = NamespaceSettings(record, self._pm)
        self._is_left = False
        # The addresses with rules of the agent's by port, as of the newest look.
        self._rules: Mapping[int, set[Address]] = {}
        # Addresses whose endpoint this agent has made: their rule may have been removed since.
        self._made: set[str] = set()
        self._routes_at_ns = -ROUTES_NS  # the first look copies
        self._policy: Policy | None = None
        self._manager: PathManager | None = None
        self._gatherer = Gatherer(ipr, record.with_name("multipath-limits.json"))
        self.objects = {
            Addresses: self._set_path,
            SettingsObject: self._set_settings,
            Connections: self._set_policy,
        }

    def problems(self, config: PortConfig) -> Iterator[str]:
        if config[MultipathConfig].path is None:
            return
        if lack := self.capability():
            yield lack
        elif not self._addresses_of(config.name):
            yield (
                "it has no IP address that a subflow could leave from: give it one, or leave the "
                "path out"
            )
        for index in self._ipr.link_lookup(ifname=config.name):
            (link,) = self._ipr.get_links(index)
            if reason_why := unfit(config.name, link.get(("linkinfo", "kind"))):
                yield reason_why

    def capability(self) -> str | None:
        return None if (SYSCTLS / "mptcp").is_dir() else NO_MPTCP

    def read(self, states: Mapping[str, PortState]) -> dict[str, PortState]:
        if self.capability():
            return dict(states)
        found = self._found()
        node = self._node_state(has_paths=bool(found.rules))
        settings = self._settings.set_by_agent()
        read = {
            name: state.with_part(
                replace(self._state(found, state.ifindex), settings=settings, policy=self._policy)
            ).with_part(node)
            for name, state in states.items()
        }
        self._rules = found.rules
        self._is_left = self._settings.has_record and not found.rules
        return read

    def repairs(self) -> Iterator[Change]:
        """What an agent has set that was killed before its paths were there."""
        if self._is_left:
            yield repair(SETTINGS, "restore the settings of multipath TCP", "they were left")

    def observe(self, now_ns: int) -> Observation:
        """Follow the main table: a link that was down has lost its routes in every table, and has
        those of the main table again when DHCP or an operator has set them. And give connections
        what they are to have."""
        if now_ns - self._routes_at_ns >= ROUTES_NS:
            self._routes_at_ns = now_ns
            for ifindex, its in self._rules.items():
                source_routes.copy_routes(self._ipr, ifindex, _families(its))
        if self._policy is None or self._manager is None:
            return Observation()
        links = dict(self._links(self._policy))
        around, events = self._gatherer.gather(self._policy, links)
        events += self._manager.look(self._policy, around, now_ns)
        return Observation(tuple(events), now_ns + LOOK_NS)

    def _links(self, policy: Policy) -> Iterator[tuple[str, PathLink]]:
        """The paths that exist, with the addresses that have a rule."""
        ruled = source_routes.rules(self._ipr)
        for name in (each.interface for each in policy.paths):
            with suppress(OSError):
                ifindex = socket.if_nametoindex(name)
                addresses = sorted(ruled.get(ifindex, ()))
                yield name, PathLink(ifindex, [each.text for each in addresses])

    def close(self) -> None:
        if self._manager:
            self._manager.close()
        self._gatherer.close()
        self._pm.close()

    def _set_policy(
        self, _target: KernelObject, _before: Sequence[Contribution], after: Sequence[Contribution]
    ) -> None:
        """Of connections that exist, too; those that the kernel manages stay the kernel's."""
        managed = after[0].content if after else Managed()
        self._policy = managed.policy
        if self._policy and self._manager is None:
            try:
                self._manager = PathManager(self._pm)
            except (NetlinkError, OSError) as refusal:
                self._policy = None
                raise AgentError(
                    f"connections of multipath TCP: {reason(refusal)}: this kernel cannot list "
                    "them (CONFIG_INET_MPTCP_DIAG): leave `connections` out"
                ) from refusal

    def _node_state(self, *, has_paths: bool) -> NodeState:
        # Without paths nothing has been counted for the agent, and each look at the counters of all
        # protocols would be for nothing: in user-mode Linux no virtual time went on beside them.
        counted = COUNTERS.read_text(encoding="ascii") if has_paths else ""
        return NodeState(
            schedulers=_listed("mptcp/available_schedulers") or NodeState().schedulers,
            congestion_controls=_listed("ipv4/tcp_available_congestion_control"),
            settings=self._settings.read(),
            counters=counters(counted),
            **self._seen(),
        )

    def _seen(self) -> dict[str, Any]:
        """What the last look at connections has found."""
        if self._policy is None or self._manager is None:
            return {}
        return {
            "connections": self._manager.connections,
            "exclusions": tuple(self._manager.exclusions.values()),
            "uses": self._gatherer.paths,
            "millicelsius": self._gatherer.millicelsius,
            "now_ns": time.monotonic_ns(),
        }

    def _found(self) -> _Found:
        return _Found(
            source_routes.addresses(self._ipr),
            source_routes.rules(self._ipr),
            {
                each.address: each
                for each in self._pm.endpoints()
                # One that the kernel makes itself, for a subflow that has none.
                if "implicit" not in each.flags
            },
        )

    def _state(self, found: _Found, ifindex: int) -> MultipathState:
        ruled = found.rules.get(ifindex, set())
        listed = sorted({*found.addresses.get(ifindex, ()), *ruled})
        endpoints = tuple(
            EndpointState(each.address, each.id, each.flags, self._is_ours(address, found))
            for address in listed
            if (each := found.endpoints.get(address.text))
        )
        path = None
        if ruled or any(each.is_ours for each in endpoints):
            path = self._path(found, ifindex, endpoints)
        return MultipathState(path, endpoints=endpoints)

    def _is_ours(self, address: Address, found: _Found) -> bool:
        return address.text in self._made or any(address in its for its in found.rules.values())

    def _path(self, found: _Found, ifindex: int, endpoints: Sequence[EndpointState]) -> RoutedPath:
        """As far as all addresses have the same."""
        addresses = set(found.addresses.get(ifindex, ()))
        ours = {each.address: each.flags for each in endpoints if each.is_ours}
        flags = next(iter(ours.values()), None)
        ruled = found.rules.get(ifindex, set())
        lacks = [
            *(f"{each.text} has no rule" for each in sorted(addresses - ruled)),
            *(f"{each.text} is no address any more" for each in sorted(ruled - addresses)),
            *(
                f"{each.text} has no endpoint"
                for each in sorted(addresses)
                if ours and each.text not in ours
            ),
            *(f"{text} has other flags" for text, its in sorted(ours.items()) if its != flags),
        ]
        return RoutedPath(flags, "; ".join(lacks))

    def _addresses_of(self, port: str) -> Sequence[Address]:
        indexes = self._ipr.link_lookup(ifname=port)
        found = source_routes.addresses(self._ipr)
        return [each for ifindex in indexes for each in found.get(ifindex, ())]

    def _set_path(
        self, target: KernelObject, before: Sequence[Contribution], after: Sequence[Contribution]
    ) -> None:
        port, ifindex = target.port_and_ifindex()
        self._rules = {}  # until they are read again
        try:
            set_or_restore(lambda path: self._let_be(ifindex, path), before, after)
        except NetlinkError as refusal:
            raise AgentError(f"port {port}: multipath TCP: {reason(refusal)}") from refusal

    def _let_be(self, ifindex: int, path: RoutedPath | None) -> None:
        """Rules come before all else and go after it: they say whose that is."""
        found = self._found()
        ruled = found.rules.get(ifindex, set())
        addresses = set(found.addresses.get(ifindex, ())) if path else set()
        for address in sorted(addresses - ruled):
            source_routes.add_rule(self._ipr, ifindex, address)
        for address in sorted(ruled - addresses):
            self._remove_endpoint(address, found)
        source_routes.copy_routes(self._ipr, ifindex, _families(addresses))
        for address in sorted(ruled - addresses):
            source_routes.delete_rule(self._ipr, ifindex, address)
        if path:
            for address in sorted(addresses):
                self._set_endpoint(ifindex, address, path.endpoint_flags, found)

    def _set_endpoint(
        self, ifindex: int, address: Address, flags: frozenset[str] | None, found: _Found
    ) -> None:
        """Flags that the kernel changes keep the subflows that there are."""
        there = found.endpoints.get(address.text)
        if flags is None:
            self._remove_endpoint(address, found)
        elif there is None or there.flags - CHANGEABLE != flags - CHANGEABLE:
            self._remove_endpoint(address, found)
            self._pm.add(Endpoint(address.text, flags, ifindex=ifindex))
            self._made.add(address.text)
        elif there.flags != flags:
            self._pm.change(replace(there, flags=flags))

    def _remove_endpoint(self, address: Address, found: _Found) -> None:
        there = found.endpoints.get(address.text)
        if there and self._is_ours(address, found):
            self._pm.delete(there)
        self._made.discard(address.text)

    def _set_settings(
        self, _target: KernelObject, before: Sequence[Contribution], after: Sequence[Contribution]
    ) -> None:
        set_or_restore(lambda values: self._settings.set(values or ()), before, after)


def _families(addresses: Iterable[Address]) -> set[int]:
    return {each.family for each in addresses}


def counters(netstat: str) -> dict[str, int]:
    """Those of multipath TCP in the kernel's table: a line of names, then a line of values."""
    lines = [line.split()[1:] for line in netstat.splitlines() if line.startswith(_PREFIX)]
    if not lines:
        return {}
    names, values = lines
    return {name: int(value) for name, value in zip(names, values, strict=True)}


def _listed(sysctl: str) -> tuple[str, ...]:
    try:
        return tuple((SYSCTLS / sysctl).read_text(encoding="ascii").split())
    except OSError:
        return ()
