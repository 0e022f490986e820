"""Whether the network could carry each stream at all, before anyone plans."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from math import lcm
from typing import NamedTuple

from cnc.intent.cuts import Cuts
from cnc.intent.routes import check_routes
from cnc.keys.problems import Problems, one_of, shown
from cnc.keys.reach import FastestPaths
from cnc.keys.units import DURATION, SIZE
from cnc.keys.values import CYCLE_MAX_NS
from cnc.mechanisms.terms import added_names, added_octets
from cnc.model import ClassRole, Forwarding, Intent, Link, PortRef, Stream, Windows
from cnc.support.format import counted

_NAMED_MAX = 8  # streams that one problem names

# IP header without options or extensions, and UDP header.
_HEADERS_OCTETS = {4: 20 + 8, 6: 40 + 8}


def check_streams(intent: Intent, problems: Problems) -> None:
    """Add what is wrong with the streams of `intent`, each by itself, to `problems`."""
    for stream in intent.streams.values():
        _check_ends(intent, stream, problems)
        _check_classes(intent, stream, problems)
        _check_payload(intent, stream, problems)
        _check_window(stream, problems)
        _check_jitter(stream, problems)
    check_routes(intent, problems)


def check_room(intent: Intent, problems: Problems) -> None:
    """Add the streams that this network cannot carry, whatever the plan, to `problems`.

    A plan that may leave streams out leaves these out. The network and the streams must be sound:
    else this would only repeat their problems.
    """
    check_ways(intent, problems, FastestPaths(intent.network), Cuts(intent.network))
    _check_access_links(intent, problems)


def _check_ends(intent: Intent, stream: Stream, problems: Problems) -> None:
    stations = intent.network.end_stations
    if stream.talker not in stations:
        expected = one_of(stations, stream.talker)
        problems.add(("streams", stream.name, "talker"), shown(stream.talker), expected)
    for index, listener in enumerate(stream.listeners):
        path = ("streams", stream.name, "listeners", index)
        if listener not in stations:
            problems.add(path, shown(listener), one_of(stations, listener))
        elif listener == stream.talker:
            problems.add(path, f"the talker {listener}", "another end station")
        elif listener in stream.listeners[:index]:
            problems.add(path, f"{listener} again", "each listener once")


def _check_classes(intent: Intent, stream: Stream, problems: Problems) -> None:
    scheduled = [its.name for its in intent.classes_with(ClassRole.SCHEDULED)]
    scheduled += [its.name for its in intent.shaped_classes()]
    if not stream.traffic_classes:
        found = "no class, and none in classes with the role scheduled"
        problems.add(("streams", stream.name), found, "such a class for its frames")
    for index, name in enumerate(stream.traffic_classes):
        path = ("streams", stream.name, "class", index)
        if name not in intent.classes:
            problems.add(path, shown(name), one_of(scheduled, name))
        elif name not in scheduled:
            found = f"{name}, whose role is {intent.classes[name].role}"
            problems.add(path, found, f"a scheduled class, {one_of(scheduled)}")
        elif name in stream.traffic_classes[:index]:
            problems.add(path, f"{name} again", "each class once")


def _check_payload(intent: Intent, stream: Stream, problems: Problems) -> None:
    path = ("streams", stream.name, "payload")
    payload, headers_octets = SIZE.format(stream.payload_octets), _HEADERS_OCTETS[stream.ip_version]
    if stream.ethertype is None and stream.payload_octets < headers_octets:
        headers = f"{SIZE.format(headers_octets)}, the headers of UDP over IPv{stream.ip_version}"
        problems.add(path, payload, f"at least {headers}")
    overhead = intent.network.overhead
    frame_octets = (
        max(stream.payload_octets, overhead.min_payload_octets)
        + overhead.link_layer_octets
        + added_octets(stream)
    )
    added = " and ".join(added_names(stream))
    between = f" with its {added} between switches" if added else ""
    for name in dict.fromkeys(stream.traffic_classes):
        its_class = intent.classes.get(name)
        if its_class and frame_octets > its_class.max_frame_octets:
            problems.add(
                path,
                f"{payload}, which makes a frame of {SIZE.format(frame_octets)}{between}",
                f"a frame of at most {SIZE.format(its_class.max_frame_octets)}, the max-frame of "
                f"class {name}",
            )


def _check_window(stream: Stream, problems: Problems) -> None:
    path, period = ("streams", stream.name, "window"), DURATION.format(stream.period_ns)
    earliest, latest_ns = DURATION.format(stream.earliest_ns), stream.latest_ns
    if stream.earliest_ns >= stream.period_ns:
        problems.add((*path, "earliest"), earliest, f"a time before the period, {period}, is over")
    if latest_ns is not None and not stream.earliest_ns <= latest_ns <= stream.period_ns:
        problems.add(
            (*path, "latest"),
            DURATION.format(latest_ns),
            f"a time from earliest, {earliest}, to the end of the period, {period}",
        )


def _check_jitter(stream: Stream, problems: Problems) -> None:
    """A frame that is in time varies by no more than its latency may: more has no effect. How much
    it varies in a shared window is up to the frames of other streams there."""
    if stream.max_jitter_ns is not None and stream.windows is Windows.SHARED:
        problems.add(
            ("streams", stream.name, "max-jitter"),
            f"{DURATION.format(stream.max_jitter_ns)}, and windows: shared",
            "no max-jitter, or windows: exact for this stream: frames in a shared window leave in "
            "any order, so that only exact windows keep a max-jitter",
        )
    if stream.max_jitter_ns is not None and stream.max_jitter_ns > stream.max_latency_ns:
        problems.add(
            ("streams", stream.name, "max-jitter"),
            DURATION.format(stream.max_jitter_ns),
            f"at most {DURATION.format(stream.max_latency_ns)}, the max-latency, to which arrivals "
            "vary no more",
        )


def check_ways(intent: Intent, problems: Problems, paths: FastestPaths, cuts: Cuts) -> None:
    """Add to `problems` the streams that the network does not lead to every listener, soon enough,
    and apart where frames are sent twice. `paths` and `cuts` are of this network."""
    bridged = intent.network.forwarding is Forwarding.BRIDGED
    for stream in intent.streams.values():
        for index, listener in enumerate(stream.listeners):
            least_ns = paths.latency_ns(stream, listener)
            if least_ns is None:
                problems.add(
                    ("streams", stream.name, "listeners", index),
                    listener,
                    f"an end station that links and switches connect to {stream.talker}",
                )
                continue
            if least_ns > stream.max_latency_ns:
                problems.add(
                    ("streams", stream.name, "max-latency"),
                    DURATION.format(stream.max_latency_ns),
                    f"at least {DURATION.format(least_ns)}, which the fastest path to {listener} "
                    "takes when no other frame is in the way",
                )
            bridge = cuts.only_bridge(stream.talker, listener)
            if stream.paths > 1 and bridge and bridged:
                problems.add(
                    ("streams", stream.name, "paths"),
                    str(stream.paths),
                    f"1: {stream.talker} and {listener} are both at {bridge} alone, which sends "
                    "each frame on to a port once",
                )
            elif stream.paths > 1 and (cut := cuts.between(stream.talker, listener)):
                problems.add(
                    ("streams", stream.name, "paths"),
                    str(stream.paths),
                    f"1, or a way around the cable {cut.source} - {cut.target}, which "
                    f"all paths from {stream.talker} to {listener} cross",
                )


class _Use(NamedTuple):
    """A stream on a link, which it takes for `busy_ns` in each of its periods."""

    stream: Stream
    busy_ns: int


def _check_access_links(intent: Intent, problems: Problems) -> None:
    """The only link of a station carries all its streams, whatever the routes elsewhere."""
    for link, uses in _access_links(intent):
        cycle_ns = lcm(*(use.stream.period_ns for use in uses))
        busy_ns = sum(use.busy_ns * (cycle_ns // use.stream.period_ns) for use in uses)
        if busy_ns > cycle_ns:
            names = [use.stream.name for use in uses]
            more = f" and {len(names) - _NAMED_MAX} more" if len(names) > _NAMED_MAX else ""
            problems.add(
                ("streams", names[-1]),
                f"{busy_ns / cycle_ns:.1%} of {link.source} taken by "
                f"{counted(len(names), 'stream')} ({', '.join(names[:_NAMED_MAX])}{more})",
                "at most 100%: longer periods, smaller payloads or a faster link",
            )
        planned = [use.stream for use in uses if intent.has_instants(use.stream)]
        cycle_ns = lcm(*(stream.period_ns for stream in planned))
        if intent.network.gate_mode(link.source.node) is not None and cycle_ns > CYCLE_MAX_NS:
            _refuse_cycle(link, planned, cycle_ns, problems)


def _access_links(intent: Intent) -> Iterator[tuple[Link, list[_Use]]]:
    """The link to and from each station that has one only, with the streams that cross it."""
    network = intent.network
    uplinks: dict[str, list[Link]] = defaultdict(list)
    for link in network.links.values():
        uplinks[link.source.node].append(link)
    only = {node: links[0] for node, links in uplinks.items() if len(links) == 1}
    uses: dict[PortRef, list[_Use]] = defaultdict(list)
    bridged = network.forwarding is Forwarding.BRIDGED
    for stream in intent.streams.values():
        # A bridge copies the frame of a talker that has no second link to send it on.
        access = []
        if stream.talker in only:
            access.append((only[stream.talker], 1 if bridged else stream.paths))
        access += [
            (network.links[only[node].target], stream.paths)
            for node in stream.listeners
            if node in only
        ]
        for link, copies in access:
            occupation_ns = network.occupation_ns(link, stream.payload_octets)
            uses[link.source].append(_Use(stream, copies * stream.frames * occupation_ns))
    return ((network.links[port], of_link) for port, of_link in uses.items())


def _refuse_cycle(link: Link, streams: list[Stream], cycle_ns: int, problems: Problems) -> None:
    """The gate control list of a port repeats with all streams that leave by it."""
    periods = {stream.period_ns for stream in streams}
    # The offenders: periods without which the others would do; if no one is to blame, all are.
    offenders = {p for p in periods if lcm(*(periods - {p})) <= CYCLE_MAX_NS} or periods
    for stream in streams:
        if stream.period_ns in offenders:
            problems.add(
                ("streams", stream.name, "period"),
                f"{DURATION.format(stream.period_ns)}, with which the streams that leave by "
                f"{link.source} repeat together only every {DURATION.format(cycle_ns)}",
                f"a common cycle of at most {DURATION.format(CYCLE_MAX_NS)} at that port; "
                "periods that divide one another keep it short",
            )
