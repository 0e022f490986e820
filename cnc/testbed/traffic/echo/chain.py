"""The chain that a command passes: components, and the echo points at their entries and exits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Component:
    """A component on a station of its own. A command that has come leaves `work_ns` later; its
    actuator, if it has one, has moved `moving_ns` after that."""

    name: str
    station: str
    work_ns: int
    moving_ns: int | None = None

    @property
    def exits(self) -> int:
        """An actuator makes a second one, at which an echo is held until it has moved."""
        return 1 if self.moving_ns is None else 2


@dataclass(frozen=True, slots=True)
class EchoPoint:
    """A place at which an echo turns back; `number` counts along the chain.

    `exit_number` is 0 at the entry of the component.
    """

    number: int
    component: Component
    exit_number: int

    @property
    def name(self) -> str:
        name = self.component.name
        if self.exit_number == 0:
            return f"{name} entry"
        return f"{name} exit" + (f"({self.exit_number})" if self.component.exits > 1 else "")


def echo_points(chain: Sequence[Component]) -> list[EchoPoint]:
    """All of a chain, in the order in which a command passes them."""
    places = [(each, number) for each in chain for number in range(each.exits + 1)]
    return [EchoPoint(n, component, exit_) for n, (component, exit_) in enumerate(places)]
