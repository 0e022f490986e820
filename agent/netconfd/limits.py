"""Limits on clients: the container `limits` of tsn-netconf-server, without sysrepo.

docs/SECURITY.md has the table of them, with the reason of each default.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

# What the process of a session takes at work; an idle one has 6 MiB.
SESSION_OCTETS = 8 * 2**20
# As many may be open on any machine, for those who may commit.
MIN_SESSIONS = 16


@dataclass(frozen=True)
class PenaltyLimits:
    """What a host is refused for, and for how long. 0 s for an offence means none."""

    failed_login_s: int
    no_login_s: int
    access_refused_s: int
    session_failure_s: int
    min_s: int
    max_s: int
    max_hosts: int
    exempt: tuple[Network, ...]

    @classmethod
    def from_json(cls, container: Mapping[str, Any]) -> PenaltyLimits:
        """From the container `penalties` as RFC 7951 JSON with its defaults. Raises KeyError."""
        return cls(
            failed_login_s=container["failed-login"],
            no_login_s=container["no-login"],
            access_refused_s=container["access-refused"],
            session_failure_s=container["session-failure"],
            min_s=container["min-penalty"],
            max_s=container["max-penalty"],
            max_hosts=container["max-hosts"],
            exempt=tuple(ipaddress.ip_network(each, strict=False) for each in container["exempt"]),
        )


@dataclass(frozen=True)
class Limits:
    """The limits for clients. `idle_timeout_s` 0 means no limit.

    `unauthenticated_drop_start`, `unauthenticated_drop_percent` and `max_unauthenticated` are what
    OpenSSH's MaxStartups calls start, rate and full; the source prefixes are its
    PerSourceNetBlockSize.
    """

    max_sessions: int
    reserved_sessions: int
    max_sessions_per_user: int
    sessions_memory_percent: int
    max_unauthenticated: int
    unauthenticated_drop_start: int
    unauthenticated_drop_percent: int
    source_prefix_ipv4: int
    source_prefix_ipv6: int
    penalties: PenaltyLimits
    hello_timeout_s: int
    idle_timeout_s: int
    max_message_octets: int
    max_held_octets: int
    max_request_cpu_s: int
    max_session_memory_mib: int
    max_confirm_timeout_s: int
    max_subscriptions_per_session: int
    min_push_period_cs: int

    @classmethod
    def from_json(cls, container: Mapping[str, Any]) -> Limits:
        """From the container `limits` as RFC 7951 JSON with its defaults. Raises KeyError."""
        return cls(
            max_sessions=container["max-sessions"],
            reserved_sessions=container["reserved-sessions"],
            max_sessions_per_user=container["max-sessions-per-user"],
            sessions_memory_percent=container["sessions-memory-share"],
            max_unauthenticated=container["max-unauthenticated"],
            unauthenticated_drop_start=container["unauthenticated-drop-start"],
            unauthenticated_drop_percent=container["unauthenticated-drop-rate"],
            source_prefix_ipv4=container["source-prefix-ipv4"],
            source_prefix_ipv6=container["source-prefix-ipv6"],
            penalties=PenaltyLimits.from_json(container["penalties"]),
            hello_timeout_s=container["hello-timeout"],
            idle_timeout_s=container["idle-timeout"],
            max_message_octets=container["max-message"],
            max_held_octets=container["max-messages-held"],
            max_request_cpu_s=container["max-request-cpu"],
            max_session_memory_mib=container["max-session-memory"],
            max_confirm_timeout_s=container["max-confirm-timeout"],
            max_subscriptions_per_session=container["max-subscriptions-per-session"],
            min_push_period_cs=container["min-push-period"],
        )

    def on_a_machine_of(self, memory_octets: int) -> Limits:
        """The same with no more sessions than their share of so much memory holds."""
        share_octets = memory_octets * self.sessions_memory_percent // 100
        most = max(MIN_SESSIONS, share_octets // SESSION_OCTETS)
        return replace(
            self,
            max_sessions=min(self.max_sessions, most),
            max_sessions_per_user=min(self.max_sessions_per_user, most // 2),
        )


@dataclass(frozen=True)
class Client:
    """A client to call (RFC 8071)."""

    address: str
    port: int
