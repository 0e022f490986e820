"""Clocks, as the controller registers them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from cnc.finding import Check
from cnc.mechanism import Exceeded, Figure, Measured, Registered
from cnc.mechanisms.clock import error
from cnc.model import Intent, Plan
from cnc.support.format import duration

if TYPE_CHECKING:
    from cnc.data_tree.stated import StatedPorts


def _require(intent: Intent, stated: StatedPorts | None) -> None:
    if stated is None:
        error.require(intent)
    else:
        silent = [each for each in error.nodes(intent) if each not in stated.compared]
        error.refuse_unmeasured(intent, silent)


def _kept(intent: Intent, then: Intent) -> Intent:
    if not intent.wants_measured_clock_error or then.measured_clock_error is None:
        return intent
    return intent.with_clock_error(then.measured_clock_error)


def _exceeded(running: Intent, now: Intent, stated: StatedPorts) -> Iterator[Exceeded]:
    before, apart = running.measured_clock_error, stated.clocks
    if before and apart and apart.apart_ns > before.value_ns:
        yield Exceeded(
            f"the clocks of {apart.first} and {apart.second} were measured up to "
            f"{duration(apart.apart_ns)} apart; the running plan allows for "
            f"{duration(before.value_ns)}",
            now.network.clock_error_ns,
            "let the clocks settle, or state a `clock-error` under `defaults` of the intent",
        )


def _figures(plan: Plan) -> Iterator[Figure]:
    if measured := plan.intent.measured_clock_error:
        yield Figure("clock error", measured.value_ns, error.source(measured))


MEASURED = Measured(
    check=Check.CLOCKS,
    taken=lambda intent, stated, running: error.with_measured(intent, stated.clocks, running),
    kept=_kept,
    require=_require,
    exceeded=_exceeded,
    figures=_figures,
)

MECHANISM = Registered(name="clock", measured=MEASURED)
