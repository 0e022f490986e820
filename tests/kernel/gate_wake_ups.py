"""How late the timers were that open and close gates, each of them, from events of the kernel."""

from __future__ import annotations

import re
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

from cnc.mechanisms.measurements import rounded_up
from cnc.support.format import duration
from cnc.testbed.traffic.trace.tracefs import ROOTS, TracingInstance

# At least so often a timer of taprio expires somewhere: a machine that stands still for longer is
# seen to, whatever the gates of a plan do meanwhile.
SAMPLE_NS = 1_000_000
_SAMPLER = "samples-timers"
_TIMER = "advance_sched"  # net/sched/sch_taprio.c
_SET, _EXPIRED = "timer/hrtimer_start", "timer/hrtimer_expire_entry"
_LINE = re.compile(
    rf".* (?:hrtimer_start: hrtimer=(?P<set>\S+) function={_TIMER} expires=(?P<due>\d+) .*"
    rf"|hrtimer_expire_entry: hrtimer=(?P<expired>\S+) function={_TIMER} now=(?P<now>\d+))\n"
)


@contextmanager
def lateness_of_gates() -> Iterator[list[list[int]]]:
    """After the `with` block, how late in nanoseconds each timer of taprio was that expired in it:
    a list for each port with gates, and one for an interface that leads nowhere, whose timers are
    SAMPLE_NS apart.

    Raises:
        InputError, CncError: events cannot be recorded here, or some are missing.
    """
    if not any((root / "instances").is_dir() for root in ROOTS):
        _run("mount", "-t", "tracefs", "nodev", str(ROOTS[0]))
    by_port_ns: list[list[int]] = []
    with TracingInstance("gate-wake-ups", (_SET, _EXPIRED)) as instance, _sampler():
        instance.start(dict.fromkeys((_SET, _EXPIRED), f"function == {_address(_TIMER)}"))
        yield by_port_ns
        instance.stop()
        with instance.opened(raw=False) as lines:
            by_port_ns += _by_timer_ns(lines)


def _by_timer_ns(lines: Iterable[str]) -> Iterable[list[int]]:
    """How late each timer was each time by the text of a trace, where it was set in that.

    Raises ValueError where a line is another event.
    """
    late_ns: dict[str, list[int]] = defaultdict(list)
    due_ns: dict[str, int] = {}
    for line in lines:
        if line.startswith("#"):
            continue
        found = _LINE.fullmatch(line)
        if found is None:
            raise ValueError(f"found {line!r}, expected a timer of {_TIMER} that is set or expires")
        if timer := found["set"]:
            due_ns[timer] = int(found["due"])
        elif (timer := found["expired"]) in due_ns:
            late_ns[timer].append(int(found["now"]) - due_ns.pop(timer))
    return late_ns.values()


def histogram(late_ns: Sequence[int]) -> str:
    """How many were up to 1 µs late, and more than that up to 2, 5, 10 …: a line for each."""
    counts = Counter(rounded_up(max(1_000, each)) for each in late_ns)
    return "\n".join(f"  up to {duration(ns):>8} {counts[ns]:9,}" for ns in sorted(counts))


@contextmanager
def _sampler() -> Iterator[None]:
    """An interface whose gates change each SAMPLE_NS."""
    entries = chain.from_iterable(("sched-entry", "S", mask, str(SAMPLE_NS)) for mask in "12")
    _run("ip", "link", "add", _SAMPLER, "numtxqueues", "2", "type", "dummy")
    try:
        _run("ip", "link", "set", _SAMPLER, "up")
        _run(
            *("tc", "qdisc", "replace", "dev", _SAMPLER, "root", "taprio", "num_tc", "2"),
            *("map", "0", "1", "queues", "1@0", "1@1", "base-time", "0"),
            *entries,
            *("clockid", "CLOCK_TAI"),
        )
        yield
    finally:
        _run("ip", "link", "delete", _SAMPLER)


def _run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)


def _address(function: str) -> str:
    """Where the kernel has a function."""
    symbols = (line.split() for line in Path("/proc/kallsyms").read_text().splitlines())
    return next(f"0x{address}" for address, _, name, *_ in symbols if name == function)
