"""Whether the network has the routes that streams state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from cnc.keys.problems import Problems, one_of, shown
from cnc.model import Intent, Network, Stream
from cnc.support.format import counted

_Cables = Counter[tuple[str, str]]
"""How many lead from one node to another."""


def check_routes(intent: Intent, problems: Problems) -> None:
    """Add what is wrong with the routes of streams to `problems`."""
    routed = [stream for stream in intent.streams.values() if stream.routes]
    links = intent.network.links.values() if routed else ()
    cables = Counter((link.source.node, link.target.node) for link in links)
    for stream in routed:
        for found, expected in _wrong(stream, intent.network, cables):
            problems.add(("streams", stream.name, "route"), found, expected)


def _wrong(stream: Stream, network: Network, cables: _Cables) -> Iterator[tuple[str, str]]:
    """What is found, and what is expected."""
    unknown = [name for route in stream.routes for name in route if name not in network.bridges]
    if miscounted := _miscounted(stream):
        yield miscounted
    elif unknown:
        yield shown(unknown[0]), f"a switch: {one_of(network.bridges, unknown[0])}"
    else:
        yield from _cut(stream, cables)
        yield from _shared(stream, cables) if stream.paths > 1 else _meeting(stream)


def _miscounted(stream: Stream) -> tuple[str, str] | None:
    """That there are not as many routes as listeners, or paths; None: there are."""
    routes, listeners = (
        counted(len(stream.routes), "route"),
        counted(len(stream.listeners), "listener"),
    )
    if stream.paths > 1 and len(stream.listeners) > 1:
        found = f"{routes}, {stream.paths} paths and {listeners}"
        return found, "one listener, or no route: the plan finds two trees to several"
    if len(stream.routes) != (wanted := len(_ends(stream))):
        each = "path" if stream.paths > 1 else "listener"
        return routes, f"{wanted}, one for each {each}"
    return None


def _ends(stream: Stream) -> tuple[str, ...]:
    """To whom each route leads."""
    return stream.listeners * stream.paths


def _cut(stream: Stream, cables: _Cables) -> Iterator[tuple[str, str]]:
    """The routes that no cables lead along, or more than once through one switch."""
    for route, listener in zip(stream.routes, _ends(stream), strict=True):
        if again := [name for name, count in Counter(route).items() if count > 1]:
            yield f"{again[0]} twice in {_way(route)}", "each switch once in a route"
        for one, other in pairwise((stream.talker, *route, listener)):
            if not cables[one, other]:
                yield _way(route), f"a cable from {one} to {other}, or another route"


def _meeting(stream: Stream) -> Iterator[tuple[str, str]]:
    """The switches to which frames for two listeners come by two ways."""
    entered: dict[str, str] = {}
    for route in stream.routes:
        for one, other in pairwise((stream.talker, *route)):
            if (first := entered.setdefault(other, one)) != one:
                found = f"{_way(route)}, by which frames come to {other} from {one}"
                yield (
                    f"{found}, and from {first} by another",
                    "routes to several listeners that part once, and do not meet again",
                )


def _shared(stream: Stream, cables: _Cables) -> Iterator[tuple[str, str]]:
    """The links between switches that two paths would have to share."""
    crossed = Counter(ends for route in stream.routes for ends in pairwise(route))
    for (one, other), count in crossed.items():
        if 0 < cables[one, other] < count:
            yield f"the cable {one} - {other} in both routes", "two paths that share no such cable"


def _way(route: tuple[str, ...]) -> str:
    return " - ".join(route)
