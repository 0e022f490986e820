"""The loop of a talker: one departure after the other, as the offsets say by then."""

from __future__ import annotations

import socket
from collections.abc import Iterator

from cnc.talker.clock import NS_PER_S, sleep_until, tai_ns
from cnc.talker.lateness import Lateness
from cnc.talker.launch import LaunchSocket
from cnc.talker.offsets import Departure, OffsetFile, OffsetsError, StreamOffset
from cnc.talker.qdiscs import refuse_launch

# A push tells of a new offset seconds before its base time: who looks again this long before a
# frame is to leave has heard of it. It costs a wake-up more for periods longer than this.
LOOK_AGAIN_NS = NS_PER_S // 2
# How often to look for a stream that is in no table yet, or not any more.
POLL_NS = NS_PER_S // 10


class Talker:
    """One stream of a station, followed through all changes of its offset.

    `skipped` counts periods in which no frame was sent because the program came too late: it had
    other work, or was stopped, for longer than a period. How late it sends in the others is told to
    the agent of the station, if the program may write there: see `sent`.

    With a `lead_ns` departures come so long before their instant, for a program whose frames have a
    time of transmission: see `launching`.
    """

    def __init__(self, file: OffsetFile, stream: str, path: int = 1, *, lead_ns: int = 0) -> None:
        self._file = file
        self._stream = stream
        self._path = path
        self._lateness = Lateness.of(file.path, stream, path)
        self._sent_ns: int | None = None
        self._lead_ns = lead_ns
        self._is_launching = False
        self.skipped = 0

    def wait_until_told(self, timeout_s: float | None = None) -> StreamOffset:
        """The stream as soon as a table has it.

        Raises OffsetsError, also when none has it within `timeout_s`.
        """
        begun_ns = tai_ns()
        while (found := self._next(tai_ns())) is None:
            if timeout_s is not None and tai_ns() - begun_ns >= timeout_s * NS_PER_S:
                raise OffsetsError(
                    f"{self._file.path} has no stream {self._stream}: push a plan with it to this "
                    "station, which needs `management` in the intent"
                )
            sleep_until(tai_ns() + POLL_NS)
        return found.stream

    def departures(self) -> Iterator[Departure]:
        """Each period's departure, at its instant: the caller then sends the frame.

        While no table has the stream it waits for one that has. Raises OffsetsError.
        """
        try:
            yield from self._departures()
        finally:
            self._lateness.write()

    def sent(self) -> None:
        """The frames of this period have been sent.

        Without that they count as sent when the program asks for the next departure. A program that
        does other work in between says so before it.
        """
        self._sent_ns = tai_ns()

    def launching(self, sock: socket.socket) -> LaunchSocket:
        """The socket, for frames that leave at their instants if they are sent before.

        Raises LaunchRefusedError where the kernel would not keep to that, OffsetsError while the
        stream is in no table, and OSError.
        """
        found = self._file.offsets().sender(self._stream, self._path)
        if found is None:
            raise OffsetsError(f"{self._file.path} has no stream {self._stream}")
        interface, stream = found
        launch = LaunchSocket(sock, interface, stream.priority, self._lateness)
        self._is_launching = True
        self._lead_ns += launch.ahead_ns
        return launch

    def refuse_launch(self) -> None:
        """Raise LaunchRefusedError where frames without a time of transmission are discarded."""
        if found := self._file.offsets().sender(self._stream, self._path):
            interface, stream = found
            refuse_launch(interface, stream.priority)

    def _departures(self) -> Iterator[Departure]:
        earliest_ns = tai_ns() + self._lead_ns
        while True:
            departure, now_ns = self._next(earliest_ns), tai_ns() + self._lead_ns
            if departure is None:
                sleep_until(tai_ns() + POLL_NS)
                earliest_ns = tai_ns()
            elif departure.instant_ns - now_ns > LOOK_AGAIN_NS + POLL_NS:
                sleep_until(departure.instant_ns - self._lead_ns - LOOK_AGAIN_NS)
            elif (behind := (now_ns - departure.instant_ns) // departure.stream.period_ns) > 0:
                self.skipped += behind
                earliest_ns = departure.period_begin_ns + behind * departure.stream.period_ns
            else:
                sleep_until(departure.instant_ns - self._lead_ns)
                self._sent_ns = None
                yield departure
                if not self._is_launching:
                    # Not before: reading the clock would make the frame late.
                    sent_ns = tai_ns() if self._sent_ns is None else self._sent_ns
                    self._lateness.add(sent_ns - departure.instant_ns)
                earliest_ns = departure.period_begin_ns + 1

    def _next(self, earliest_ns: int) -> Departure | None:
        return self._file.offsets().departure(self._stream, earliest_ns, self._path)
