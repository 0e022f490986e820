"""Measures all the time how late this kernel's timers wake up, and remembers the last 24 hours."""

from __future__ import annotations

import json
import logging
import threading
import time
from pathlib import Path

from agent import whole_file
from agent.boot import boot_id
from agent.kernel.timer_probe import BATCH_S, ProbeRefused, TimerProbe
from agent.wake_ups import WakeUpRecord, WakeUps

LOG = logging.getLogger(__name__)

_FILE_MAX_OCTETS = 2**20
_HOUR_S = 3600
_BATCHES_KEPT = 60  # what a killed agent forgets: five minutes


class WakeUpMonitor:
    """Runs in a thread of its own from construction until `close`."""

    def __init__(self, path: Path) -> None:
        """`path` is the file by which a restarted agent knows what this one has measured.

        Raises `ProbeRefused`.
        """
        self._path = path
        self._record = _read(path)
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._probe = TimerProbe()
        self._thread = threading.Thread(target=self._run, name="wake-ups", daemon=True)
        self._thread.start()

    def wake_ups(self) -> WakeUps | None:
        """Those of the last 24 hours; None while there are none."""
        with self._lock:
            return self._record.wake_ups(_hour())

    def close(self) -> None:
        """End measuring. What was measured is kept."""
        self._stop.set()
        self._thread.join()
        self._probe.close()
        self._write()

    def _run(self) -> None:
        batches = 0
        try:
            while not self._stop.is_set():
                self._probe.send()
                self._stop.wait(BATCH_S)
                lateness_ns = self._probe.receive()
                with self._lock:
                    for each_ns in lateness_ns:
                        self._record.add(_hour(), each_ns)
                batches += 1
                if batches % _BATCHES_KEPT == 0:
                    self._write()
        except OSError as error:
            LOG.warning("how late gates wake up is no longer measured: %s", error)

    def _write(self) -> None:
        with self._lock:
            kept = {"boot-id": boot_id(), "hours": self._record.encode()}
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            whole_file.replace(self._path, json.dumps(kept).encode(), durable=False)
        except OSError as error:
            LOG.warning("a restarted agent will not know these wake-ups: %s", error)


def monitored(path: Path) -> WakeUpMonitor | None:
    """A monitor; None, and a line in the log, where this kernel lets nothing be measured."""
    try:
        return WakeUpMonitor(path)
    except ProbeRefused as refusal:
        LOG.warning("how late gates wake up cannot be measured: %s", refusal)
        return None


def _read(path: Path) -> WakeUpRecord:
    """What was kept since this machine has booted; nothing where that cannot be read."""
    try:
        with path.open("rb") as file:
            kept = json.loads(file.read(_FILE_MAX_OCTETS))
        return WakeUpRecord.decode(kept["hours"] if kept["boot-id"] == boot_id() else {})
    except FileNotFoundError:
        return WakeUpRecord()
    # RecursionError: brackets nested a thousand deep.
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        LOG.warning("%s is ignored and will be replaced: %r", path, error)
        return WakeUpRecord()


def _hour() -> int:
    return int(time.clock_gettime(time.CLOCK_BOOTTIME)) // _HOUR_S
