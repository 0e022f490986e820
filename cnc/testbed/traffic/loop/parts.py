"""Plants and controllers, advanced period by period: pure, and the same for the same inputs.

Plants are integrated exactly: their input is constant between two instants at which a command acts,
so that each step is the closed form of a linear system's response. The standard library only, since
the program of an end station imports it.
"""

from __future__ import annotations

import heapq
import importlib
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

NS_PER_S = 1_000_000_000
CRITICAL = 1e-9  # so near to 1 a damping ratio is 1: both closed forms lose their digits there

SAMPLE, ACT = 0, 1  # what happens at the plant: of two things at one instant, in this order

Controller = Callable[[float, float], float]
"""The command for a reference and a sample; called once a period."""


class Plant(Protocol):
    """A linear system with one input and one output, at rest at first."""

    output: float

    def advance(self, duration_ns: int, command: float) -> None:
        """Let the time pass with this command at the input."""


@dataclass
class FirstOrderPlant:
    """`T y' + y = gain u`."""

    gain: float
    time_constant_ns: int
    output: float = 0.0

    def advance(self, duration_ns: int, command: float) -> None:
        final = self.gain * command
        self.output = final + (self.output - final) * math.exp(-duration_ns / self.time_constant_ns)


@dataclass
class SecondOrderPlant:
    """`T² y'' + 2 damping T y' + y = gain u`; `rate` is y' in units a second."""

    gain: float
    time_constant_ns: int
    damping: float
    output: float = 0.0
    rate: float = 0.0

    def advance(self, duration_ns: int, command: float) -> None:
        final = self.gain * command
        t = duration_ns / NS_PER_S
        omega = NS_PER_S / self.time_constant_ns
        x, v = self.output - final, self.rate
        decay = self.damping * omega
        even, odd = self._modes(t, omega)
        # x(t) = even x + odd struck: the response of a mass that is let go, and of one that is hit;
        # even' = squared odd - decay even, odd' = even - decay odd.
        struck = v + decay * x
        squared = (self.damping**2 - 1) * omega**2
        moved = even * x + odd * struck
        self.output = final + moved
        self.rate = squared * odd * x + even * struck - decay * moved

    def _modes(self, t: float, omega: float) -> tuple[float, float]:
        """e^(-decay t) cosh(root t), and e^(-decay t) sinh(root t) / root, with a root that is
        imaginary where the plant oscillates."""
        decay = self.damping * omega
        root = omega * math.sqrt(abs(self.damping**2 - 1))
        if abs(self.damping - 1) < CRITICAL:
            fading = math.exp(-decay * t)
            return fading, fading * t
        if self.damping < 1:
            fading = math.exp(-decay * t)
            return fading * math.cos(root * t), fading * math.sin(root * t) / root
        # Neither cosh nor sinh: they overflow.
        slow, fast = math.exp(-omega * omega / (decay + root) * t), math.exp(-(decay + root) * t)
        return (slow + fast) / 2, (slow - fast) / 2 / root


@dataclass
class Drive:
    """`T v' + v = speed u`, and the output is the integral of `v`: a belt, or a joint of an arm.

    `speed_per_s` and `rate`, which is `v`, are in units of the output a second.
    """

    speed_per_s: float
    time_constant_ns: int
    output: float = 0.0
    rate: float = 0.0

    def advance(self, duration_ns: int, command: float) -> None:
        final = self.speed_per_s * command
        faster = self.rate - final  # than at last
        # expm1: 1 - exp would lose the digits of a time that is short beside the time constant.
        faded = -math.expm1(-duration_ns / self.time_constant_ns)
        coasted = faster * faded * self.time_constant_ns / NS_PER_S
        self.output += final * duration_ns / NS_PER_S + coasted
        self.rate -= faster * faded


@dataclass
class Pi:
    """`kp e + ki ∫ e dt`; where the limit cuts the command, the integral stands."""

    kp: float
    ki_per_s: float
    period_ns: int
    limit: float | None = None
    _integral: float = field(default=0.0, init=False)

    def __call__(self, reference: float, sample: float) -> float:
        error = reference - sample
        integral = self._integral + self.ki_per_s * error * self.period_ns / NS_PER_S
        command = self.kp * error + integral
        if self.limit is not None and abs(command) > self.limit:
            return math.copysign(self.limit, command)
        self._integral = integral
        return command


def plant_of(its: Mapping[str, Any]) -> Plant:
    """The plant of an axis that `cnc.testbed.traffic.loop.axes` describes."""
    if "speed_per_s" in its:
        return Drive(float(its["speed_per_s"]), its["time_constant_ns"], its["resting"])
    gain, time_constant_ns = float(its["gain"]), its["time_constant_ns"]
    if "damping" in its:
        return SecondOrderPlant(gain, time_constant_ns, float(its["damping"]))
    return FirstOrderPlant(gain, time_constant_ns)


def controller_of(its: Mapping[str, Any], period_ns: int, directory: str) -> Controller:
    """The controller that the fields of a `PiController` or a `PythonController` describe.

    A module of the operator is looked for in `directory`; its function is called with the period in
    seconds.
    """
    if "function" not in its:
        limit = None if its["limit"] is None else float(its["limit"])
        return Pi(float(its["kp"]), float(its["ki_per_s"]), period_ns, limit)
    sys.path.insert(0, directory)
    module, _, function = its["function"].partition(":")
    made: Controller = getattr(importlib.import_module(module), function)(period_ns / NS_PER_S)
    return made


def reference_at(period: int, its: Mapping[str, Any]) -> float:
    """The reference in a period of a loop: it steps up, then back, and so on."""
    steps_made = period // its["periods_a_step"]
    return float(its["reference"]) if steps_made % 2 == 0 else 0.0


def references_of(its: Mapping[str, Any]) -> list[Sequence[float]]:
    """What each axis is to be in each period of a loop that `traffic.loop.axes` describes."""
    if "references" in its:
        return [*its["references"]]
    return [(reference_at(period, its),) for period in range(its["periods"])]


def events(periods: int, period_ns: int, deadline_ns: int) -> Iterator[tuple[int, int, int]]:
    """What happens at a plant, in order: when, from its first sample on, whether it samples or a
    command acts, and of which period."""
    samples = [n * period_ns for n in range(periods)]
    return heapq.merge(
        ((at_ns, SAMPLE, n) for n, at_ns in enumerate(samples)),
        ((at_ns + deadline_ns, ACT, n) for n, at_ns in enumerate(samples)),
    )


def undisturbed(
    plant: Plant, controller: Controller, references: list[float], period_ns: int, deadline_ns: int
) -> list[float]:
    """The outputs, one a period, where each command acts at its deadline: as over a network that
    loses nothing and is in time."""
    outputs: list[float] = []
    commands: list[float] = []
    now_ns, command = 0, 0.0
    for at_ns, kind, n in events(len(references), period_ns, deadline_ns):
        plant.advance(at_ns - now_ns, command)
        now_ns = at_ns
        if kind == SAMPLE:
            outputs.append(plant.output)
            commands.append(controller(references[n], plant.output))
        else:
            command = commands[n]
    return outputs
