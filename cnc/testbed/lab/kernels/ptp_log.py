"""What a ptp4l was, over time, as its log tells: grandmaster, follower, or neither yet.

Lines are those of linuxptp 3.1 and 4 (port.c, clock.c): with a time of CLOCK_MONOTONIC, a change of
a port's state, and whose clock has been found to be the best.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby

from cnc.model import NS_PER_S

_LINE = re.compile(r"(?:instance (\d+): )?ptp4l\[(\d+)\.(\d{3})\]: (.*)")
_PORT = re.compile(r"port ([1-9]\d*)(?: \(\S+\))?: \w+ to (\w+) on ")
_BEST = re.compile(r"selected best master clock (\S+)")
_INSTANCE = "0"
_NS_PER_MS = 1_000_000


class Role(StrEnum):
    """What the clock of a node is to others, by the states of its ports (IEEE Std 1588-2019,
    table 20)."""

    STARTING = "starting"
    """No port has found another clock, or gives the time to one."""
    UNCALIBRATED = "uncalibrated"
    """It follows a clock, and is not in step with it."""
    FOLLOWS = "follows"
    GRANDMASTER = "grandmaster"
    FAULTY = "faulty"
    """No port works."""


@dataclass(frozen=True, slots=True)
class Change:
    """What a clock is from an instant on, by the node's own CLOCK_MONOTONIC, to the millisecond.

    `followed` is the identity of the grandmaster that it follows; None: it follows none.
    """

    time_ns: int
    role: Role
    followed: str | None


def changes(log: Iterable[str]) -> Iterator[Change]:
    """The changes that a log has of PTP instance 0, or of the one ptp4l that wrote it."""
    states: dict[str, str] = {}
    best = None
    last = None
    for time_ns, messages in groupby(_messages(log), key=lambda each: each[0]):
        for _, message in messages:
            if match := _PORT.match(message):
                states[match[1]] = match[2]
            elif match := _BEST.match(message):
                best = match[1]
        if states:
            role = _role(set(states.values()))
            followed = best if role in {Role.UNCALIBRATED, Role.FOLLOWS} else None
            if (role, followed) != last:
                last = role, followed
                yield Change(time_ns, role, followed)


def _messages(log: Iterable[str]) -> Iterator[tuple[int, str]]:
    for line in log:
        match = _LINE.search(line)
        if match and match[1] in {None, _INSTANCE}:
            yield int(match[2]) * NS_PER_S + int(match[3]) * _NS_PER_MS, match[4]


def _role(states: set[str]) -> Role:
    for state, role in (
        ("SLAVE", Role.FOLLOWS),
        ("UNCALIBRATED", Role.UNCALIBRATED),
        ("MASTER", Role.GRANDMASTER),
        ("GRAND_MASTER", Role.GRANDMASTER),
    ):
        if state in states:
            return role
    return Role.FAULTY if states <= {"FAULTY", "DISABLED"} else Role.STARTING
