"""How far the clock was from its time transmitter's in the last seconds, asked once a second."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from agent.kernel import ptp
from agent.kernel.ptp_management import Domain
from agent.model import PtpStatus

PERIOD_S = 1.0
WINDOW_S = 10


@dataclass(frozen=True, slots=True)
class ManagedClock:
    """The ptp4l that sets the clock: the number of its instance, its socket and its domain."""

    instance: int
    address: str
    domain: Domain


@dataclass(frozen=True, slots=True)
class Measured:
    """`offset_max_ns` is the greatest distance in the last `seconds`, of `WINDOW_S` at most, in
    which the clock has followed without a gap; None where it does not follow. A grandmaster is
    0 ns from itself."""

    offset_max_ns: int | None = None
    seconds: int = 0


class ClockMonitor:
    """Asks one ptp4l from `follow` on; without one it does not wake up."""

    def __init__(
        self,
        ask: Callable[[ManagedClock], PtpStatus | None] | None = None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ask = ask or _status
        self._now_s = now_s
        self._clock: ManagedClock | None = None
        self._status: PtpStatus | None = None
        self._readings: deque[tuple[float, int]] = deque()
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._closed = False
        self._thread: threading.Thread | None = None

    def follow(self, clock: ManagedClock | None) -> None:
        """Ask this ptp4l from now on; None: none. The same one again changes nothing."""
        if clock == self._clock:
            return
        with self._lock:
            self._clock, self._status = clock, None
            self._readings.clear()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="clock", daemon=True)
            self._thread.start()
        self._wake.set()

    @property
    def clock(self) -> ManagedClock | None:
        """The one that is asked."""
        return self._clock

    @property
    def status(self) -> PtpStatus | None:
        """What it said last; None where it does not answer."""
        return self._status

    def measured(self) -> Measured:
        with self._lock:
            if not self._readings:
                return Measured()
            (first_s, _), (last_s, _) = self._readings[0], self._readings[-1]
            worst_ns = max(abs(offset_ns) for _, offset_ns in self._readings)
            return Measured(worst_ns, min(WINDOW_S, round(last_s - first_s)))

    def read(self) -> None:
        """Ask once, and keep what was answered."""
        clock = self._clock
        if clock is None:
            return
        status, now_s = self._ask(clock), self._now_s()
        with self._lock:
            if clock != self._clock:
                return
            self._status = status
            if status is None or not status.is_locked:
                self._readings.clear()
                return
            self._readings.append((now_s, status.offset_from_master_ns or 0))
            while self._readings[0][0] < now_s - WINDOW_S - PERIOD_S / 2:
                self._readings.popleft()

    def close(self) -> None:
        self._closed = True
        self._wake.set()
        if self._thread:
            self._thread.join()

    def _run(self) -> None:
        while not self._closed:
            self._wake.clear()
            self.read()
            self._wake.wait(PERIOD_S if self._clock else None)


def _status(clock: ManagedClock) -> PtpStatus | None:
    return ptp.status((clock.address,), (clock.domain,))
