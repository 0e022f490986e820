"""Clocks that are set at the instants that an intent states, in a lab with a kernel for each node.

No oscillator steps. Some program in the node sets the clock, here linuxptp's `phc_ctl`, and what
keeps the clock has to cope. It is started when the lab is up and waits by CLOCK_MONOTONIC of the
node, which no step changes: so a step comes when it is stated to, as far as the node's frequency is
right.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence

from cnc.model import NS_PER_S
from cnc.testbed.intent.lab_model import Clocks, ClockStep
from cnc.testbed.lab.running import Lab

LOG = "steps.log"  # in a lab's directory on its controller


def begin(lab: Lab) -> None:
    """From now on the clocks of the lab's nodes are set as stated; to be run on its controller."""
    clocks = lab.intent[Clocks].by_node
    stepping = {node: clock.steps for node, clock in clocks.items() if clock.steps}
    if not stepping:
        return
    with (lab.directory / LOG).open("wb") as log:
        for node, steps in stepping.items():
            argv = lab.command(node, command(steps))
            subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)


def command(steps: Sequence[ClockStep]) -> list[str]:
    """The command line that waits for each step, which are in the order of time, and makes it."""
    return ["phc_ctl", "-q", "CLOCK_REALTIME", "--", *_words(steps)]


def _words(steps: Sequence[ClockStep]) -> Iterator[str]:
    waited_ns = 0
    for step in steps:
        if step.at_ns > waited_ns:
            yield from ("wait", _seconds(step.at_ns - waited_ns))
            waited_ns = step.at_ns
        yield from ("adj", _seconds(step.by_ns))


def _seconds(time_ns: int) -> str:
    """A time that phc_ctl reads to the very nanosecond: it cuts off what a double is too little.

    Half of a nanosecond more is cut off in any case.
    """
    sign = "-" if time_ns < 0 else ""
    whole, part = divmod(abs(time_ns), NS_PER_S)
    return f"{sign}{whole}.{part:09}5"
