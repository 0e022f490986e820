"""How many connections somebody may have, so that room is left for others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable


class Connections:
    """Those of each, and of all together."""

    def __init__(self, of_one: int, of_all: int) -> None:
        self._of_one, self._of_all = of_one, of_all
        self._of: Counter[Hashable] = Counter()

    def enter(self, who: Hashable) -> bool:
        """Whether one more may be there; it is then, until it leaves."""
        has_room = self._of[who] < self._of_one and self._of.total() < self._of_all
        if has_room:
            self._of[who] += 1
        return has_room

    def leave(self, who: Hashable) -> None:
        self._of[who] -= 1
        if not self._of[who]:
            del self._of[who]
