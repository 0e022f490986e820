"""What the lab models of the chain's network, and whether its links bear the other frames."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import permutations

from cnc.model import ClassRole, Intent, Link, Network
from cnc.testbed.lab import wires
from cnc.testbed.lab.addressing import next_hops, way
from cnc.testbed.traffic.echo.run import DSCP, IP_VERSION
from cnc.testbed.traffic.flows import Flow, cbr_period_ns, flow_of_class

DRIFT = 0.02  # of the period


def round_trip_ns(network: Network, one: str, other: str, packet_octets: int) -> int:
    """A frame there and back between two stations, as emulated, where nothing else is sent."""
    links = [*way(network, one, other), *way(network, other, one)]
    return sum(wires.travel_ns(network, link, packet_octets) for link in links)


def cut_off(network: Network, stations: Sequence[str]) -> tuple[str, str] | None:
    """Two of the stations of which the first cannot reach the second, if there are any."""
    return next(
        (
            (one, other)
            for one, other in permutations(stations, 2)
            if one not in next_hops(network, other)
        ),
        None,
    )


def others(
    intent: Intent, stations: Sequence[str], rate_bps: int, packet_octets: int, seed: int
) -> list[Flow]:
    """Packets at a constant rate from each station to each other one.

    Phases and periods are drawn by seed, the latter within DRIFT: of equal ones the phases would
    stay as they are, and so a command that waits for one frame would always meet the same others
    on its way back.
    """
    if rate_bps == 0:
        return []
    chance = random.Random(seed)  # noqa: S311  repeatable, not a secret
    period_ns = cbr_period_ns(rate_bps, packet_octets)
    return [
        replace(
            flow_of_class(intent, ClassRole.BEST_EFFORT, ends, packet_octets, period_ns),
            ip_version=IP_VERSION,
            dscp=DSCP,
            period_ns=round(period_ns * chance.uniform(1 - DRIFT, 1 + DRIFT)),
            offset_ns=int(chance.random() * period_ns),
        )
        for ends in permutations(stations, 2)
    ]


def overloaded(network: Network, flows: Sequence[Flow]) -> Iterator[tuple[Link, float]]:
    """The links that are offered all that they carry or more, and what part of it they are."""
    offered: dict[Link, float] = defaultdict(float)
    for flow in flows:
        for link in way(network, flow.talker, flow.listener):
            offered[link] += network.occupation_ns(link, flow.payload_octets) / flow.period_ns
    yield from ((link, load) for link, load in offered.items() if load >= 1)
