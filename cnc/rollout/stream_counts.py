"""What switches have counted of the frames of streams: those that did not come as planned, and the
copies of streams of which switches take out second ones.

Counters have grown since they were set, so that a second look, some time after the first, tells
what goes on from what is past.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from cnc.mechanisms.frer.counts import (
    Path,
    Silence,
    SilentPaths,
    errors_in_words,
    latent_errors,
    recoveries,
    recovery_errors,
)
from cnc.mechanisms.frer.model import Recovery
from cnc.mechanisms.stream_filters.compare import (
    Refused,
    as_planned_before,
    counts_by_place,
    ports_between_plans,
    refused_counts,
    refused_frames,
)
from cnc.mechanisms.stream_filters.model import (
    FilteredStream,
    Policing,
    StreamFilter,
    StreamFilters,
)
from cnc.model import (
    NS_PER_S,
    BridgeForwarding,
    Intent,
    PortSettings,
    StreamAddress,
)
from cnc.switch.counters import PortCounters
from cnc.switch.device import Device, SwitchState
from cnc.switch.tree import BridgeReport, Cause

_LOOK_MIN_NS = NS_PER_S
# What takes longer needs `cnc watch`.
_LOOK_MAX_NS = 10 * NS_PER_S

HINT_TALKERS = (
    "`cnc talkers PLAN` lists when stations are to send; where one may be later than that, "
    "state its `talker-lateness`"
)
HINT_PATHS = "`cnc path STREAM PLAN` follows the copies through what the switches have"


@dataclass(frozen=True, slots=True)
class FilteredFrames:
    """What a stream filter has counted since it was set.

    `stream` is None where it takes frames of no stream with its priority. `frames` are all that it
    has taken; of these `out_of_window` came out of their window or were too many, for which there
    is one counter. `lately` are those of both kinds that came between two looks.
    """

    stream: str | None
    port: str
    priority: int
    policing: Policing
    frames: int
    out_of_window: int
    too_long: int
    lately: int


@dataclass(frozen=True, slots=True)
class Copies:
    """What has become of the copies of a stream that came in by a port of a last switch, since it
    began to take out second ones (802.1CB 10.8).

    `lost` frames have not come by any port. `is_silent`: none comes by this one, while others do.
    `has_latent_error`: the switch has found that copies do not come by all ports (802.1CB 7.4.4);
    None: it does not look for that.
    """

    stream: str
    port: str
    passed: int
    discarded: int
    lost: int
    rogue: int
    is_silent: bool
    has_latent_error: bool | None = None


@dataclass(frozen=True, slots=True)
class StreamCounts:
    """What the filters and recovery functions of a bridge have counted; `past` and `problems` say
    in words what was, and what goes on."""

    filters: tuple[FilteredFrames, ...] = ()
    copies: tuple[Copies, ...] = ()
    past: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()


NO_COUNTS = StreamCounts()


@dataclass(frozen=True, slots=True)
class Look:
    """The state of a switch and the counters of its ports, at about one time."""

    state: SwitchState
    counters: Mapping[str, PortCounters]

    @classmethod
    def at(cls, device: Device, desired: Mapping[str, PortSettings | None]) -> Look:
        """Ask a switch. Raises DeviceError."""
        return cls.beside(device, desired, device.state(desired))

    @classmethod
    def beside(
        cls, device: Device, desired: Mapping[str, PortSettings | None], state: SwitchState
    ) -> Look:
        """Ask a switch of which the state is known. Raises DeviceError."""
        recovers = any(recoveries(its) for its in bridges_of(desired).values())
        return cls(state, device.counters(desired) if recovers else {})


def bridges_of(desired: Mapping[str, PortSettings | None]) -> dict[str, BridgeForwarding]:
    """The bridges among the ports of a switch."""
    return {port: its for port, its in desired.items() if isinstance(its, BridgeForwarding)}


def stream_counts(
    device: Device,
    intent: Intent,
    desired: Mapping[str, PortSettings | None],
    state: SwitchState,
) -> dict[str, StreamCounts]:
    """By bridge of a switch what it has counted; `state` is the first look.

    A second one follows only where frames came otherwise than planned, or copies have to be
    compared. Raises DeviceError.
    """
    bridges = bridges_of(desired)
    if not bridges:
        return {}
    first = Look.beside(device, desired, state)
    second = first
    if wait_ns := max(_wait_ns(intent, name, its, first) for name, its in bridges.items()):
        time.sleep(wait_ns / NS_PER_S)
        second = Look.at(device, desired)
    return {name: compared(name, its, first, second) for name, its in bridges.items()}


def _wait_ns(intent: Intent, bridge: str, desired: BridgeForwarding, look: Look) -> int:
    """After which time a second look can tell more; 0: there is nothing to tell."""
    periods_ns = [
        _until_silent_ns(intent, desired.names.get(address), function)
        for address, function in recoveries(desired).items()
        if any(address in its.recovery for its in look.counters.values())
    ]
    waits_ns = [wait_ns for wait_ns in periods_ns if wait_ns <= _LOOK_MAX_NS]
    report = look.state.ports.get(bridge)
    refused = refused_counts(desired, report.forwarding if report else None)
    return max([*waits_ns, _LOOK_MIN_NS if any(refused.values()) else 0])


def _until_silent_ns(intent: Intent, stream: str | None, function: Recovery) -> int:
    """How long it takes until so many copies have come that those of a slower path are missed."""
    its = intent.streams.get(stream or "")
    if its is None:  # of a former plan
        return _LOOK_MIN_NS
    periods = function.history_length // its.frames + 2
    return max(_LOOK_MIN_NS, periods * its.period_ns)


def compared(bridge: str, desired: BridgeForwarding, first: Look, second: Look) -> StreamCounts:
    """What a bridge has counted by the second of two looks, and what has grown since the first."""
    reports = [look.state.ports.get(bridge) for look in (first, second)]
    forwardings = [report.forwarding if report else None for report in reports]
    before, now = (refused_counts(desired, its) for its in forwardings)
    between = frozenset[str]().union(*map(ports_between_plans, forwardings))
    ignored = as_planned_before(desired, between)
    lately = {key: more for key, more in _grown(before, now).items() if key not in ignored}
    places = {key.place for key in lately}
    past = {key: count for key, count in now.items() if key.place not in places}
    going_on = {key: count for key, count in now.items() if key.place in places}
    paths = SilentPaths()
    paths.update(desired, first.counters)
    silent = paths.update(desired, second.counters)
    errors = _grown(*(recovery_errors(desired, look.counters) for look in (first, second)))
    lost = [*latent_errors(desired, forwardings[1]), *errors_in_words(desired, errors)]
    silences = [
        its.in_words(str(desired.names.get(path.address, path.address)), path.port)
        for path, its in silent.items()
    ]
    hints = list(
        dict.fromkeys(
            _refused_hint(desired[StreamFilters].filters[place]) for place in sorted(places)
        )
    )
    hints += [HINT_PATHS] if silences or lost else []
    return StreamCounts(
        tuple(_filtered(desired, forwardings[1], lately)),
        tuple(_copies(desired, second.counters, silent, forwardings[1])),
        past=tuple(refused_frames(desired, past)),
        problems=(*refused_frames(desired, going_on, lately), *silences, *lost),
        hints=tuple(hints),
    )


def _refused_hint(its: StreamFilter) -> str:
    """What to do about frames that a filter has met and that do not come as planned."""
    if isinstance(its.of, FilteredStream):
        return HINT_TALKERS
    hint = f"find the program that sends on the station at {its.of.port}"
    if its.policing is Policing.COUNT:
        hint += "; `policing: drop` keeps its frames out"
    return hint


_Key = TypeVar("_Key")


def _grown(before: Mapping[_Key, int], now: Mapping[_Key, int]) -> dict[_Key, int]:
    """By how much those counts have grown that have; one that was not there yet has not."""
    more = {key: count - before.get(key, count) for key, count in now.items()}
    return {key: count for key, count in more.items() if count > 0}


def _filtered(
    desired: BridgeForwarding, report: BridgeReport | None, lately: Mapping[Refused, int]
) -> Iterator[FilteredFrames]:
    for place, counts in counts_by_place(desired, report).items():
        its = desired[StreamFilters].filters[place]
        stream = None
        if isinstance(its.of, FilteredStream):
            stream = desired.names.get(StreamAddress.of(its.of))
        yield FilteredFrames(
            stream,
            its.of.port,
            its.priority,
            its.policing,
            frames=counts.matching,
            out_of_window=counts.not_passing,
            too_long=counts.not_passing_sdu,
            lately=sum(lately.get(Refused(place, cause), 0) for cause in Cause),
        )


def _copies(
    desired: BridgeForwarding,
    counters: Mapping[str, PortCounters],
    silent: Mapping[Path, Silence],
    report: BridgeReport | None,
) -> Iterator[Copies]:
    for address, function in recoveries(desired).items():
        found = report.latent_errors.get(address) if report else None
        for port in function.ports:
            counts = counters[port].recovery.get(address) if port in counters else None
            if counts is None:
                continue
            yield Copies(
                desired.names.get(address, str(address)),
                port,
                **{name: counts.get(name, 0) for name in ("passed", "discarded", "lost", "rogue")},
                is_silent=Path(address, port) in silent,
                has_latent_error=found.is_detected if found else None,
            )
