"""The result of a check of a switch, and the error that failures raise."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from cnc.errors import RolloutError

FORCE_HINT = "`--force-margin` accepts the plan all the same"


class Check(StrEnum):
    """The checks, in the order in which they depend on each other."""

    REACHABLE = "reachable"
    HOST_KEY = "host key"
    LOGIN = "login"
    CAPABILITIES = "NETCONF capabilities"
    MODULES = "YANG modules"
    LOCKS = "locks"
    RIGHTS = "right to write"
    ROLLOUT = "last rollout"
    AGENT = "agent"
    LATE_COMMITS = "late commits"
    PROFILE = "device profile"
    STORED = "stored configuration"
    KERNEL = "kernel"
    PORT = "ports exist"
    BRIDGE = "bridge"
    LINK = "link up"
    CABLING = "cabling"
    SPEED = "link speed"
    MTU = "MTU"
    QUEUES = "transmit queues"
    QDISC = "root qdisc"
    HARDWARE = "hardware"
    CLASSIFICATION = "classification"
    LIMITS = "limits of gates"
    PREEMPTION = "frame preemption"
    MARGIN = "gate margin"
    LATENESS = "talker lateness"
    STARVATION = "frames leave"
    CONTROL = "control traffic"
    TAI_OFFSET = "TAI offset"
    CLOCKS = "clocks agree"
    CONTROLLER_CLOCK = "controller's clock"
    PTP = "PTP"
    GATES_WAIT = "gates wait"
    PLAN = "plan"


class Verdict(StrEnum):
    """The worst first. A rollout is refused for a failure alone."""

    FAILED = "failed"
    WARNING = "warning"
    UNKNOWN = "unknown"
    OK = "ok"


@dataclass(frozen=True, slots=True)
class Finding:
    """The outcome of one check on one switch, or on one of its ports; `hint` says what to do.

    `switch` is None where the whole network is meant.
    """

    switch: str | None
    port: str | None
    check: Check
    verdict: Verdict
    text: str
    hint: str | None = None

    @property
    def where(self) -> str:
        """`switch` or `switch/port`."""
        if self.switch is None:
            return "the network"
        return f"{self.switch}/{self.port}" if self.port else self.switch


def refuse(findings: Iterable[Finding]) -> None:
    """Raise RolloutError with all failures, one a line, and what to do about them."""
    failures = [finding for finding in findings if finding.verdict is Verdict.FAILED]
    if failures:
        hints = dict.fromkeys(failure.hint for failure in failures if failure.hint)
        if any(failure.check is Check.MARGIN for failure in failures):
            hints[FORCE_HINT] = None
        raise RolloutError(
            "\n".join(f"{failure.where}: {failure.text}" for failure in failures),
            hint="; ".join(hints) or None,
        )
