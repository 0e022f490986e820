"""The kernel's text of a trace, read strictly.

The text has what each event says, and when to the microsecond. The raw form has the nanoseconds,
and nothing that an event says. Both have the same events in the same order.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from cnc.errors import CncError

NET_DEV_QUEUE, NETIF_RX = "net/net_dev_queue", "net/netif_rx"
SCHED_WAKING, SCHED_SWITCH = "sched/sched_waking", "sched/sched_switch"
EVENTS = (NET_DEV_QUEUE, NETIF_RX, SCHED_WAKING, SCHED_SWITCH)

_NS_PER_US = 1_000
_US_PER_S = 1_000_000
_STAMP = re.compile(r"(\d+) (\d+) (\d+) type: (\d+)\n")
_LINE = re.compile(r" *.*-(\d+) +\[(\d+)\] \S+ +(\d+)\.(\d{6}): (\w+): (.*)\n")
_FRAME = re.compile(r"dev=(\S+) skbaddr=(\S+) len=\d+")
_WAKING = re.compile(r"comm=.* pid=(\d+) prio=\d+ target_cpu=\d+")
_SWITCH = re.compile(
    r"prev_comm=.* prev_pid=(\d+) prev_prio=\d+ prev_state=\S+ "
    r"==> next_comm=.* next_pid=(\d+) next_prio=\d+"
)
_FIELDS = {
    NET_DEV_QUEUE: _FRAME,
    NETIF_RX: _FRAME,
    SCHED_WAKING: _WAKING,
    SCHED_SWITCH: _SWITCH,
}
_BY_NAME = {event.split("/")[1]: event for event in EVENTS}


class Event(NamedTuple):
    """An event: when (TAI), which of EVENTS, and what it says: device and address of a frame;
    the process that is woken; or the process that ran until then, and the one that does now."""

    time_ns: int
    name: str
    fields: tuple[str, ...]


class Stamps:
    """When which event was, of a raw trace. `ids` are the numbers of EVENTS.

    Raises:
        CncError: a line is something else.
    """

    def __init__(self, lines: Iterable[str], ids: Mapping[int, str]) -> None:
        self.times_ns = array("q")
        self._kinds = array("B")
        self._processes = array("q")
        for number, line in _numbered(lines):
            found = _STAMP.fullmatch(line)
            kind = ids.get(int(found[4])) if found else None
            if not found or kind is None:
                raise _refused(number, line, "process, processor, nanoseconds and type of an event")
            self.times_ns.append(int(found[3]))
            self._kinds.append(EVENTS.index(kind))
            self._processes.append(int(found[1]))

    def __len__(self) -> int:
        return len(self.times_ns)

    def has(self, place: int, event: str, process: int, time_us: int) -> bool:
        """Whether that is what the event at this place is, and when."""
        if place >= len(self):
            return False
        rounded_us = (self.times_ns[place] + _NS_PER_US // 2) // _NS_PER_US
        found = EVENTS[self._kinds[place]], self._processes[place], rounded_us
        return found == (event, process, time_us)


def events(stamps: Stamps, lines: Iterable[str]) -> Iterator[Event]:
    """The events of a text whose nanoseconds are in `stamps`, one at a time.

    Raises:
        CncError: a line is no event of EVENTS, or not the one of which the raw trace has the time.
    """
    place = 0
    for number, line in _numbered(lines):
        found = _LINE.fullmatch(line)
        event = _BY_NAME.get(found[5]) if found else None
        fields = _FIELDS[event].fullmatch(found[6]) if found and event else None
        if not found or event is None or fields is None:
            raise _refused(number, line, f"an event of {', '.join(_BY_NAME)}")
        time_us = int(found[3]) * _US_PER_S + int(found[4])
        if not stamps.has(place, event, int(found[1]), time_us):
            raise _refused(number, line, "the event of which the raw trace has the time")
        yield Event(stamps.times_ns[place], event, fields.groups())
        place += 1
    if place < len(stamps):
        raise CncError(f"the kernel's trace ends after {place} of {len(stamps)} events")


def _numbered(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Lines with their numbers, from 1, without those of the head."""
    return ((n, line) for n, line in enumerate(lines, 1) if not line.startswith("#"))


def _refused(number: int, line: str, expected: str) -> CncError:
    return CncError(f"the kernel's trace, line {number}: found {line!r}, expected {expected}")
