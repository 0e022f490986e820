"""Hosts that are refused for a while, as by PerSourcePenalties of sshd_config(5).

The penalties of a host add up and run off with time. Once they exceed a minimum, further
connections of the host are refused until they have run off; open ones go on. Its neighbours are
served: what many hosts of one network can do together is bounded by the places that they share.

Several users may share a host. One from which a user who may commit has logged in lately has no
penalties: another user must not keep an operator from confirming or cancelling a commit. What such
a host could still do is bounded by the limits on connections and sessions.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from agent.netconfd.front.source import Source, parsed
from agent.netconfd.front.trusted_hosts import TrustedHosts
from agent.netconfd.limits import Limits, PenaltyLimits

LOG = logging.getLogger(__name__)


class Offence(Enum):
    """What a host gets a penalty for."""

    FAILED_LOGIN = "failed login"
    NO_LOGIN = "no login in time"
    ACCESS_REFUSED = "login of a user who may execute nothing"
    SESSION_FAILURE = "session ended by a failure or a limit"


@dataclass(slots=True)
class _Penalty:
    end_s: float
    is_enforced: bool = False


class Penalties:
    """The penalties of all hosts, and the hosts without."""

    def __init__(
        self,
        limits: Callable[[], Limits],
        trusted: TrustedHosts,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """`limits` are those in force; `now_s` is a monotonic clock."""
        self._limits = limits
        self._now_s = now_s
        self._by_host: dict[str, _Penalty] = {}
        self._trusted = trusted

    def penalise(self, address: str, offence: Offence) -> None:
        """Add the offence's penalty to those of the host."""
        limits = self._limits()
        penalties, host = limits.penalties, Source.of(address, limits).host
        duration_s = _duration_s(offence, penalties)
        if not duration_s or self._is_exempt(address, host, penalties):
            return
        now_s = self._now_s()
        penalty = self._by_host.get(host)
        if penalty is None or penalty.end_s <= now_s:
            penalty = self._by_host[host] = _Penalty(now_s)
        penalty.end_s = min(penalty.end_s + duration_s, now_s + penalties.max_s)
        if penalty.end_s - now_s > penalties.min_s and not penalty.is_enforced:
            penalty.is_enforced = True
            LOG.warning(
                "connections from %s are refused for %.0f s; last offence: %s",
                host,
                penalty.end_s - now_s,
                offence.value,
            )
        self._forget(now_s, penalties.max_hosts)

    def refuses(self, address: str) -> bool:
        """Whether a connection from this address is refused now."""
        limits = self._limits()
        host = Source.of(address, limits).host
        penalty = self._by_host.get(host)
        return (
            penalty is not None
            and penalty.is_enforced
            and penalty.end_s > self._now_s()
            and not self._is_exempt(address, host, limits.penalties)
        )

    def trust(self, address: str) -> None:
        """Have no penalties for this host for a day: a user who may commit has logged in."""
        self._trusted.add(Source.of(address, self._limits()).host)

    def _is_exempt(self, address: str, host: str, limits: PenaltyLimits) -> bool:
        if host in self._trusted:
            return True
        ip = parsed(address)
        return ip is not None and any(ip in network for network in limits.exempt)

    def _forget(self, now_s: float, most: int) -> None:
        """Drop penalties until at most `most` are left, those that end first first."""
        if len(self._by_host) <= most:
            return
        by_end = sorted(self._by_host.items(), key=lambda each: each[1].end_s)
        excess = len(by_end) - most
        self._by_host = {
            host: penalty for host, penalty in by_end[excess:] if penalty.end_s > now_s
        }


def _duration_s(offence: Offence, limits: PenaltyLimits) -> int:
    match offence:
        case Offence.FAILED_LOGIN:
            return limits.failed_login_s
        case Offence.NO_LOGIN:
            return limits.no_login_s
        case Offence.ACCESS_REFUSED:
            return limits.access_refused_s
        case Offence.SESSION_FAILURE:
            return limits.session_failure_s
