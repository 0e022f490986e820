"""What a document says of second copies that switches take out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cnc.keys.keys import Keys, Level
from cnc.keys.problems import KeyPath, Problems
from cnc.keys.units import DURATION
from cnc.mechanisms.frer.keys import DefaultsKeys, StreamKeys
from cnc.mechanisms.frer.model import HISTORY_LENGTH_MAX
from cnc.model import Elimination, Forwarding, Intent, Link, Stream

if TYPE_CHECKING:
    from cnc.keys import shape


def _of_stream(stream: Stream, its: shape.Stream, document: shape.Document) -> Stream:
    """Who takes out its second copies; of one that is sent once, nobody needs to."""
    if stream.paths == 1:
        return stream
    stated = its[StreamKeys].elimination or document.defaults[DefaultsKeys].elimination
    return replace(stream, elimination=stated) if stated else stream


def _written(stream: Stream, document: Mapping[str, Any]) -> Mapping[str, Any]:
    is_stated = "elimination" in document.get("defaults", {})
    if stream.paths == 1 or (stream.elimination is Elimination.LISTENER and not is_stated):
        return {}
    return {"elimination": str(stream.elimination)}


def _stated(document: shape.Document) -> Iterator[tuple[KeyPath, object]]:
    if of_all := document.defaults[DefaultsKeys].elimination:
        yield ("defaults", "elimination"), of_all
    for name, stream in document.streams.items():
        if its := stream[StreamKeys].elimination:
            yield ("streams", name, "elimination"), its


def _check(document: shape.Document, intent: Intent, problems: Problems) -> None:
    """Add to `problems` what keeps switches from taking out second copies."""
    if intent.network.forwarding is Forwarding.ROUTED:
        problems.refuse_routed(_stated(document))
        return
    stated = document.defaults[DefaultsKeys].elimination
    if stated and all(stream.paths == 1 for stream in intent.streams.values()):
        problems.add(
            ("defaults", "elimination"), f"{stated}, and no stream with two paths", "one, or no key"
        )
    uplinks: defaultdict[str, list[Link]] = defaultdict(list)
    for link in intent.network.links.values():
        if link.source.node in intent.network.end_stations:
            uplinks[link.source.node].append(link)
    for name, stream in intent.streams.items():
        path = ("streams", name, "elimination")
        if (its := document.streams[name][StreamKeys].elimination) and stream.paths == 1:
            problems.add(path, f"{its}, and one path, on which no copy is", "paths: 2, or no key")
        if stream.elimination is Elimination.SWITCH:
            for found, expected in _obstacles(intent, stream, uplinks):
                problems.add(path, f"switch, and {found}", f"{expected}, or elimination: listener")


def _obstacles(
    intent: Intent, stream: Stream, uplinks: dict[str, list[Link]]
) -> Iterator[tuple[str, str]]:
    """Why switches cannot eliminate duplicates of a stream, and what they need."""
    stations = {stream.talker: "talker", **dict.fromkeys(stream.listeners, "listener")}
    for name, role in stations.items():
        links = uplinks.get(name, [])
        if len(links) > 1:
            does = "sends a copy by each" if role == "talker" else "may get a copy by each"
            yield f"{role} {name} with {len(links)} links, which {does}", f"a {role} with one link"
        elif links and links[0].target.node not in intent.network.bridges:
            yield f"{role} {name} without a switch", f"a {role} with one link, to a switch"
    at = {name: links[0].target.node for name, links in uplinks.items() if len(links) == 1}
    first = at.get(stream.talker)
    for listener in stream.listeners:
        if first is not None and at.get(listener) == first:
            yield (
                f"listener {listener} at {first}, the switch of talker {stream.talker}",
                "listeners at other switches than that which numbers the frames",
            )
    apart_ns = stream.max_latency_ns + intent.network.clock_error_ns
    apart = stream.frames * (apart_ns // stream.period_ns + 1)
    if apart > HISTORY_LENGTH_MAX:
        least = "a shorter max-latency, a longer period or fewer frames"
        yield (
            f"up to {apart} frames within max-latency {DURATION.format(stream.max_latency_ns)}",
            f"at most {HISTORY_LENGTH_MAX}, whose numbers a switch remembers: {least}",
        )


KEYS = Keys(
    {Level.DEFAULTS: DefaultsKeys, Level.STREAM: StreamKeys},
    of_stream=_of_stream,
    written=_written,
    check=_check,
)
