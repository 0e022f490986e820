"""Which hosts the server refuses, for what, and for how long."""

from __future__ import annotations

import logging
from ipaddress import ip_network

import pytest

from agent.netconfd.front.penalties import Offence, Penalties
from agent.netconfd.front.trusted_hosts import MAX_TRUSTED_HOSTS, TRUST_S, TrustedHosts
from tests.unit.netconf_limits import limits

OFFENDER, NEIGHBOUR, SHARED = "192.0.2.1", "192.0.2.200", "192.0.2.201"


class Server:
    """Penalties by a clock that a test sets, with limits that it may change."""

    def __init__(self, directory):
        self.now_s = 1000.0
        self.limits = limits()
        self.trusted_file = directory / "trusted-hosts"
        self.start()

    def start(self):
        """As a front that starts anew."""
        trusted = TrustedHosts(self.trusted_file, lambda: self.now_s)
        self.penalties = Penalties(lambda: self.limits, trusted, lambda: self.now_s)

    def suffers(self, offence, count=1, address=OFFENDER):
        for _ in range(count):
            self.penalties.penalise(address, offence)

    def refuses(self, address):
        return self.penalties.refuses(address)

    def refused_for_s(self, address):
        """How long it goes on, in whole seconds, up to 1000."""
        begin_s = self.now_s
        while self.refuses(address) and self.now_s < begin_s + 1000:
            self.now_s += 1
        return self.now_s - begin_s


@pytest.fixture
def server(tmp_path):
    return Server(tmp_path)


def test_a_host_is_refused_once_its_penalties_exceed_the_minimum(server):
    server.suffers(Offence.FAILED_LOGIN, 3)
    assert not server.refuses(OFFENDER), "15 s are not more than 15 s"
    server.suffers(Offence.FAILED_LOGIN)
    assert server.refuses(OFFENDER)


def test_a_neighbour_is_not_refused_for_what_a_host_does(server):
    server.suffers(Offence.FAILED_LOGIN, 100)
    assert server.refuses(OFFENDER)
    assert not server.refuses(NEIGHBOUR), "an operator's first login may come from there"


def test_the_addresses_of_one_ipv6_network_are_one_host(server):
    server.suffers(Offence.SESSION_FAILURE, address="2001:db8::1")
    assert server.refuses("2001:db8::ffff:1")
    assert not server.refuses("2001:db8:0:1::1")


@pytest.mark.parametrize(
    ("offence", "count", "refused_s"),
    [
        (Offence.FAILED_LOGIN, 4, 20),
        (Offence.NO_LOGIN, 2, 20),
        (Offence.ACCESS_REFUSED, 2, 20),
        (Offence.SESSION_FAILURE, 1, 30),
    ],
)
def test_each_offence_has_its_penalty_and_ends(server, offence, count, refused_s):
    server.suffers(offence, count - 1)
    assert not server.refuses(OFFENDER)
    server.suffers(offence)
    assert server.refused_for_s(OFFENDER) == refused_s


@pytest.mark.parametrize(
    ("name", "offence"),
    [
        ("failed_login_s", Offence.FAILED_LOGIN),
        ("no_login_s", Offence.NO_LOGIN),
        ("access_refused_s", Offence.ACCESS_REFUSED),
        ("session_failure_s", Offence.SESSION_FAILURE),
    ],
)
def test_each_penalty_is_configured_and_0_means_none(server, name, offence):
    server.limits = limits(**{name: 100})
    server.suffers(offence)
    assert server.refused_for_s(OFFENDER) == 100
    server.limits = limits(**{name: 0})
    server.suffers(offence, 100)
    assert not server.refuses(OFFENDER)


def test_penalties_run_off_while_they_add_up(server):
    for _ in range(100):
        server.suffers(Offence.FAILED_LOGIN)
        server.now_s += 5
    assert not server.refuses(OFFENDER), "a failed login each 5 s is a person"


def test_penalties_add_up_to_no_more_than_the_maximum(server):
    server.suffers(Offence.SESSION_FAILURE, 1000)
    assert server.refused_for_s(OFFENDER) == 600
    server.limits = limits(max_s=40)
    server.suffers(Offence.SESSION_FAILURE, 1000)
    assert server.refused_for_s(OFFENDER) == 40


def test_a_penalty_that_is_enforced_ends_with_its_last_second_and_not_at_the_minimum(server):
    server.suffers(Offence.SESSION_FAILURE)
    server.now_s += 29
    assert server.refuses(OFFENDER)
    server.now_s += 1
    assert not server.refuses(OFFENDER)
    server.suffers(Offence.FAILED_LOGIN)
    assert not server.refuses(OFFENDER), "what has run off counts no more"


def test_the_switch_itself_and_exempt_networks_have_no_penalties(server):
    for address in ("127.0.0.1", "::1", "::ffff:127.0.0.1"):
        server.suffers(Offence.SESSION_FAILURE, 9, address)
        assert not server.refuses(address)
    assert not server.refuses("127.0.0.2")
    server.suffers(Offence.SESSION_FAILURE, 1, "127.0.0.2")
    assert server.refuses("127.0.0.2")
    server.limits = limits(exempt=(ip_network("127.0.0.0/8"),))
    assert not server.refuses("127.0.0.2")


def test_who_may_commit_is_not_refused_for_what_others_do_on_the_same_host(server):
    server.penalties.trust(SHARED)
    for offence in Offence:
        server.suffers(offence, 100, SHARED)
    assert not server.refuses(SHARED)


def test_trust_ends_a_day_after_the_last_login(server):
    server.penalties.trust(SHARED)
    server.now_s += TRUST_S - 1
    server.penalties.trust(SHARED)
    server.now_s += TRUST_S - 1
    server.suffers(Offence.SESSION_FAILURE, address=SHARED)
    assert not server.refuses(SHARED)
    server.now_s += 1
    server.suffers(Offence.SESSION_FAILURE, address=SHARED)
    assert server.refuses(SHARED)


def test_who_may_commit_is_trusted_by_the_next_front_before_the_next_login(server):
    server.penalties.trust(SHARED)
    server.now_s += 60
    server.start()
    server.suffers(Offence.SESSION_FAILURE, 20, SHARED)
    assert not server.refuses(SHARED)
    server.now_s += TRUST_S - 60
    server.start()
    server.suffers(Offence.SESSION_FAILURE, 20, SHARED)
    assert server.refuses(SHARED)


def test_hosts_that_log_in_often_are_written_down_now_and_then(server):
    server.penalties.trust(SHARED)
    written = server.trusted_file.stat().st_mtime_ns, server.trusted_file.read_bytes()
    for _ in range(60):
        server.now_s += 59
        server.penalties.trust(SHARED)
    assert written == (server.trusted_file.stat().st_mtime_ns, server.trusted_file.read_bytes())
    server.now_s += 3600
    server.penalties.trust(SHARED)
    assert server.trusted_file.read_bytes() != written[1]


@pytest.mark.parametrize("content", [b"", b"[]", b'{"192.0.2.200": "x"}', b"\xff", b"{" * 99_999])
def test_a_file_of_trusted_hosts_that_cannot_be_read_is_told_and_replaced(server, content, caplog):
    server.trusted_file.write_bytes(content)
    server.start()
    assert "trusted hosts are not known" in caplog.text
    server.penalties.trust(SHARED)
    server.start()
    server.suffers(Offence.SESSION_FAILURE, address=SHARED)
    assert not server.refuses(SHARED)


def test_a_disk_that_takes_no_file_costs_only_what_is_written(server, caplog):
    server.trusted_file.with_suffix(".new").mkdir()
    server.penalties.trust(SHARED)
    assert "trusted hosts are not written" in caplog.text
    server.suffers(Offence.SESSION_FAILURE, address=SHARED)
    assert not server.refuses(SHARED)


def test_a_clock_that_was_set_back_makes_no_trust_longer(server):
    server.penalties.trust(SHARED)
    server.now_s -= 3 * TRUST_S
    server.start()
    server.suffers(Offence.SESSION_FAILURE, address=SHARED)
    server.now_s += 1
    assert not server.refuses(SHARED)
    server.now_s += TRUST_S
    server.suffers(Offence.SESSION_FAILURE, address=SHARED)
    assert server.refuses(SHARED)


def test_trusted_hosts_are_bounded_and_the_longest_away_goes_first(server):
    server.penalties.trust("192.0.2.1")
    server.penalties.trust("192.0.2.2")
    server.penalties.trust("192.0.2.1")
    for number in range(MAX_TRUSTED_HOSTS - 2):
        server.penalties.trust(f"10.0.{number // 256}.{number % 256}")
    server.penalties.trust("192.0.2.3")
    hosts = [f"192.0.2.{number}" for number in (1, 2, 3)]
    for host in hosts:
        server.suffers(Offence.SESSION_FAILURE, address=host)
    refused = [server.refuses(host) for host in hosts]
    assert refused == [False, True, False]


def test_hosts_are_bounded_and_the_penalty_that_ends_first_goes_first(server):
    server.limits = limits(max_hosts=3)
    for number in range(4):
        server.suffers(Offence.SESSION_FAILURE, address=f"10.0.{number}.1")
        server.now_s += 1
    assert [server.refuses(f"10.0.{number}.1") for number in range(4)] == [False, True, True, True]
    assert server.refused_for_s("10.0.3.1") == 29


def test_the_log_says_once_who_is_refused_for_how_long_and_for_what(server, caplog):
    with caplog.at_level(logging.WARNING):
        server.suffers(Offence.FAILED_LOGIN, 4)
        server.suffers(Offence.NO_LOGIN)
        assert server.refuses(OFFENDER)
    (record,) = caplog.records
    assert record.getMessage() == (
        "connections from 192.0.2.1 are refused for 20 s; last offence: failed login"
    )
