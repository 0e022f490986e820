"""What the datastore needs of the kernel side, and no more: it never speaks netlink itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from agent.model import Clock, PortConfig, PortState, PtpStatus


class Step(Protocol):
    """One change made to one port."""

    @property
    def port(self) -> str: ...
    def describe(self) -> str: ...


class Applied(Protocol):
    """What an `apply` did, and the way back."""

    @property
    def steps(self) -> Sequence[Step]: ...
    def undo(self) -> None: ...


class Doorbell(Protocol):
    """Rings when the switch may have changed."""

    def wait(self) -> bool:
        """True when it rang, or it is time to look anyway; False once it was stopped."""

    def stop(self) -> None:
        """Whoever waits, now or later, is told to go."""

    def close(self) -> None: ...


class Switch(Protocol):
    """The ports of this machine."""

    @property
    def classifier_name(self) -> str: ...

    def read(self) -> Mapping[str, PortState]:
        """Every port as the kernel sees it now."""

    def capability(self) -> str | None:
        """None, or why this kernel cannot run gates."""

    def apply(
        self, desired: Mapping[str, PortConfig], states: Mapping[str, PortState] | None = None
    ) -> Applied:
        """Make the ports agree with `desired`, the whole configuration; raises `AgentError`.

        `states` is the newest `read()`, if nothing has been applied since.
        """

    def restart(self, states: Sequence[PortState]) -> Mapping[str, str]:
        """Set the gate control lists of ports that stand still anew.

        Returns the kernel's reason by port where it refused; such a port may have lost its gates.
        """

    def doorbell(self) -> Doorbell: ...
    def now_ns(self, clock: Clock) -> int: ...

    def clock_offsets_ns(self) -> Mapping[Clock, int]:
        """How far each clock that can be set is ahead of CLOCK_MONOTONIC, which cannot."""

    def tai_offset_s(self) -> int: ...

    def ptp_status(self) -> PtpStatus | None:
        """What the PTP daemon says; None if there is none. Takes a tenth of a second at most."""

    def close(self) -> None: ...
