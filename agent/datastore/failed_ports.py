"""Ports that could not be configured: why, and when it is worth while to try again."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from agent.model import PortState

LOG = logging.getLogger(__name__)

# A port that failed is retried this often: most causes, such as a module that is not loaded, end
# without a notification.
RETRY_S = 10.0


@dataclass(frozen=True, slots=True)
class _FailedPort:
    """A port that could not be configured, as it was when that was tried, at `tried_s`."""

    reason: str
    link_speed_bps: int | None
    foreign_qdisc: str | None
    tried_s: float

    def may_succeed(self, state: PortState) -> bool:
        """Whether the cause may be gone: the port has changed, or RETRY_S have passed."""
        then = self.link_speed_bps, self.foreign_qdisc
        changed = then != (state.link_speed_bps, state.foreign_qdisc)
        return changed or time.monotonic() - self.tried_s >= RETRY_S


class FailedPorts:
    """Each failure is logged once."""

    def __init__(self) -> None:
        self._ports: dict[str, _FailedPort] = {}

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self._ports)

    @property
    def reasons(self) -> Mapping[str, str]:
        """By port; several are one a line."""
        return {name: failed.reason for name, failed in self._ports.items()}

    def that_may_succeed(self, states: Mapping[str, PortState]) -> set[str]:
        """The present ports that it is worth while to try again."""
        return {
            name
            for name, failed in self._ports.items()
            if name in states and failed.may_succeed(states[name])
        }

    def failed(self, port: str, reason: str, state: PortState | None) -> None:
        """Log the reason, unless it is known, and remember when it was found; a port without a
        `state` may be gone."""
        known = self._ports.get(port)
        if state:
            self._ports[port] = _FailedPort(
                reason, state.link_speed_bps, state.foreign_qdisc, time.monotonic()
            )
        if known is None or known.reason != reason:
            LOG.error(
                "the running configuration is not what the port does:\n%s",
                reason,
                extra={"fields": {"TSN_PORT": port}},
            )

    def succeeded(self, port: str) -> None:
        """Forget a failure, if there was one."""
        self._ports.pop(port, None)

    def keep(self, ports: Collection[str]) -> None:
        """Forget the failures of all others."""
        self._ports = {name: each for name, each in self._ports.items() if name in ports}
