"""Sequence recovery by the vector algorithm (IEEE 802.1CB 7.4.3.4); numbers do not wrap here."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class VectorRecovery:
    """What a switch remembers of a stream: the highest number, and which ones before it came.

    A number that is `history` or more away from the highest is rogue. After `reset_ns` without a
    frame that passed any number is taken, and those before it are forgotten.
    """

    history: int
    reset_ns: int
    _highest: int | None = None
    _came: set[int] = field(default_factory=set)
    _passed_ns: int = 0

    def passes(self, number: int, now_ns: int) -> bool:
        """Whether a frame goes on."""
        if self._highest is not None and now_ns - self._passed_ns >= self.reset_ns:
            self._highest, self._came = None, set()
        if self._highest is None:
            self._highest = number
        elif abs(number - self._highest) >= self.history or number in self._came:
            return False
        self._highest = max(self._highest, number)
        self._came = {each for each in self._came if self._highest - each < self.history}
        self._came.add(number)
        self._passed_ns = now_ns
        return True
