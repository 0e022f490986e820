"""Where the time of a rollout goes: its steps on the wall clock, and who computes."""

from __future__ import annotations

import os
import resource
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import Any
from unittest.mock import patch

from cnc.switch.device import Device

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")

# What a call of `Device` is for, by its name and by how often that session was asked it before.
_STEPS = {
    ("__init__", 0): "connect",
    ("state", 0): "preflight",
    ("lock", 0): "lock running",
    ("lock", 1): "lock candidate",
    ("stored", 0): "compare",
    ("edit", 0): "edit, validate",
    ("commit_confirmed", 0): "commit",
    ("state", 1): "verify",
    ("confirm", 0): "confirm",
    ("save_startup", 0): "save",
    ("unlock", 0): "unlock",
    ("close", 0): "close",
}


@dataclass
class Steps:
    """When the first switch was asked and the last had answered, by step (s, perf_counter)."""

    _spans_s: dict[str, tuple[float, float]] = field(default_factory=dict)
    _asked: Counter[tuple[str, str]] = field(default_factory=Counter)

    def durations_s(self) -> dict[str, float]:
        """By step, in the order in which they began."""
        begun_first = sorted(self._spans_s.items(), key=lambda item: item[1])
        return {step: ended_s - begun_s for step, (begun_s, ended_s) in begun_first}

    def add(self, method: str, switch: str, begun_s: float, ended_s: float) -> None:
        """Count a call, if it is one of the steps."""
        nth = self._asked[method, switch]
        self._asked[method, switch] += 1
        if step := _STEPS.get((method, nth)):
            first_s, last_s = self._spans_s.get(step, (begun_s, ended_s))
            self._spans_s[step] = min(first_s, begun_s), max(last_s, ended_s)


@contextmanager
def watched_steps() -> Iterator[Steps]:
    """The steps of the rollout that is made in the `with` block."""
    steps = Steps()

    def watched(method: str) -> Callable[..., Any]:
        asked = getattr(Device, method)

        @wraps(asked)
        def timed(device: Device, *args: Any, **kwargs: Any) -> Any:
            begun_s = time.perf_counter()
            try:
                return asked(device, *args, **kwargs)
            finally:
                steps.add(method, device.name, begun_s, time.perf_counter())

        return timed

    with ExitStack() as stack:
        for method in {method for method, _ in _STEPS}:
            stack.enter_context(patch.object(Device, method, watched(method)))
        yield steps


def own_cpu_s() -> float:
    """What all threads of this process have computed."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def cpu_s(pids: Iterable[int]) -> float:
    """What these processes have computed (utime and stime of proc_pid_stat(5))."""
    total = 0
    for pid in pids:
        # The name before the last parenthesis may hold anything; the rest starts with field 3.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / _TICKS_PER_S
