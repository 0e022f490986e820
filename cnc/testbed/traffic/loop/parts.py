"""Plants and controllers, advanced period by period: pure, and the same for the same inputs.

Plants are integrated exactly: their input is constant between two instants at which a command acts,
so that each step is the closed form of a linear system's response. The standard library only, since
the program of an end station imports it.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from cnc.testbed.traffic.loop.own import OwnController, OwnPlant, made_by

NS_PER_S = 1_000_000_000
CRITICAL = 1e-9  # so near to 1 a damping ratio is 1: both closed forms lose their digits there

SAMPLE, ACT = 0, 1  # what happens at the plant: of two things at one instant, in this order

Controller = Callable[[float, float], float]
"""The command for a reference and a sample; called once a period."""


Answer = Callable[[Sequence[float], Sequence[float]], Sequence[float]]
"""The commands for the references and samples of all axes; called once a period."""


class Controlled(Protocol):
    """All that a loop controls."""

    @property
    def outputs(self) -> tuple[float, ...]: ...

    def advance(self, duration_ns: int, commands: Sequence[float]) -> None:
        """Let the time pass with these commands at the inputs."""


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
class Axes:
    """Plants with a controller each, which do not act on each other."""

    plants: Sequence[Plant]

    @property
    def outputs(self) -> tuple[float, ...]:
        return tuple(plant.output for plant in self.plants)

    def advance(self, duration_ns: int, commands: Sequence[float]) -> None:
        for plant, command in zip(self.plants, commands, strict=True):
            plant.advance(duration_ns, command)


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


def controlled_of(its: Mapping[str, Any]) -> Controlled:
    """What a loop controls, as `cnc.testbed.traffic.loop.axes.controlled` describes it."""
    if "function" in its:
        return OwnPlant(its, its["modules"])
    return Axes([plant_of(each) for each in its["plants"]])


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
    made: Controller = made_by(its["function"], directory)(period_ns / NS_PER_S)
    return made


def answer_of(its: Mapping[str, Any]) -> Answer:
    """What computes all commands of a period, as `loop.axes.answering` describes it."""
    controller, period_ns, modules = its["controller"], its["period_ns"], its["modules"]
    if "commands" in controller:
        return OwnController(controller, period_ns / NS_PER_S, modules)
    return one_by_one([controller_of(controller, period_ns, modules) for _ in its["resting"]])


def one_by_one(controllers: Sequence[Controller]) -> Answer:
    """A controller for each axis."""

    def answer(references: Sequence[float], samples: Sequence[float]) -> list[float]:
        return [
            float(controller(reference, sample))
            for controller, reference, sample in zip(controllers, references, samples, strict=True)
        ]

    return answer


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
    controlled: Controlled,
    answer: Answer,
    references: Sequence[Sequence[float]],
    *,
    inputs: int,
    period_ns: int,
    deadline_ns: int,
) -> list[tuple[float, ...]]:
    """The outputs, period by period, of a plant with so many inputs where each command acts at its
    deadline: as over a network that loses nothing and is in time."""
    outputs: list[tuple[float, ...]] = []
    answers: list[Sequence[float]] = []
    now_ns = 0
    commands: Sequence[float] = (0.0,) * inputs
    for at_ns, kind, n in events(len(references), period_ns, deadline_ns):
        controlled.advance(at_ns - now_ns, commands)
        now_ns = at_ns
        if kind == SAMPLE:
            outputs.append(controlled.outputs)
            answers.append(answer(references[n], outputs[-1]))
        else:
            commands = answers[n]
    return outputs


def undisturbed_of(its: Mapping[str, Any]) -> list[tuple[float, ...]]:
    """As `undisturbed`, of a loop that `cnc.testbed.traffic.loop.axes` describes."""
    return undisturbed(
        controlled_of(its["controlled"]),
        answer_of(its["answering"]),
        references_of(its),
        inputs=its["inputs"],
        period_ns=its["period_ns"],
        deadline_ns=its["deadline_ns"],
    )
