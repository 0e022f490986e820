"""What is known of a sound plan, for the parts of the next one that rules are asked about."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable

from cnc.account.frames import Transmission
from cnc.check.streams import travel_through
from cnc.check.whole import Judgement
from cnc.model import PortRef

Frames = tuple[Transmission, ...]
"""Those of one stream, on all links or on one."""


class Known:
    """A sound plan by what rules look at.

    `lists` are those of its ports, and `travel` how frames go through them; `periods` has how many
    streams repeat so often. `users` are the streams with an address. `frames` are those of a
    stream, `leaving` those that leave by a port, by stream. `entering` are the streams that come
    from their talkers to a switch, `ports` the ports of a switch.
    """

    def __init__(self, judged: Judgement) -> None:
        self.plan = plan = judged.plan
        self.lists = dict(judged.lists)
        self.travel = travel_through(plan.intent, self.lists)
        self.periods = Counter(its.period_ns for its in plan.intent.streams.values())
        users = plan.streams_by_address().items()
        self.users = defaultdict(set, {address: {*names} for address, names in users})
        of_stream: defaultdict[str, list[Transmission]] = defaultdict(list)
        for t in judged.transmissions:
            of_stream[t.stream].append(t)
        self.frames: dict[str, Frames] = {name: tuple(its) for name, its in of_stream.items()}
        self.leaving: defaultdict[PortRef, dict[str, Frames]] = defaultdict(dict)
        self.entering: defaultdict[str, set[str]] = defaultdict(set)
        for name, frames in self.frames.items():
            for port, its in by_port(frames).items():
                self.leaving[port][name] = its
            for switch in first_nodes(frames):
                self.entering[switch].add(name)
        self.ports: defaultdict[str, list[PortRef]] = defaultdict(list)
        for port in plan.intent.network.links:
            self.ports[port.node].append(port)


def by_port(frames: Iterable[Transmission]) -> dict[PortRef, Frames]:
    """Frames of a stream by the port that they leave by."""
    found: defaultdict[PortRef, list[Transmission]] = defaultdict(list)
    for t in frames:
        found[t.egress].append(t)
    return {port: tuple(its) for port, its in found.items()}


def first_nodes(frames: Collection[Transmission]) -> set[str]:
    """Where they come to from their talker."""
    return {t.target for t in frames if t.ingress is None}
