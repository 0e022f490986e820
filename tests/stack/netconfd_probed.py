"""`tsn-netconfd` with a probe in the event loop of each of its processes.

The probe keeps the longest CPU time between two turns of a loop: who waits for the loop waits at
least that long, and however busy the machine is, it is the same. Session processes have none.

Usage: netconfd_probed.py FILE REQUEST_CPU_S python -m agent.netconfd OPTION...

FILE is where the probe writes, for `Probe`; a request may take REQUEST_CPU_S of CPU time.
"""

from __future__ import annotations

import functools
import mmap
import selectors
import struct
import sys
import time
from pathlib import Path

from agent.netconfd import confinement
from agent.netconfd.front import server
from agent.netconfd.session_process import ProcessLimits

FRONT, BROKER, SPAWNER, SESSION = range(4)
_PROCESSES = {"netconf-broker": BROKER, "netconf-spawner": SPAWNER, "netconf-session": SESSION}
_TURN_NS = struct.Struct("Q")


class Probe:
    """What the probes have measured, in a file that all of them have mapped."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(bytes(_TURN_NS.size * len((FRONT, *_PROCESSES))))
        with path.open("r+b") as file:
            self._longest = mmap.mmap(file.fileno(), 0)

    def longest_ns(self, process: int) -> int:
        """The CPU time of the longest turn since the start, or since `forget`."""
        (turn_ns,) = _TURN_NS.unpack_from(self._longest, process * _TURN_NS.size)
        return turn_ns

    def keep(self, process: int, turn_ns: int) -> None:
        """One more turn."""
        if turn_ns > self.longest_ns(process):
            _TURN_NS.pack_into(self._longest, process * _TURN_NS.size, turn_ns)

    def forget(self) -> None:
        """Begin anew."""
        for process in (FRONT, *_PROCESSES.values()):
            _TURN_NS.pack_into(self._longest, process * _TURN_NS.size, 0)


class _Turns:
    """Tells the probe of each time between two waits of this process' main thread."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._process = FRONT
        self._begun_ns: int | None = None

    def become(self, process: int) -> None:
        """This is a process that was just forked."""
        self._process = process
        self._begun_ns = None

    def around(self, select):
        """The function with which a loop waits for its next turn."""

        @functools.wraps(select)
        def selected(selector, timeout=None):
            now_ns = time.thread_time_ns()
            if self._begun_ns is not None and self._process != SESSION:
                self._probe.keep(self._process, now_ns - self._begun_ns)
            try:
                return select(selector, timeout)
            finally:
                self._begun_ns = time.thread_time_ns()

        return selected


def install(path: Path) -> None:
    """Measure every loop of this process and of those that it forks."""
    turns = _Turns(Probe(path))
    selectors.EpollSelector.select = turns.around(selectors.EpollSelector.select)
    set_name = confinement.set_name

    def become(name):
        set_name(name)
        turns.become(_PROCESSES[name])

    confinement.set_name = become


def _limits_with(request_cpu_s):
    """The limits that are configured, except this one."""
    return lambda **configured: ProcessLimits(**configured | {"request_cpu_s": request_cpu_s})


if __name__ == "__main__":
    install(Path(sys.argv[1]))
    server.ProcessLimits = _limits_with(int(sys.argv[2]))
    # What follows the interpreter and -m, with which the server would have been started.
    sys.argv = sys.argv[5:]
    sys.exit(server.main())
