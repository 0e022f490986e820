"""Who makes room in a worker whose places are all taken."""

from __future__ import annotations

from cnc.service.web.guests import CONNECTIONS_MAX_OF_HOST, Guest, Guests

MOST = 512


def filled(guests: Guests) -> list[Guest]:
    """All places, by hosts that have as many as one may."""
    hosts = [number // CONNECTIONS_MAX_OF_HOST for number in range(MOST)]
    found = [guests.enter(f"192.0.2.{host}") for host in hosts]
    assert all(found)
    return [each for each in found if each]


def test_who_makes_a_connection_for_each_that_is_closed_drives_out_itself_alone() -> None:
    guests = Guests(MOST)
    ended: list[Guest] = []
    for each in filled(guests):
        each.end = lambda its=each: (ended.append(its), its.leave())
    other = guests.enter("198.51.100.1")
    assert other
    for _ in range(2 * MOST):
        again = guests.enter(ended[-1].host)
        assert again
        again.end = lambda its=again: (ended.append(its), its.leave())
    assert other not in ended
    assert len(set(ended)) == len(ended) == 2 * MOST + 1


def test_who_has_shown_a_token_makes_no_room() -> None:
    guests = Guests(MOST)
    for each in filled(guests):
        each.knows_a_token()
    assert guests.enter("198.51.100.1") is None
