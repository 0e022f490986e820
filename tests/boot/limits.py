"""How long a test waits for a machine before it calls it broken: longer where all is slower."""

from __future__ import annotations

from functools import cache

from tests.runner.speed import slowness_now


def patient(limit_s: float) -> float:
    """A limit that is ample on the machine of tests/budget.toml, as it has to be on this one."""
    return limit_s * _slowness()


@cache
def _slowness() -> float:
    """As it is when the first test is collected: what a run has begun with holds to its end."""
    return slowness_now()
