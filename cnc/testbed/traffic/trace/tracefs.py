"""An instance of the kernel's event tracing: events in a ring buffer of its own, nobody else's.

Documentation/trace/ftrace.rst and events.rst of the kernel.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO

from cnc.errors import CncError, InputError
from cnc.support.format import counted

ROOTS = (Path("/sys/kernel/tracing"), Path("/sys/kernel/debug/tracing"))
BUFFER_KIB = 32 * 1024  # for each processor
CLOCK = "tai"
# Of a full buffer, and of events that interrupted the recording of another.
_LOST = ("overrun", "commit overrun", "dropped events")


class TracingInstance:
    """Events by name, such as `net/netif_rx`, as they wait in a buffer of BUFFER_KIB for each
    processor. Use as a context manager: the instance is gone afterwards.

    Raises:
        InputError: there is no tracefs here that this process may write to, or the kernel lacks an
            event or the clock, or has an instance of that name.
        CncError: it refused a setting.
    """

    def __init__(self, name: str, events: Iterable[str], roots: Iterable[Path] = ROOTS) -> None:
        self._root = next((root for root in roots if os.access(root / "instances", os.W_OK)), None)
        if self._root is None:
            raise InputError(
                "--kernel: there is no tracefs here that you may write to",
                hint=f"as root: mount -t tracefs nodev {ROOTS[0]}; it needs CONFIG_EVENT_TRACING",
            )
        for event in events:
            if not (self._root / "events" / event).is_dir():
                raise InputError(f"--kernel: this kernel has no event {event.replace('/', ':')}")
        clocks = (self._root / "trace_clock").read_text().split()
        if CLOCK not in (clock.strip("[]") for clock in clocks):
            raise InputError(
                f"--kernel: this kernel traces by {' '.join(clocks)}, not by {CLOCK}",
                hint="Linux 6.1 and later do",
            )
        self._directory = self._root / "instances" / name

    def __enter__(self) -> TracingInstance:
        try:
            self._directory.mkdir()
        except FileExistsError:
            raise InputError(
                f"--kernel: {self._directory} exists: another trace is running, or was killed",
                hint=f"if none is running: rmdir {self._directory}",
            ) from None
        except PermissionError as error:  # of a kernel in lockdown, also to root
            raise InputError(f"--kernel: {self._directory}: {error.strerror}") from error
        except OSError as error:
            raise CncError(f"{self._directory}: {error.strerror}") from error
        try:
            self._write("tracing_on", 0)
            self._write("trace_clock", CLOCK)
            self._write("buffer_size_kb", BUFFER_KIB)
            self._write("options/overwrite", 0)
            self._write("options/annotate", 0)  # lines that are no event
            if (self._directory / "options/hash-ptr").exists():
                self._write("options/hash-ptr", 0)  # two addresses might have one hash
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._remove()

    def start(self, filters: Mapping[str, str]) -> None:
        """Record from now on the events that pass their filters."""
        for event, text in filters.items():
            self._write(f"events/{event}/filter", text)
            self._write(f"events/{event}/enable", 1)
        self._write("tracing_on", 1)

    def stop(self) -> None:
        """Record no more.

        Raises:
            CncError: events are missing, since a buffer was full.
        """
        self._write("tracing_on", 0)
        for stats in sorted(self._directory.glob("per_cpu/cpu*/stats")):
            if missing := lost(stats.read_text()):
                raise CncError(
                    f"{counted(missing, 'event')} of the kernel found no room in the buffer of "
                    f"{stats.parent.name}, which has {BUFFER_KIB // 1024} MiB",
                    hint="trace for fewer cycles",
                )

    def id_of(self, event: str) -> int:
        """The number by which a raw trace knows an event."""
        lines = (self._directory / "events" / event / "format").read_text().splitlines()
        return next(int(line.removeprefix("ID: ")) for line in lines if line.startswith("ID: "))

    @contextlib.contextmanager
    def opened(self, *, raw: bool) -> Iterator[IO[str]]:
        """The lines of the trace in order of time: as text, to the microsecond; or raw: process,
        processor, nanoseconds, and number of the event."""
        self._write("options/raw", int(raw))
        with (self._directory / "trace").open(errors="replace") as lines:
            yield lines

    def _write(self, file: str, value: int | str) -> None:
        try:
            (self._directory / file).write_text(f"{value}\n")
        except OSError as error:
            raise CncError(f"{self._directory}/{file}: {error.strerror}: {value}") from error

    def _remove(self) -> None:
        with contextlib.suppress(CncError):  # its directory goes anyway
            self._write("tracing_on", 0)
        self._directory.rmdir()


def lost(stats: str) -> int:
    """How many events were lost, by the file `stats` of a processor's buffer."""
    counts = dict(line.split(": ", 1) for line in stats.splitlines() if ": " in line)
    return sum(int(counts[name]) for name in _LOST)
