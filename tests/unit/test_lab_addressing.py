"""Addresses and routes of an emulated network."""

from __future__ import annotations

import pytest

from cnc.errors import InputError
from cnc.model import Bridge, EndStation, Intent, Link, Management, Network, PortRef
from cnc.testbed.lab.addressing import (
    addresses,
    cables,
    management,
    next_hops,
    port_addresses,
    routes,
)

RING = ("a/eth0 s1/a", "b/eth0 s2/b", "c/eth0 s3/c", "s1/s2 s2/s1", "s2/s3 s3/s2", "s3/s1 s1/s3")


def intent(*joins: str, managed: dict[str, str] | None = None) -> Intent:
    """Cables written `node/port node/port`; nodes called s… are switches."""
    links = {}
    for join in joins:
        one, other = (PortRef(*end.split("/")) for end in join.split())
        links[one] = Link(one, other, 1_000_000_000, 100)
        links[other] = Link(other, one, 1_000_000_000, 100)
    nodes = sorted({port.node for port in links})
    chosen = managed or {n: f"10.99.0.{i}" for i, n in enumerate(nodes, 1) if n.startswith("s")}
    bridges = {
        name: Bridge(name, 1_000, 5_000, Management(chosen[name]) if name in chosen else None)
        for name in nodes
        if name.startswith("s")
    }
    stations = {name: EndStation(name) for name in nodes if not name.startswith("s")}
    return Intent("ring", Network(bridges, stations, links, 1_000), {}, {}, {})


def test_every_cable_is_a_subnet_of_its_own_in_both_families():
    ring = intent(*RING)
    ports = port_addresses(ring.network)
    subnets = set()
    for one, other in cables(ring.network):
        for version in ("v4", "v6"):
            ends = [getattr(ports[end], version) for end in (one, other)]
            assert ends[0].network == ends[1].network
            assert ends[0].ip != ends[1].ip
            subnets.add(ends[0].network)
    assert len(subnets) == 2 * len(RING)
    assert len({found.mac for found in ports.values()}) == 2 * len(RING)


def test_more_cables_than_fit_one_octet_still_get_addresses_of_their_own():
    many = intent(*(f"h{n}/eth0 s1/p{n}" for n in range(300)))
    ports = port_addresses(many.network)
    assert len({found.v4.ip for found in ports.values()}) == 600
    assert len({found.mac for found in ports.values()}) == 600


def test_addresses_do_not_depend_on_the_order_of_the_file():
    assert addresses(intent(*RING)) == addresses(intent(*reversed(RING)))


@pytest.mark.parametrize("version", [4, 6])
def test_a_packet_that_follows_the_routes_takes_the_shortest_path(version: int):
    ring = intent(*RING)
    owners = {
        getattr(found, f"v{version}").ip: port.node
        for port, found in port_addresses(ring.network).items()
    }
    for source in ring.network.end_stations:
        for target in ring.network.end_stations:
            if source == target:
                continue
            wanted = addresses(ring)[target].of_version(version)
            path = [source]
            while path[-1] != target:
                path.append(step(ring, path[-1], wanted, owners))
            assert len(path) == 4  # station, two neighbouring switches, station


def step(ring: Intent, node: str, wanted, owners) -> str:
    """The next node of a packet: a host route's gateway, else the far end of a cable."""
    for route in routes(ring, node):
        if route.destination == wanted:
            assert (
                owners[route.gateway] == ring.network.links[PortRef(node, route.port)].target.node
            )
            return owners[route.gateway]
    neighbours = {
        link.target.node for port, link in ring.network.links.items() if port.node == node
    }
    assert owners[wanted] in neighbours
    return owners[wanted]


def test_an_end_station_with_two_cables_forwards_nothing():
    shortcut = intent("a/l s1/a", "a/r s3/a", "s1/s2 s2/s1", "s2/s3 s3/s2", "b/eth0 s3/b")
    assert next_hops(shortcut.network, "b")["s1"].target.node == "s2"


def test_the_controller_takes_a_management_address_no_switch_has():
    plan = management(
        intent(*RING, managed={"s1": "10.9.0.254", "s2": "10.9.0.2", "s3": "10.9.0.3"})
    )
    assert str(plan.controller) == "10.9.0.253/24"
    assert str(plan.switches["s2"]) == "10.9.0.2/24"


def test_management_addresses_may_be_ipv6():
    plan = management(intent(*RING, managed={"s1": "fd01::1", "s2": "fd01::2", "s3": "fd01::3"}))
    assert plan.controller.network == plan.switches["s1"].network
    assert plan.controller.ip not in {found.ip for found in plan.switches.values()}


@pytest.mark.parametrize(
    ("managed", "words"),
    [
        ({"s1": "10.99.0.1", "s2": "10.99.0.2"}, "switch s3 has no management address"),
        ({"s1": "10.99.0.1", "s2": "10.98.0.2", "s3": "10.99.0.3"}, "several subnets"),
        ({"s1": "sw1.example", "s2": "10.99.0.2", "s3": "10.99.0.3"}, "'sw1.example' is a host"),
        ({"s1": "10.200.0.1", "s2": "10.200.0.2", "s3": "10.200.0.3"}, "overlaps"),
    ],
)
def test_switches_the_lab_cannot_reach_are_refused(managed: dict[str, str], words: str):
    with pytest.raises(InputError, match=words):
        management(intent(*RING, managed=managed))
