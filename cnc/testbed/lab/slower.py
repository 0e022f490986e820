"""The same network, many times slower: for clocks that cannot resolve its microseconds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cnc.intent import from_document
from cnc.keys.units import DURATION, RATE
from cnc.model import Intent
from cnc.testbed.lab.supported import GATES_LEAST_BPS

# Keys of an intent document. What a port can do (its longest list, interval and cycle, its tick) is
# not scaled: these are limits of the kernel, whose speed does not change.
TIMES = frozenset(
    {
        *(
            "propagation",
            *("jitter", "pareto"),
            "min",
            "max",
            *("clock-error", "network", "neighbours"),
            "gate-margin",
            "gate-early",
            *("talker-lateness", "launch-error", "launch-delta"),
            "gate-interval-min",
        ),
        *("recovery", "disturbance"),
        *("period", "max-latency", "max-jitter", "earliest", "latest"),
        *("compute", "deadline", "duration", "time-constant", "rise-time"),
        *("every", "after", "cycle", "base-offset", "for"),
    }
)
RATES = frozenset({"rate", "idle-slope"})
PER_SECOND = frozenset({"ki", "speed"})  # numbers
# In place of none, which is for a clock on which no timer is late; a slower network is for others.
MARGIN_NS = 1_000


def slower(intent: Intent, factor: int) -> Intent:
    """Every time of the intent's document multiplied by `factor`, every rate divided by it: of
    links, at which the controllers of loops integrate, and of their drives.

    Names and addresses stay, and no rate falls below the 100 Mb/s that the lab's gates can reckon
    with: beyond that, frames are shorter than in a network `factor` times slower.

    Raises:
        InputError: a value is beyond what an intent can hold, such as a period over 2.1 s.
    """
    document: dict[str, Any] = _scaled(intent.document, factor)
    return from_document(document, f"{intent.name}, {factor} times slower")


def _scaled(value: Any, factor: int) -> Any:
    if isinstance(value, list):
        return [_scaled(each, factor) for each in value]
    if isinstance(value, Mapping):
        return {key: _scaled_entry(key, each, factor) for key, each in value.items()}
    return value


def _scaled_entry(key: object, value: Any, factor: int) -> Any:
    # A name may equal one of these keys, but its value is then not a text.
    if isinstance(value, str) and key in TIMES and (time_ns := _time_ns(value)) is not None:
        if key == "gate-margin":
            time_ns = time_ns or MARGIN_NS
        return DURATION.format(time_ns * factor)
    if isinstance(value, str) and key in RATES:
        rate_bps = RATE.parse(value)
        return RATE.format(max(rate_bps // factor, min(rate_bps, GATES_LEAST_BPS)))
    if isinstance(value, int | float) and key in PER_SECOND:
        return value / factor
    return _scaled(value, factor)


def _time_ns(value: str) -> int | None:
    """None: a word in place of a time, such as none, or the name of a class."""
    try:
        return DURATION.parse(value)
    except ValueError:
        return None
