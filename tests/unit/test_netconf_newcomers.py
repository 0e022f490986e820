"""Who gets one of the places for connections that have not logged in yet."""

from __future__ import annotations

import pytest

from agent.netconfd.front.newcomers import Newcomers

PLACES = 8


class Places:
    """Connections by their address; those that were closed are gone."""

    def __init__(self):
        self._newcomers = Newcomers()
        self.open = []

    def connect(self, address, count=1):
        """How many of them got a place."""
        return sum(self._connect(address) for _ in range(count))

    def _connect(self, address):
        connection = Connection(address, self)
        admitted = self._newcomers.admit(connection, address, PLACES)
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
