"""What a plan leaves open, decided against it."""

from __future__ import annotations

from random import Random
from typing import Protocol, TypeVar

from cnc.model import Bridge, Network

_Choice = TypeVar("_Choice")
_TOLERANCE_PPM = 100  # IEEE 802.3, of the rate of every link


class Adversary(Protocol):
    """Every figure within what the plan has allowed for."""

    def clock_ns(self, network: Network) -> int:
        """How far a node's clock is ahead of time; asked once for each node."""

    def chosen(self, several: list[_Choice]) -> _Choice:
        """One of several, where any may be."""

    def clock_step_ns(self, most_ns: int) -> int:
        """How far a clock is ahead of the one that it follows."""

    def faster_ppm(self) -> int:
        """How much more than its nominal rate a link sends, in millionths; asked once for each."""

    def processing_ns(self, bridge: Bridge) -> int:
        """From the last bit received until the frame is in its queue."""

    def before_filter_ns(self, processing_ns: int) -> int:
        """How much of that time passes before a stream filter looks at it."""

    def control_ns(self, longest_ns: int) -> int:
        """How long control frames keep the link before a frame that could start, of at most so
        long."""

    def lateness_ns(self, margin_ns: int) -> int:
        """How late a frame starts because of its sender."""

    def early_ns(self, most_ns: int) -> int:
        """How much sooner than its list says a gate moves; asked once for each edge of a list."""

    def sends_best_effort(self) -> bool:
        """Whether best effort takes the link at the last instant it may; asked once for each
        port."""

    def loses(self) -> bool:
        """Whether a frame is lost on its way over a link."""

    def turn(self) -> int:
        """Of what happens at one instant, the least goes first; those with the same as they
        came."""


class Nobody:
    """A network of which everything is exact."""

    def clock_ns(self, _network: Network) -> int:
        return 0

    def chosen(self, several: list[_Choice]) -> _Choice:
        return several[0]

    def clock_step_ns(self, _most_ns: int) -> int:
        return 0

    def faster_ppm(self) -> int:
        return 0

    def processing_ns(self, bridge: Bridge) -> int:
        return bridge.processing_min_ns

    def before_filter_ns(self, _processing_ns: int) -> int:
        return 0

    def control_ns(self, _longest_ns: int) -> int:
        return 0

    def lateness_ns(self, _margin_ns: int) -> int:
        return 0

    def early_ns(self, _most_ns: int) -> int:
        return 0

    def sends_best_effort(self) -> bool:
        return False

    def loses(self) -> bool:
        return False

    def turn(self) -> int:
        return 0


class Slow(Nobody):
    """Nobody's, but all takes as long as it may."""

    def faster_ppm(self) -> int:
        return -_TOLERANCE_PPM

    def processing_ns(self, bridge: Bridge) -> int:
        return bridge.processing_max_ns

    def before_filter_ns(self, processing_ns: int) -> int:
        return processing_ns

    def control_ns(self, longest_ns: int) -> int:
        return longest_ns

    def lateness_ns(self, margin_ns: int) -> int:
        return margin_ns

    def sends_best_effort(self) -> bool:
        return True


class Busy(Nobody):
    """Nobody's, but a computer deals with each event up to `most_ns` after it is due."""

    def __init__(self, seed: int, most_ns: int) -> None:
        self._random = Random(seed)  # noqa: S311  not for secrets
        self._most_ns = most_ns

    def processing_ns(self, bridge: Bridge) -> int:
        return bridge.processing_min_ns + self.lateness_ns(self._most_ns)

    def lateness_ns(self, margin_ns: int) -> int:
        return self._random.randint(0, min(margin_ns, self._most_ns))


class Chance:
    """Any figure, but most often the outermost: they are where plans break."""

    def __init__(self, seed: int, *, loss: float = 0.05) -> None:
        self._random = Random(seed)  # noqa: S311  not for secrets
        # Some runs without a loss: a frame that is not there is in nobody's way.
        self._loss = self._random.choice((0, loss))
        # The further from the grandmaster, the further off is the worst there is; 0: either way.
        self._ahead = seed % 3 - 1
        self._turns = Random(~seed)  # noqa: S311  apart: all else is the same whoever goes first

    def clock_ns(self, network: Network) -> int:
        return self._between(0, network.clock_error_ns)

    def chosen(self, several: list[_Choice]) -> _Choice:
        return self._random.choice(several)

    def clock_step_ns(self, most_ns: int) -> int:
        ahead = self._ahead or self._random.choice((-1, 1))
        return ahead * self._between(0, most_ns)

    def faster_ppm(self) -> int:
        return self._between(-_TOLERANCE_PPM, _TOLERANCE_PPM)

    def processing_ns(self, bridge: Bridge) -> int:
        return self._between(bridge.processing_min_ns, bridge.processing_max_ns)

    def before_filter_ns(self, processing_ns: int) -> int:
        return self._between(0, processing_ns)

    def control_ns(self, longest_ns: int) -> int:
        return self._between(0, longest_ns)

    def lateness_ns(self, margin_ns: int) -> int:
        return self._between(0, margin_ns)

    def early_ns(self, most_ns: int) -> int:
        return self._between(0, most_ns)

    def sends_best_effort(self) -> bool:
        return self._random.random() < 0.8

    def loses(self) -> bool:
        return self._random.random() < self._loss

    def turn(self) -> int:
        return self._turns.getrandbits(16)

    def _between(self, least: int, greatest: int) -> int:
        if least == greatest:
            return least
        draw = self._random.random()
        if draw < 0.45:
            return greatest
        return least if draw < 0.9 else self._random.randint(least, greatest)
