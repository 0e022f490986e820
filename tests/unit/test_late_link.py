"""The link that holds and delivers, and what its rows say."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from cnc.model import NS_PER_S, Management
from cnc.rollout.timing import MIN_LEAD_NS
from tests.fault.late import cases
from tests.fault.late_table import LateRow, from_json, summary, to_markdown
from tests.fault.link import HoldingLink, Way
from tests.fault.moments import Moment
from tests.fault.table import Recovery, to_json

TIMEOUT_S = 30
SOUND = LateRow(
    number=1,
    step="cnc: before commit confirmed",
    way=Way.LINK,
    moment=Moment.AFTER_BASE_TIME,
    has_held=True,
    is_in_time=True,
    delivered_ns=NS_PER_S // 2,
    has_committed=True,
    struck_took_it=False,
    struck_refused_it=True,
    controller_exit=1,
    recovery=Recovery.NONE,
    is_at_rest=True,
    ports_on_old=9,
    ports_on_new=0,
    ports_on_neither=0,
    rollout_ids=1,
    mixed_ns=0,
)


@pytest.fixture
def switch() -> Iterator[socket.socket]:
    """Where a switch listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(TIMEOUT_S)
        yield listener


@pytest.fixture
def link(switch: socket.socket) -> Iterator[HoldingLink]:
    with HoldingLink(free_place(), Management(*switch.getsockname())) as link:
        yield link


def free_place() -> Management:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return Management(*free.getsockname())


def connected(link: HoldingLink) -> socket.socket:
    return socket.create_connection((link.here.address, link.here.port), TIMEOUT_S)


def has_come(link: HoldingLink) -> None:
    """Wait until the link holds something."""
    deadline_s = time.monotonic() + TIMEOUT_S
    while not link.has_held and time.monotonic() < deadline_s:
        time.sleep(0.01)


def accepted(switch: socket.socket) -> socket.socket:
    server, _ = switch.accept()
    server.settimeout(TIMEOUT_S)
    return server


def test_what_is_not_held_passes_both_ways_to_the_end(link, switch):
    with connected(link) as client:
        with accepted(switch) as server:
            client.sendall(b"rpc")
            assert server.recv(9) == b"rpc"
            server.sendall(b"reply")
            assert client.recv(9) == b"reply"
        assert client.recv(9) == b""
    assert not link.release()


def test_what_was_held_comes_in_order_and_before_the_end_of_a_connection_that_was_reset(
    link, switch
):
    with connected(link) as client, accepted(switch) as server:
        link.hold(Way.CONNECTION)
        client.sendall(b"comm")
        server.sendall(b"answers pass")
        assert client.recv(99) == b"answers pass"
        client.sendall(b"it")
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()  # which resets it
        server.settimeout(0.1)
        with pytest.raises(TimeoutError):
            server.recv(9)
        server.settimeout(TIMEOUT_S)
        assert link.release()
        assert b"".join(iter(lambda: server.recv(9), b"")) == b"commit"


def test_a_new_connection_passes_where_only_the_open_ones_are_held(link, switch):
    with connected(link), accepted(switch):
        link.hold(Way.CONNECTION)
        with connected(link) as client, accepted(switch) as server:
            client.sendall(b"hello")
            assert server.recv(9) == b"hello"


def test_without_an_open_connection_the_next_one_is_held(link, switch):
    link.hold(Way.CONNECTION)
    with connected(link) as first, accepted(switch) as held, connected(link) as second:
        with accepted(switch) as passing:
            first.sendall(b"first")
            second.sendall(b"second")
            assert passing.recv(9) == b"second"
        has_come(link)
        assert link.release()
        assert held.recv(9) == b"first"


def test_where_the_link_is_held_neither_an_answer_nor_a_new_connection_passes(link, switch):
    with connected(link) as client, accepted(switch) as server:
        client.sendall(b"rpc")
        assert server.recv(9) == b"rpc"
        link.hold(Way.LINK)
        server.sendall(b"reply")
        with connected(link) as late:
            late.sendall(b"hello")
            switch.settimeout(0.1)
            with pytest.raises(TimeoutError):
                switch.accept()
            client.settimeout(0.1)
            with pytest.raises(TimeoutError):
                client.recv(9)
            assert link.release()
            switch.settimeout(TIMEOUT_S)
            client.settimeout(TIMEOUT_S)
            assert client.recv(9) == b"reply"
            with accepted(switch) as server_of_late:
                assert server_of_late.recv(9) == b"hello"


def test_what_is_held_is_delivered_when_the_moment_says():
    held_ns, base_time_ns = 1_000 * NS_PER_S, 1_005 * NS_PER_S
    instants_ns = [moment.instant_ns(held_ns, base_time_ns) for moment in list(Moment)[:3]]
    assert held_ns < instants_ns[0] < instants_ns[1] < base_time_ns < instants_ns[2]
    assumed_ns = Moment.AFTER_BASE_TIME.instant_ns(held_ns, None)
    assert assumed_ns > held_ns + MIN_LEAD_NS


def test_every_rpc_is_held_in_every_way_and_delivered_at_every_moment():
    chosen = cases(["cnc: before connect", "cnc: before commit confirmed"])
    assert len({(case.step, case.way, case.moment) for case in chosen}) == 2 * 2 * 4
    assert [case.number for case in chosen] == list(range(1, 17))


@pytest.mark.parametrize(
    "changed",
    [
        {"has_held": False},
        {"is_in_time": False},
        {"is_at_rest": False},
        {"ports_on_new": 3, "ports_on_old": 6},
        {"ports_on_neither": 1, "ports_on_old": 8},
        {"rollout_ids": 2},
        {"mixed_ns": 1},
    ],
    ids=", ".join,
)
def test_a_row_that_was_not_met_or_left_two_schedules_or_had_both_in_force_is_not_sound(changed):
    assert SOUND.is_sound
    row = replace(SOUND, **changed)
    assert not row.is_sound
    assert "**" in to_markdown([row])


def test_both_schedules_may_be_in_force_only_until_an_operator_has_chosen():
    row = replace(SOUND, mixed_ns=8 * NS_PER_S, recovery=Recovery.ROLLBACK, rollout_ids=2)
    assert row.is_sound
    assert not replace(row, rollout_ids=3).is_sound
    assert "| old, `--rollback`, mixed for 8.0 s |" in to_markdown([row])


def test_the_summary_counts_no_row_that_was_not_met():
    rows = [
        SOUND,
        replace(
            SOUND,
            number=2,
            mixed_ns=3 * NS_PER_S,
            struck_took_it=True,
            struck_refused_it=False,
        ),
        replace(SOUND, number=3, is_in_time=False),
        replace(SOUND, number=4, has_committed=False, struck_refused_it=True),
    ]
    said = summary(rows)
    assert said.startswith("4 rows, 1 of them not counted")
    assert "In 2 the rollout reached the commit; in 1 the struck switch took it" in said
    assert "in 2 it refused it as too late" in said
    assert "in force in 1, for 3.0 s at most" in said


def test_rows_survive_json():
    rows = [SOUND, replace(SOUND, number=2, delivered_ns=None, recovery=Recovery.RESUME)]
    assert from_json(to_json(rows)) == rows
