"""What the datastore needs of the kernel side, and no more: it never speaks netlink itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from agent.model import Clock, PortConfig, PortState


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

    def now_ns(self, clock: Clock) -> int: ...
    def tai_offset_s(self) -> int: ...
    def close(self) -> None: ...
