"""The code points of sent frames: what a port is asked to do, and what its filters do."""

from __future__ import annotations

from dataclasses import dataclass

PRIORITIES = 8
# `[p]` is the code point that a frame of priority p is sent with.
CodePoints = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SentPriorityConfig:
    """What to send while the port is a member of a bridge; None: tags stay as they are."""

    code_points: CodePoints | None = None


@dataclass(frozen=True, slots=True)
class SentPriorityState:
    """The code points that are in force; None: tags stay as they are."""

    code_points: CodePoints | None = None
