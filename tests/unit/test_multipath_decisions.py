"""Which paths a connection has, by what is configured and measured: the functions alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.mechanisms.multipath.decisions.buffers import total_octets
from agent.mechanisms.multipath.decisions.classify import Features, classified
from agent.mechanisms.multipath.decisions.data_limit import Use, used
from agent.mechanisms.multipath.decisions.download import is_download
from agent.mechanisms.multipath.decisions.exclusions import is_reachable, unfit
from agent.mechanisms.multipath.decisions.heat import is_hot
from agent.mechanisms.multipath.decisions.on_demand import Demand, Measured, Playback, step
from agent.mechanisms.multipath.decisions.policy import (
    Application,
    ConnectionMode,
    Download,
    Heat,
    OnDemand,
    PathPolicy,
    Policy,
    Reading,
    S,
    Source,
)
from agent.mechanisms.multipath.decisions.radio import Radio, is_poor
from agent.mechanisms.multipath.decisions.roles import Decided, Role, Situation, roles
from agent.mechanisms.multipath.decisions.score import ranked

MB, MBPS = 1_000_000, 1_000_000
PATHS = (PathPolicy("eth0"), PathPolicy("wwan0", is_backup=True))
MODES = st.sampled_from(ConnectionMode)
OCTETS = st.integers(0, 2**40)


def application(name="app", mode=ConnectionMode.RELIABILITY, **its):
    return Application(
        name, mode, **{key: frozenset(v) if key in SETS else v for key, v in its.items()}
    )


SETS = ("uids", "cgroups", "remote_ports")


# The classifier.


def test_what_the_user_says_holds_before_the_operator():
    by_operator = application("radio", ConnectionMode.HASSLE_FREE, uids={1001})
    by_user = application("mine", ConnectionMode.SINGLE_PATH, source=Source.USER, uids={1001})
    policy = Policy(ConnectionMode.DOWNLOAD, PATHS, (by_operator, by_user))
    found = classified(Features(1001, 443), policy)
    assert (found.mode, found.why) == (ConnectionMode.SINGLE_PATH, "application mine of the user")


@pytest.mark.parametrize(
    ("features", "mode"),
    [
        (Features(1001, 443, "video.slice"), ConnectionMode.RELIABILITY),
        (Features(1002, 443, "video.slice"), ConnectionMode.HASSLE_FREE),
        (Features(1001, 80, "video.slice"), ConnectionMode.HASSLE_FREE),
        (Features(1001, 443), ConnectionMode.HASSLE_FREE),
    ],
)
def test_an_application_has_connections_that_agree_with_all_of_its_conditions(features, mode):
    narrow = application(uids={1001}, remote_ports={443, 8443}, cgroups={"video.slice"})
    policy = Policy(ConnectionMode.HASSLE_FREE, PATHS, (narrow,))
    assert classified(features, policy).mode is mode


CONDITIONS = {
    "uids": st.frozensets(st.integers(0, 2), max_size=2),
    "remote_ports": st.frozensets(st.integers(80, 81), max_size=2),
    "cgroups": st.frozensets(st.sampled_from(["a", "b"]), max_size=1),
}
APPLICATIONS = st.lists(
    st.builds(
        Application,
        st.text(max_size=2),
        MODES,
        st.sampled_from(Source),
        **CONDITIONS,
    ),
    max_size=4,
)


@given(
    APPLICATIONS,
    st.builds(Features, st.integers(0, 2), st.integers(80, 81), st.sampled_from([None, "a", "b"])),
)
def test_every_connection_has_one_mode_and_the_first_application_that_agrees(listed, features):
    policy = Policy(ConnectionMode.HASSLE_FREE, PATHS, tuple(listed))
    found = classified(features, policy)
    agreeing = [
        each
        for source in Source
        for each in listed
        if each.source is source
        and (not each.uids or features.uid in each.uids)
        and (not each.remote_ports or features.remote_port in each.remote_ports)
        and (not each.cgroups or features.cgroup in each.cgroups)
    ]
    assert found.application == next(iter(agreeing), None)
    assert found.mode is (agreeing[0].mode if agreeing else ConnectionMode.HASSLE_FREE)


# Algorithm 1.


def measured(ahead_s, first_mbps, all_mbps=None, media_mbps=8, duration_s=None):
    everything = first_mbps if all_mbps is None else all_mbps
    rates = (int(each * MBPS) for each in (first_mbps, everything, media_mbps))
    duration_ns = None if duration_s is None else duration_s * S
    return Measured(int(ahead_s * S), *rates, duration_ns)


def opened(demand, policy, its, available=3):
    return step(demand, policy, its, available, 0).opened


@pytest.mark.parametrize(
    ("ahead_s", "first_mbps", "paths"),
    [
        (0, 8, 0),  # C = 1
        (0, 7.999, 1),
        (9.999, 6, 1),
        (10, 6, 0),  # BR = Th
    ],
)
def test_a_further_path_is_opened_below_c_1_and_below_the_threshold(ahead_s, first_mbps, paths):
    assert opened(Demand(10 * S), OnDemand(), measured(ahead_s, first_mbps)) == paths


def test_paths_are_opened_until_all_together_carry_the_medium():
    demand = Demand(10 * S, opened=1)
    assert opened(demand, OnDemand(), measured(0, 3, all_mbps=7.9)) == 2
    assert opened(demand, OnDemand(), measured(0, 3, all_mbps=8)) == 1
    assert opened(demand, OnDemand(), measured(0, 3, all_mbps=7.9), available=1) == 1


def test_as_printed_the_threshold_doubles_up_to_half_of_the_medium():
    policy, demand, thresholds = OnDemand(reading=Reading.PRINTED), Demand(10 * S), []
    for _ in range(4):
        demand = step(demand, policy, measured(0, 1, duration_s=120), 9, 0)
        thresholds.append(demand.threshold_ns // S)
    assert thresholds == [20, 40, 60, 60]


def test_as_claimed_the_threshold_stays_and_a_path_goes_at_the_removal_threshold():
    demand = step(Demand(10 * S), OnDemand(), measured(0, 6), 1, 7)
    assert (demand.threshold_ns, demand.opened, demand.since_ns) == (10 * S, 1, 7)
    assert demand.why == "0.0 s are loaded ahead, less than 10 s, and C is 0.75"
    assert opened(demand, OnDemand(), measured(19.999, 6, 13)) == 1
    assert opened(demand, OnDemand(), measured(20, 6, 13)) == 0


def test_as_printed_a_path_goes_at_the_threshold_of_now():
    policy = OnDemand(reading=Reading.PRINTED)
    demand = Demand(40 * S, opened=1)
    assert opened(demand, policy, measured(39.999, 6, 13)) == 1
    assert opened(demand, policy, measured(40, 6, 13)) == 0


RATES = st.integers(0, 20 * MBPS)


@given(
    st.sampled_from(Reading),
    st.builds(Demand, st.integers(1, 100 * S), st.integers(0, 3)),
    st.builds(Measured, st.integers(0, 200 * S), RATES, RATES, st.integers(1, 20 * MBPS)),
    st.integers(0, 3),
)
def test_a_step_is_one_path_at_most_and_never_beyond_what_there_is(reading, demand, its, available):
    after = step(demand, OnDemand(reading=reading), its, available, 1)
    assert abs(after.opened - demand.opened) <= 1
    assert 0 <= after.opened <= max(available, demand.opened)
    if max(its.first_path_bps, its.all_paths_bps) >= its.media_rate_bps:
        assert after.opened <= demand.opened


def test_playback_stands_still_while_nothing_is_loaded():
    playing = Playback(0, 0, 0).after(3 * MB, 1 * S, 8 * MBPS)
    assert playing.ahead_ns == 2 * S  # 3 s of the medium in 1 s
    assert playing.after(3 * MB, 9 * S, 8 * MBPS).ahead_ns == 0
    assert playing.after(3 * MB, 9 * S, 8 * MBPS).after(4 * MB, 9 * S, 8 * MBPS).ahead_ns == 1 * S


# Algorithm 2.


@pytest.mark.parametrize(
    ("octets", "active_ns", "why"),
    [
        (20 * MB, 30 * S, None),
        (20 * MB + 1, 0, "more than 20000000 octets have come"),
        (0, 30 * S + 1, "data have come for more than 30 s"),
    ],
)
def test_a_download_is_larger_or_longer_than_the_thresholds(octets, active_ns, why):
    assert is_download(octets, active_ns, Download()) == why


@given(OCTETS, st.integers(0, 10**12), OCTETS, st.integers(0, 10**12))
def test_a_download_remains_one(octets, active_ns, more_octets, more_ns):
    if is_download(octets, active_ns, Download()):
        assert is_download(octets + more_octets, active_ns + more_ns, Download())


# Algorithm 3.

RADIO = PathPolicy("wlan0", radio_technologies=frozenset({"he", "eht"}), minimum_signal_dbm=-70)


@pytest.mark.parametrize(
    ("radio", "why"),
    [
        (Radio("he", -70), None),
        (Radio("he", -71), "its signal is -71 dBm, less than -70"),
        (Radio("ht", -30), "its radio link has ht"),
        (Radio(None, None), None),
    ],
)
def test_a_path_is_a_backup_while_its_radio_link_is_none_of_the_configured(radio, why):
    assert is_poor(RADIO, radio) == why


def test_without_conditions_no_radio_link_is_poor():
    assert is_poor(PathPolicy("wlan0"), Radio("legacy", -99)) is None


# Algorithm 4.

HEAT = Heat("cpu", 45_000, 42_000)


@pytest.mark.parametrize(
    ("was_hot", "millicelsius", "hot"),
    [
        (False, 44_999, False),
        (False, 45_000, True),
        (True, 42_000, True),
        (True, 41_999, False),
        (True, None, False),
    ],
)
def test_a_machine_is_hot_from_one_level_until_below_another(was_hot, millicelsius, hot):
    assert is_hot(was_hot, millicelsius, HEAT) is hot


def test_without_a_level_no_machine_is_hot():
    assert not is_hot(True, 200_000, None)


# Data limit, exclusions, score, buffers.

LIMITED = PathPolicy("wwan0", limit_octets=10 * MB, warn_percent=80)


@pytest.mark.parametrize(
    ("octets", "use"),
    [
        (0, Use.WITHIN),
        (8 * MB - 1, Use.WITHIN),
        (8 * MB, Use.WARNED),
        (10 * MB, Use.WARNED),
        (10 * MB + 1, Use.EXCEEDED),
        (None, Use.WITHIN),
    ],
)
def test_a_data_limit_may_be_used_up_and_not_exceeded(octets, use):
    assert used(LIMITED, octets) is use


@given(st.integers(1, 2**40), st.integers(1, 100), OCTETS, OCTETS)
def test_what_is_used_up_of_a_limit_never_becomes_less(limit, percent, octets, more):
    path = PathPolicy("p", limit_octets=limit, warn_percent=percent)
    assert used(path, octets) <= used(path, octets + more)
    assert (used(path, octets) is Use.EXCEEDED) == (octets > limit)


@pytest.mark.parametrize(
    ("name", "kind", "why"),
    [
        ("eth0", None, None),
        ("eth0", "veth", None),
        ("clat4", "tun", "it translates IPv4 to IPv6"),
        ("vpn0", "wireguard", "it is a tunnel (wireguard)"),
        ("br0", "bridge", "it is a bridge"),
    ],
)
def test_tunnels_translations_and_bridges_are_no_paths(name, kind, why):
    found = unfit(name, kind)
    assert found is None if why is None else found.startswith(why)


def test_subflows_stay_within_a_family_of_addresses():
    assert is_reachable("10.0.0.1", "10.0.0.2")
    assert is_reachable("2001:db8::1", "2001:db8::2")
    assert not is_reachable("10.0.0.1", "2001:db8::2")


def test_the_path_with_the_highest_rate_is_opened_first_and_one_without_a_rate_last():
    rates = {"a": None, "b": 100, "c": 200}
    assert ranked(["a", "b", "c", "d"], rates) == ["c", "b", "a", "d"]


@pytest.mark.parametrize(
    ("of_paths", "octets"), [((8, 4), 12), ((8, 8), 12), ((4,), 4), ((8, 4, 8), 12)]
)
def test_a_buffer_is_that_of_all_paths_up_to_the_maximum(of_paths, octets):
    assert total_octets((each * MB for each in of_paths), 12 * MB) == octets * MB


# Modes.


FIRST = Situation("eth0")


def decided(mode, its=FIRST, *, hot=False):
    found = roles(mode, PATHS, its, {}, hot=hot)
    return {name: each.role for name, each in found.items()}


@pytest.mark.parametrize(
    ("mode", "role"),
    [
        (ConnectionMode.HASSLE_FREE, Role.ACTIVE),
        (ConnectionMode.RELIABILITY, Role.BACKUP),
        (ConnectionMode.LOW_LATENCY, Role.ACTIVE),
        (ConnectionMode.SINGLE_PATH, Role.ABSENT),
        (ConnectionMode.ON_DEMAND, Role.ABSENT),
        (ConnectionMode.DOWNLOAD, Role.ABSENT),
    ],
)
def test_the_mode_of_a_connection_decides_what_a_backup_is_for(mode, role):
    assert decided(mode) == {"eth0": Role.ACTIVE, "wwan0": role}


def test_what_a_connection_does_opens_a_path_that_its_mode_has_not():
    on_demand = Situation("eth0", further=["wwan0"], why_further="C is 0.75")
    found = roles(ConnectionMode.ON_DEMAND, PATHS, on_demand, {}, hot=False)
    assert found["wwan0"] == Decided(Role.ACTIVE, "C is 0.75")
    download = Situation("eth0", download="more than 1 octets have come")
    found = roles(ConnectionMode.DOWNLOAD, PATHS, download, {}, hot=False)
    assert found["wwan0"] == Decided(Role.ACTIVE, "more than 1 octets have come")


def test_a_demoted_path_is_a_backup_and_says_why():
    found = roles(
        ConnectionMode.HASSLE_FREE, PATHS, Situation("eth0"), {"wwan0": "its limit"}, hot=False
    )
    assert found["wwan0"] == Decided(Role.BACKUP, "its limit")


def test_a_connection_that_began_by_a_backup_keeps_it():
    first = Situation("wwan0")
    assert decided(ConnectionMode.SINGLE_PATH, first)["wwan0"] is Role.ACTIVE
    assert decided(ConnectionMode.RELIABILITY, first)["wwan0"] is Role.BACKUP
    assert decided(ConnectionMode.ON_DEMAND, first, hot=True)["wwan0"] is Role.ACTIVE


NAMES = ("a", "b", "c")


SOME = st.sets(st.sampled_from(NAMES))
SITUATIONS = st.builds(
    Situation, st.sampled_from(NAMES), SOME, st.just(""), st.sampled_from([None, "it is one"])
)


@given(MODES, SOME, SITUATIONS, SOME, st.booleans())
def test_every_path_has_one_role_in_every_situation(mode, backups, situation, demoted, hot):
    paths = [PathPolicy(name, is_backup=name in backups) for name in NAMES]
    first = situation.first
    found = roles(mode, paths, situation, dict.fromkeys(demoted, "demoted"), hot=hot)
    assert found.keys() == set(NAMES)
    assert found[first].role is not Role.ABSENT
    assert all(found[name].role is not Role.ACTIVE for name in demoted)
    for other in found.keys() - {first}:
        assert not hot or found[other].role is Role.ABSENT
    assert all(each.why for each in found.values() if each.role is Role.ABSENT)


def test_the_order_of_paths_decides_nothing():
    for mode in ConnectionMode:
        both = [
            roles(mode, each, Situation("eth0"), {}, hot=False) for each in (PATHS, PATHS[::-1])
        ]
        assert both[0] == both[1]
