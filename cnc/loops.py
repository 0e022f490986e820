"""Control loops that are closed over a network: what they are, and how long one takes.

In each period a plant sends a sample of its output in one stream; a controller at the other end
computes a command from it and sends that back in another. Gains and references are decimal numbers,
exactly as the operator writes them; outputs and commands have no unit of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal


@dataclass(frozen=True, slots=True)
class FirstOrder:
    """A plant `time_constant · y' + y = gain · u`."""

    gain: Decimal
    time_constant_ns: int


@dataclass(frozen=True, slots=True)
class SecondOrder:
    """A plant `time_constant² · y'' + 2 · damping · time_constant · y' + y = gain · u`.

    The time constant is the inverse of its natural frequency in radians a second. It oscillates
    where `damping` is below 1.
    """

    gain: Decimal
    time_constant_ns: int
    damping: Decimal


@dataclass(frozen=True, slots=True)
class PiController:
    """A command `kp · e + ki · ∫ e dt` of the error `e`, the reference less the sample.

    Commands beyond `limit` either way are cut to it, and the integral then stands; None: no limit.
    """

    kp: Decimal
    ki_per_s: Decimal
    limit: Decimal | None = None


@dataclass(frozen=True, slots=True)
class PythonController:
    """A controller of the operator's own: what `module:function` returns; see docs/loop.md."""

    function: str


@dataclass(frozen=True, slots=True)
class Accepted:
    """What makes a step response a good one; None: as it may be."""

    rise_time_ns: int | None = None
    overshoot_percent: int | None = None


@dataclass(frozen=True, slots=True)
class Loop:
    """A control loop.

    The stream `sensor` goes from the plant's end station to the controller's, `actuator` back; both
    have the loop's period. `compute_ns` is how long the controller takes from the last bit of a
    sample until its command is ready to be sent. A command acts at the plant `deadline_ns` after
    the planned instant of its sample. The reference steps from 0 to `reference`, and every
    `duration_ns` back or there again, `steps` times in all.
    """

    name: str
    sensor: str
    actuator: str
    period_ns: int
    compute_ns: int
    deadline_ns: int
    plant: FirstOrder | SecondOrder
    controller: PiController | PythonController
    reference: Decimal
    duration_ns: int
    steps: int = 1
    accepted: Accepted | None = None

    @property
    def periods(self) -> int:
        """How many periods all of its steps last."""
        return self.steps * (self.duration_ns // self.period_ns)


@dataclass(frozen=True, slots=True)
class LoopDelay:
    """The most that passes from the planned instant of a sample until its command is at the plant.

    The latency bound of the sample, the controller's computation, the wait until the command's
    offset, and the latency bound of the command. The bounds hold by any two clocks of the network.
    """

    sensor_ns: int
    compute_ns: int
    wait_ns: int
    actuator_ns: int

    @property
    def total_ns(self) -> int:
        return self.sensor_ns + self.compute_ns + self.wait_ns + self.actuator_ns
