"""The daemons of the configurations in a directory, run and restarted as these come and change."""

from __future__ import annotations

import os
import selectors
import time
from contextlib import suppress
from pathlib import Path

from agent.clock_service.daemon import PtpDaemon
from agent.clock_service.inotify import DirectoryWatch
from agent.ptp_daemons import files, status
from agent.service_manager import notify, watchdog_interval_s

DIRECTORY_MODE = 0o770  # the agent writes the configurations, and this program the rest


class ClockService:
    """The daemons of the configurations in a directory, by the index of their instance."""

    def __init__(self, directory: Path) -> None:
        """Raises BlockingIOError where another process has the directory, or another OSError."""
        self._directory = directory
        self._lock = status.lock(directory)
        self._watch = DirectoryWatch(directory)
        self._daemons: dict[int, PtpDaemon] = {}
        self._wake, self._wake_writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._stopped = False
        self._watchdog_s = watchdog_interval_s()

    def stop(self) -> None:
        """End `run`, from a signal handler or another thread."""
        self._stopped = True
        with suppress(BlockingIOError):
            os.write(self._wake_writer, b"\0")

    def run(self) -> None:
        """Follow the directory until `stop`, and end all daemons then."""
        try:
            self._follow()
            while not self._stopped:
                self._wait()
                self._watch.acknowledge()
                self._follow()
                for daemon in self._daemons.values():
                    daemon.step()
                if self._watchdog_s:
                    notify("WATCHDOG=1")
        finally:
            for daemon in self._daemons.values():
                daemon.stop()
            self._watch.close()
            for descriptor in (self._wake, self._wake_writer, self._lock):
                os.close(descriptor)

    def _wait(self) -> None:
        """Until a file changes, a daemon prints or ends, or a step of one is due."""
        due_s = [each.due_s for each in self._daemons.values() if each.due_s is not None]
        waits_s = [max(0.0, each - time.monotonic()) for each in due_s]
        if self._watchdog_s:
            waits_s.append(self._watchdog_s)
        with selectors.DefaultSelector() as selector:
            selector.register(self._watch.fileno(), selectors.EVENT_READ)
            selector.register(self._wake, selectors.EVENT_READ)
            for daemon in self._daemons.values():
                if daemon.output is not None:
                    selector.register(daemon.output, selectors.EVENT_READ)
            selector.select(min(waits_s, default=None))

    def _follow(self) -> None:
        """Start, restart and stop daemons as the configurations came, changed and went."""
        wanted = self._configurations()
        for index in self._daemons.keys() - wanted.keys():
            self._daemons.pop(index).stop()
        for index, content in wanted.items():
            running = self._daemons.get(index)
            if running and running.content == content:
                continue
            if running:
                running.stop()
            self._daemons[index] = PtpDaemon(self._directory, index, content)
            self._daemons[index].start()

    def _configurations(self) -> dict[int, bytes]:
        found = {}
        for file in self._directory.glob("*.conf"):
            with suppress(OSError):
                if file.stem.isdecimal():
                    with file.open("rb") as opened:
                        found[int(file.stem)] = opened.read(files.MAX_FILE_OCTETS)
        return found
