"""Compares what the talkers of an end station are to be told with what they are told."""

from __future__ import annotations

from cnc.data_tree.tree import PortReport, TalkerReport
from cnc.model import StoredPort, TalkerStream, TalkerStreams, TalkerTable
from cnc.support.format import duration
from cnc.support.wording import named

_Streams = dict[tuple[str, int], TalkerStream]


def configured_difference(desired: TalkerStreams, stored: StoredPort) -> str | None:
    """The streams that are not configured as desired, in words; None when all are."""
    configured = previous(desired, stored)
    if desired == configured:
        return None
    before, after = _by_key(configured), _by_key(desired)
    words = [
        *(f"{_name(key)} {_moved(before[key], after[key])}" for key in _common(before, after)),
        *(f"{_name(key)} is new" for key in sorted(after.keys() - before.keys())),
        *(f"{_name(key)} ends" for key in sorted(before.keys() - after.keys())),
    ]
    return f"its talkers: {named(words)}"


def previous(_asked: TalkerStreams, stored: StoredPort) -> TalkerStreams:
    """The streams that are configured."""
    table = stored.get(TalkerTable)
    return table.configuration if table else TalkerStreams()


def drifted(desired: TalkerStreams, stored: StoredPort, report: PortReport | None) -> str | None:
    """The first difference of what is published from what is stored, as text; None if equal."""
    table = stored.get(TalkerTable)
    return talker_difference(desired, report, table.base_time_ns if table else None)


def talker_difference(
    desired: TalkerStreams,
    report: PortReport | None,
    base_time_ns: int | None,
) -> str | None:
    """The first difference of what is published from what is desired, as text; None if equal.

    Without a `base_time_ns` any is accepted.
    """
    if report is None:
        return "the station has no such port"
    newest = report[TalkerReport].newest
    if newest is None:
        return "no offsets are published" if desired.streams else None
    if newest.configuration != desired:
        before, after = _by_key(newest.configuration), _by_key(desired)
        differing = [*_common(before, after), *sorted(before.keys() ^ after.keys())]
        return f"other offsets are published: {named(map(_name, differing))}"
    if base_time_ns is not None and newest.base_time_ns != base_time_ns:
        return f"base time is {newest.base_time_ns} ns, expected {base_time_ns} ns"
    return None


def difference_since(before: PortReport, now: PortReport) -> str | None:
    """Whether other offsets are published than before, as text; None: they are the same."""
    if before[TalkerReport].newest != now[TalkerReport].newest:
        return "other offsets are published to its talkers than before"
    return None


def _by_key(configuration: TalkerStreams) -> _Streams:
    return {(stream.name, stream.path): stream for stream in configuration.streams}


def _common(before: _Streams, after: _Streams) -> list[tuple[str, int]]:
    """The streams of both that are not the same."""
    return sorted(key for key in before.keys() & after.keys() if before[key] != after[key])


def _name(key: tuple[str, int]) -> str:
    name, path = key
    return name if path == 1 else f"{name} (path {path})"


def _moved(before: TalkerStream, after: TalkerStream) -> str:
    words = []
    if before.offset_ns != after.offset_ns:
        words.append(f"moves from {duration(before.offset_ns)} to {duration(after.offset_ns)}")
    if before.address != after.address:
        words.append(f"is sent to {after.address or 'an IP address'}")
    return " and ".join(words) or "changes"
