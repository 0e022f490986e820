"""Limits on clients: the container `limits` of tsn-netconf-server, without sysrepo.

docs/SECURITY.md has the table of them, with the reason of each default.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

# A session process takes 6 MiB, 8 at work: together at most half of the machine's memory.
MEMORY_PER_SESSION_OCTETS = 16 * 2**20
MIN_SESSIONS, MAX_SESSIONS = 16, 256


def with_numbers_of_sessions(container: Mapping[str, Any], memory_octets: int) -> Mapping[str, Any]:
    """The container with the numbers of sessions that are not configured, on a machine with so much
    memory.
    """
    affordable = memory_octets // MEMORY_PER_SESSION_OCTETS
    most = max(MIN_SESSIONS, min(affordable, MAX_SESSIONS))
    return {"max-sessions": most, "max-sessions-per-user": most // 2, **container}


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
    max_subscriptions_per_session: int
    min_push_period_cs: int

    @classmethod
    def from_json(cls, container: Mapping[str, Any]) -> Limits:
        """From the container `limits` as RFC 7951 JSON with its defaults.

        The numbers of sessions have none: see `with_numbers_of_sessions`. Raises KeyError.
        """
        return cls(
            max_sessions=container["max-sessions"],
            reserved_sessions=container["reserved-sessions"],
            max_sessions_per_user=container["max-sessions-per-user"],
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
            max_subscriptions_per_session=container["max-subscriptions-per-session"],
            min_push_period_cs=container["min-push-period"],
        )


@dataclass(frozen=True)
class Client:
    """A client to call (RFC 8071)."""

    address: str
    port: int
