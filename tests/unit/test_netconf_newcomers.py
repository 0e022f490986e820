"""Who gets one of the places for connections that have not logged in yet."""

from __future__ import annotations

import pytest

from agent.netconfd.front.newcomers import Newcomers, drop_probability
from agent.netconfd.front.source import Source
from tests.unit.netconf_limits import limits

PLACES = 8


class Places:
    """Connections by their address; those that were closed are gone.

    `draw` is the server's next random number: with 0.999 next to nothing is dropped at random.
    """

    def __init__(self):
        self.draw = 0.999
        self.limits = limits(max_unauthenticated=PLACES)
        self._newcomers = Newcomers(lambda: self.draw)
        self.open = []

    def connect(self, address, count=1):
        """How many of them got a place."""
        return sum(self._connect(address) for _ in range(count))

    def _connect(self, address):
        connection = Connection(address, self)
        admitted = self._newcomers.admit(connection, address, self.limits)
        if admitted:
            self.open.append(connection)
        return admitted

    def log_in(self, address):
        """The first of this address has a session now."""
        connection = next(each for each in self.open if each.address == address)
        self._newcomers.remove(connection)
        self.open.remove(connection)

    def held_by(self, address):
        return sum(each.address == address for each in self.open)


class Connection:
    def __init__(self, address, places):
        self.address = address
        self._places = places

    def give_way(self):
        self._places.open.remove(self)


@pytest.fixture
def places():
    return Places()


def test_one_address_may_take_all_places_and_no_more(places):
    assert places.connect("192.0.2.1", PLACES + 3) == PLACES
    assert len(places.open) == PLACES


@pytest.mark.parametrize("attackers", [1, 2, 3, PLACES])
def test_however_many_addresses_share_all_places_another_one_gets_in(places, attackers):
    for number in range(attackers):
        places.connect(f"192.0.2.{number}", PLACES)
    assert places.connect("198.51.100.1") == 1
    # and stays while they come again, one connection for each that was closed
    for number in range(attackers):
        if places.held_by(f"192.0.2.{number}"):
            places.connect(f"192.0.2.{number}", PLACES)
    assert places.held_by("198.51.100.1") == 1
    assert len(places.open) == PLACES


def test_of_many_addresses_with_one_place_each_the_oldest_gives_way(places):
    for number in range(PLACES):
        places.connect(f"192.0.2.{number}")
    places.connect("198.51.100.1")
    assert not places.held_by("192.0.2.0")
    # it has the time in which as many others come
    for number in range(PLACES, 2 * PLACES - 1):
        places.connect(f"192.0.2.{number}")
    assert places.held_by("198.51.100.1") == 1


def test_who_logs_in_leaves_the_place_to_others(places):
    places.connect("192.0.2.1", PLACES)
    places.log_in("192.0.2.1")
    assert places.connect("192.0.2.1", 2) == 1


def test_the_addresses_of_one_ipv6_network_are_one(places):
    for number in range(PLACES):
        places.connect(f"2001:db8::{number:x}")
    assert places.connect("2001:db8::ffff:1") == 0
    assert places.connect("2001:db8:0:1::1") == 1
    assert places.connect("fe80::1%eth0") == 1


def test_ipv4_addresses_are_told_apart_on_a_socket_for_both(places):
    assert places.connect("::ffff:192.0.2.1", PLACES) == PLACES
    assert places.connect("::ffff:192.0.2.2") == 1


def test_a_network_block_gets_no_more_than_its_share_however_many_addresses_it_uses(places):
    for number in range(PLACES):
        places.connect(f"192.0.2.{number}")
    assert places.connect("198.51.100.1", PLACES) == PLACES // 2
    # each further address of the large block takes the place of one of its own
    for number in range(100, 100 + PLACES):
        places.connect(f"192.0.2.{number}")
    assert places.held_by("198.51.100.1") == PLACES // 2


def test_within_a_block_the_host_with_most_places_gives_way(places):
    places.connect("192.0.2.1", PLACES - 1)
    places.connect("192.0.2.2")
    assert places.connect("192.0.2.3") == 1
    assert places.held_by("192.0.2.1") == PLACES - 2
    assert places.held_by("192.0.2.2") == 1


@pytest.mark.parametrize(
    ("prefixes", "one", "other", "is_one_block"),
    [
        ({}, "192.0.2.1", "192.0.2.254", True),
        ({}, "192.0.2.1", "192.0.3.1", False),
        ({"source_prefix_ipv4": 16}, "192.0.2.1", "192.0.3.1", True),
        ({"source_prefix_ipv4": 32}, "192.0.2.1", "192.0.2.254", False),
        ({}, "::ffff:192.0.2.1", "192.0.2.254", True),
        ({}, "2001:db8:0:1::1", "2001:db8:0:ff::1", True),
        ({}, "2001:db8:0:1::1", "2001:db8:0:100::1", False),
        ({"source_prefix_ipv6": 48}, "2001:db8:0:1::1", "2001:db8:0:100::1", True),
        ({"source_prefix_ipv6": 64}, "2001:db8:0:1::1", "2001:db8:0:2::1", False),
        ({}, "fe80::1%eth0", "fe80::2%eth1", True),
        ({}, "somewhere", "elsewhere", False),
    ],
)
def test_the_length_of_the_prefix_says_what_is_one_block(prefixes, one, other, is_one_block):
    configured = limits(**prefixes)
    assert (Source.of(one, configured).block == Source.of(other, configured).block) is is_one_block


@pytest.fixture
def half_full(places):
    """Places that are dropped at random from four of eight on, with 30 percent at first."""
    places.limits = limits(max_unauthenticated=PLACES, unauthenticated_drop_start=4)
    assert places.connect("192.0.2.1", 4) == 4
    return places


@pytest.mark.parametrize(("draw", "admitted"), [(0.29, 0), (0.31, 1)])
def test_the_host_with_most_places_is_dropped_at_random_before_all_are_taken(
    half_full, draw, admitted
):
    half_full.draw = draw
    assert half_full.connect("192.0.2.1") == admitted
    assert len(half_full.open) == 4 + admitted


def test_others_are_not_dropped_at_random_and_nobody_gives_way_to_them_early(half_full):
    half_full.draw = 0.0
    assert half_full.connect("198.51.100.1") == 1
    assert half_full.connect("192.0.2.2") == 1
    assert half_full.held_by("192.0.2.1") == 4


def test_drops_become_certain_when_all_places_are_taken():
    configured = limits(unauthenticated_drop_start=100, max_unauthenticated=128)
    assert [drop_probability(taken, configured) for taken in (100, 114, 128, 200)] == (
        pytest.approx([0.3, 0.65, 1, 1])
    )
    early = limits(unauthenticated_drop_start=500, max_unauthenticated=128)
    assert drop_probability(128, early) == 1


def test_where_drops_never_begin_early_all_places_can_be_taken(places):
    places.draw = 0.0
    places.limits = limits(max_unauthenticated=PLACES, unauthenticated_drop_start=PLACES)
    assert places.connect("192.0.2.1", 2 * PLACES) == PLACES
