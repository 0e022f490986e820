"""Paths that the output of a control loop is to follow.

A path says where the output is to be so long after its beginning: one number, or, of the tip of an
arm, two lengths in m from its shoulder. Numbers are exactly as the operator writes them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal

Point = tuple[float, ...]
"""The output of a plant, or where it is to be: one number, or x and y."""


@dataclass(frozen=True, slots=True)
class Ramp:
    """From 0 to `to` at constant speed."""

    to: Decimal

    def at(self, passed_ns: int, duration_ns: int) -> Point:
        return (float(self.to) * (passed_ns / duration_ns),)


@dataclass(frozen=True, slots=True)
class Sine:
    """`amplitude · sin(2π t / period)`."""

    amplitude: Decimal
    period_ns: int

    def at(self, passed_ns: int, _duration_ns: int) -> Point:
        return (float(self.amplitude) * math.sin(_turned(passed_ns, self.period_ns)),)


@dataclass(frozen=True, slots=True)
class Line:
    """From `begin` to `end`, from rest to rest.

    Of the way `10 p³ - 15 p⁴ + 6 p⁵` is done in the part `p` of the time: of all motions from rest
    to rest the one whose jerk, squared, has the least integral.
    """

    begin_m: tuple[Decimal, Decimal]
    end_m: tuple[Decimal, Decimal]

    def at(self, passed_ns: int, duration_ns: int) -> Point:
        part = passed_ns / duration_ns
        done = part**3 * (10 - 15 * part + 6 * part**2)
        (x, y), (to_x, to_y) = (tuple(map(float, each)) for each in (self.begin_m, self.end_m))
        return (x + done * (to_x - x), y + done * (to_y - y))

    @property
    def distances_m(self) -> tuple[float, float]:
        """How near to the shoulder, where x and y are 0, and how far from it the path comes."""
        (x, y), (to_x, to_y) = (tuple(map(float, each)) for each in (self.begin_m, self.end_m))
        length = math.hypot(to_x - x, to_y - y)
        along_x, along_y = (to_x - x) / length, (to_y - y) / length
        passed = min(max(-(x * along_x + y * along_y), 0.0), length)
        nearest = math.hypot(x + passed * along_x, y + passed * along_y)
        return nearest, max(math.hypot(x, y), math.hypot(to_x, to_y))


@dataclass(frozen=True, slots=True)
class Circle:
    """Around `centre` at constant speed, anticlockwise from its greatest x on."""

    centre_m: tuple[Decimal, Decimal]
    radius_m: Decimal
    period_ns: int

    def at(self, passed_ns: int, _duration_ns: int) -> Point:
        angle, radius = _turned(passed_ns, self.period_ns), float(self.radius_m)
        x, y = map(float, self.centre_m)
        return (x + radius * math.cos(angle), y + radius * math.sin(angle))

    @property
    def distances_m(self) -> tuple[float, float]:
        """How near to the shoulder, where x and y are 0, and how far from it the path comes."""
        away, radius = math.hypot(*map(float, self.centre_m)), float(self.radius_m)
        return abs(away - radius), away + radius


Path = Ramp | Sine | Line | Circle


def _turned(passed_ns: int, period_ns: int) -> float:
    """The angle of what turns once a period; its parts of a turn are reckoned in integers."""
    return 2 * math.pi * (passed_ns % period_ns / period_ns)
