"""How late timers and talkers were, as nodes measure it: what is enough, and how it is told."""

from __future__ import annotations

from cnc.model import MeasuredMargin, WakeUps
from cnc.support import exact_clock
from cnc.support.format import duration

# Timers that are never later belong to a clock that stands still while a machine computes; on
# others an interrupt alone takes longer.
EXACT_MAX_NS = 10
# In virtual time each reading of the clock takes 256 ns, and so does each time stamp of a frame
# that leaves at the same instant; a frame that waits for its gate does not see them.
VIRTUAL_MAX_NS = 10_000
ENOUGH = 100_000  # wake-ups, to tell what is seen of them in a plan's life
SENT = "periods"  # what a talker counts


def covers(margin_ns: int, measured: WakeUps) -> bool:
    """Whether no gate was measured to open later than the margin allows."""
    exact_ns = VIRTUAL_MAX_NS if exact_clock.is_exact() else EXACT_MAX_NS
    return measured.maximum_ns <= max(margin_ns, exact_ns)


def is_enough(measured: WakeUps) -> bool:
    """Whether there are enough wake-ups to tell how late one in 100,000 is."""
    return measured.count >= ENOUGH


def rounded_up(time_ns: int) -> int:
    """The next of 1, 2, 5, 10, 20, 50 … nanoseconds."""
    power = 1
    while True:
        for digit in (1, 2, 5):
            if digit * power >= time_ns:
                return digit * power
        power *= 10


def figures(measured: WakeUps, of: str = "wake-ups") -> str:
    """What was measured, in words: 43 µs late (the latest of 1,234,567 wake-ups)."""
    text = f"{duration(measured.maximum_ns)} late (the latest of {measured.count:,} {of}"
    if measured.quantile_ns is not None:
        text += f"; all but 1 in 100,000 within {duration(measured.quantile_ns)}"
    return f"{text})"


def measured_on(measured: MeasuredMargin, of: str = "wake-ups") -> str:
    """Where a figure comes from that was measured, in words."""
    return (
        f"measured on {measured.port}: max {duration(measured.maximum_ns)} of {measured.count:,} "
        f"{of}{'' if measured.count >= ENOUGH else f', not enough before {ENOUGH:,}'}"
    )


def in_intent(time_ns: int) -> str:
    """A time as an intent states it."""
    from cnc.keys.units import DURATION  # noqa: PLC0415  what only warns needs no intent

    return DURATION.format(time_ns)
