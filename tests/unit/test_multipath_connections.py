"""The path manager of single connections, beside a kernel of a few lines; what it is made from."""

from __future__ import annotations

import json
from dataclasses import replace
from zlib import crc32

import pytest
from pyroute2.netlink.exceptions import NetlinkError
from pyroute2.netlink.nl80211 import nl80211cmd

from agent.datastore.desired import desired_ports
from agent.kernel.mptcp_diag import DiagConnection, DiagSubflow
from agent.kernel.mptcp_events import EventKind, MptcpEvent
from agent.mechanisms import MECHANISMS
from agent.mechanisms.multipath import feeder, path_manager, surroundings
from agent.mechanisms.multipath.connections import Exclusion, PathUse
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
from agent.mechanisms.multipath.decisions.radio import Radio
from agent.mechanisms.multipath.model import MultipathConfig, MultipathState, NodeState
from agent.mechanisms.multipath.surroundings import Gatherer, PathLink, Surroundings
from agent.mechanisms.multipath.tree import operational
from agent.memory_ports import MemoryPorts, rehearsal_ports
from agent.switch import Switch, differences, problems

TOKEN, MS = 7, 1_000_000
FIRST, SECOND, PEER = "10.1.0.2", "10.2.0.2", "10.9.0.1"
PATHS = (PathPolicy("eth0"), PathPolicy("wwan0", is_backup=True))
AROUND = Surroundings({"eth0": [FIRST], "wwan0": [SECOND]}, {}, {}, {}, hot=False)
CONNECTION = DiagConnection(TOKEN, FIRST, PEER, 50_000, 443, uid=1001, cgroup=5)


def subflow(local=FIRST, remote=PEER, **its):
    leaves = {"local_port": 50_000, "remote_port": 443, "id": 0, "is_backup": False, **its}
    return DiagSubflow(TOKEN, local, remote, **leaves)


class Kernel:
    """What the three sockets of the path manager say and do; handshakes take no time."""

    def __init__(self):
        self.listed, self.there = [CONNECTION], {(FIRST, PEER): subflow()}
        self.heard, self.calls, self.refusal, self.is_open = [], [], None, True

    def connections(self):
        return self.listed

    def subflows(self):
        return list(self.there.values())

    def read(self):
        heard, self.heard = self.heard, []
        return heard

    def create_subflow(self, token, local, remote):
        self.calls.append(("create", local.address, remote.address))
        if self.refusal:
            raise self.refusal
        key, backup = (local.address, remote.address), "backup" in local.flags
        leaves = {"id": local.id, "is_backup": backup, "is_open": self.is_open}
        self.there[key] = subflow(*key, local_port=50_000 + len(self.calls), **leaves)

    def destroy_subflow(self, token, local, remote):
        self.calls.append(("destroy", local.address, remote.address))
        del self.there[local.address, remote.address]

    def set_backup(self, token, local, remote):
        key = local.address, remote.address
        self.calls.append(("set", *key))
        self.there[key] = replace(self.there[key], is_backup="backup" in local.flags)

    def announce(self, token, local):
        self.calls.append(("announce", local.address, local.id))

    def carry(self, local, octets):
        key = local, PEER
        its = self.there[key]
        self.there[key] = replace(its, octets_received=its.octets_received + octets)

    def close(self):
        pass


class Manager:
    """The path manager with a clock of its own."""

    def __init__(self):
        self.manager, self.now_ns, self.told = path_manager.PathManager(KERNEL), S, []

    def look(self, policy, around=AROUND, after_ns=250 * MS):
        self.now_ns += after_ns
        events = list(self.manager.look(policy, around, self.now_ns))
        self.told += [each.name for each in events]
        return events

    @property
    def connection(self):
        (found,) = self.manager.connections
        return found

    def reasons(self):
        return {each.interface: each.reason for each in self.connection.subflows}


KERNEL = Kernel()


@pytest.fixture
def manager(monkeypatch, tmp_path):
    KERNEL.__init__()
    monkeypatch.setattr(path_manager, "MptcpDiag", lambda: KERNEL)
    monkeypatch.setattr(path_manager, "MptcpEvents", lambda: KERNEL)
    ports = tmp_path / "ports"
    ports.write_text("32768 60999\n")
    monkeypatch.setattr(path_manager, "EPHEMERAL", ports)
    return Manager()


def policy(mode=ConnectionMode.HASSLE_FREE, *applications, **more):
    return Policy(mode, PATHS, applications, **more)


# One connection.


def test_a_path_is_opened_once_and_says_why(manager):
    for _ in range(2):
        manager.look(policy())
    assert KERNEL.calls == [("create", SECOND, PEER)]
    assert manager.reasons() == {
        "eth0": "the connection began here",
        "wwan0": "mode hassle-free",
    }
    assert manager.told == ["subflow-opened"]


def test_a_mode_of_another_application_closes_the_path(manager):
    manager.look(policy())
    manager.look(policy())
    single = Application("web", ConnectionMode.SINGLE_PATH, remote_ports=frozenset({443}))
    (changed,) = manager.look(policy(ConnectionMode.HASSLE_FREE, single))
    assert dict(changed.leaves)["reason"] == "application web of the operator"
    assert KERNEL.calls[-1] == ("set", SECOND, PEER)
    KERNEL.carry(SECOND, 1000)  # that was on its way
    for _ in range(2):
        assert manager.look(policy(ConnectionMode.HASSLE_FREE, single)) == []
    (closed,) = manager.look(policy(ConnectionMode.HASSLE_FREE, single))
    assert (closed.name, dict(closed.leaves)["reason"]) == ("subflow-closed", "mode single-path")
    assert KERNEL.there.keys() == {(FIRST, PEER)}


def test_a_path_that_becomes_a_backup_stays_open(manager):
    manager.look(policy())
    around = AROUND._replace(demoted={"wwan0": "its data limit"})
    for _ in range(2):
        manager.look(policy(), around)
    assert KERNEL.calls[1:] == [("set", SECOND, PEER)]
    assert KERNEL.there[SECOND, PEER].is_backup
    assert manager.reasons()["wwan0"] == "its data limit"


def test_a_subflow_whose_handshake_is_under_way_is_let_alone(manager):
    KERNEL.is_open = False
    manager.look(policy())
    manager.look(policy(ConnectionMode.SINGLE_PATH))
    assert [call for call, *_ in KERNEL.calls] == ["create"]


def test_a_control_group_has_the_mode_of_its_application(manager):
    video = Application("video", ConnectionMode.SINGLE_PATH, cgroups=frozenset({"/video"}))
    manager.look(policy(ConnectionMode.HASSLE_FREE, video), AROUND._replace(cgroups={5: "/video"}))
    assert KERNEL.calls == []
    assert manager.connection.application == "video"


def test_no_more_subflows_than_the_limit(manager):
    three = {**AROUND.addresses, "wwan0": [SECOND, "10.2.0.3", "10.2.0.4"]}
    manager.look(policy(subflows=2), AROUND._replace(addresses=three))
    manager.look(policy(subflows=2), AROUND._replace(addresses=three))
    assert len(KERNEL.calls) == 2


def test_a_subflow_that_fails_is_tried_again_after_a_while(manager):
    manager.look(policy(retry_after_ns=10 * S))
    del KERNEL.there[SECOND, PEER]
    manager.look(policy(retry_after_ns=10 * S))
    assert len(KERNEL.calls) == 1
    manager.look(policy(retry_after_ns=10 * S), after_ns=path_manager.HANDSHAKE_NS + 1)
    until_ns = manager.now_ns + 10 * S
    assert manager.manager.exclusions == {(SECOND, PEER): Exclusion(SECOND, PEER, until_ns)}
    manager.look(policy(), after_ns=10 * S - 1)
    assert len(KERNEL.calls) == 1
    manager.look(policy(), after_ns=1)
    assert len(KERNEL.calls) == 2


def test_addresses_that_the_peer_announces_are_used_until_it_withdraws_them(manager):
    another = MptcpEvent(EventKind.ANNOUNCED, TOKEN, FIRST, "10.9.1.1", 0, 2)
    KERNEL.heard = [another, replace(another, token=8, remote="10.9.8.8")]
    manager.look(policy())
    assert {remote for _, _, remote in KERNEL.calls} == {PEER, "10.9.1.1"}
    KERNEL.heard = [replace(another, kind=EventKind.REMOVED)]
    KERNEL.there = {key: its for key, its in KERNEL.there.items() if key[1] == PEER}
    KERNEL.calls.clear()
    for _ in range(2):
        manager.look(policy(retry_after_ns=1), after_ns=path_manager.HANDSHAKE_NS + 1)
    assert KERNEL.calls == []


def test_an_address_of_the_other_family_is_not_tried(manager):
    addresses = {**AROUND.addresses, "wwan0": ["2001:db8::2"]}
    manager.look(policy(), AROUND._replace(addresses=addresses))
    assert KERNEL.calls == []


def test_two_addresses_never_have_one_identity(manager):
    many = [f"10.2.{each}.2" for each in range(60)]
    assert len({crc32(each.encode()) % 255 for each in many}) < 60
    KERNEL.listed = [replace(CONNECTION, local_port=443)]
    announced = policy()
    paths = (PATHS[0], replace(PATHS[1], is_announced=True))
    manager.look(
        replace(announced, paths=paths),
        AROUND._replace(addresses={"eth0": [FIRST], "wwan0": many}),
    )
    identities = [identity for call, _, identity in KERNEL.calls if call == "announce"]
    assert len(set(identities)) == 60
    assert all(1 <= each <= 255 for each in identities)


def test_a_connection_that_the_kernel_manages_is_left_to_it(manager):
    KERNEL.refusal = NetlinkError(22, "userspace PM not selected")
    for _ in range(2):
        manager.look(policy())
    assert len(KERNEL.calls) == 1
    assert not manager.connection.is_managed


def test_a_connection_of_an_address_that_no_path_has_is_none_of_ours(manager):
    manager.look(policy(), AROUND._replace(addresses={"wwan0": [SECOND]}))
    assert manager.manager.connections == ()


def test_a_connection_that_falls_back_is_said_once(manager):
    KERNEL.listed, KERNEL.there = [], {(FIRST, PEER): subflow(is_plain=True)}
    for _ in range(2):
        manager.look(policy())
    assert manager.told == ["fall-back"]


def video(**more):
    return Application("video", ConnectionMode.ON_DEMAND, media_rate_bps=8_000_000, **more)


def play(manager, seconds, first_bps, second_bps, its):
    """How many looks the second path was there for."""
    there = 0
    for _ in range(4 * seconds):
        KERNEL.carry(FIRST, first_bps // 32)
        if (second := KERNEL.there.get((SECOND, PEER))) and not second.is_backup:
            there += 1
            KERNEL.carry(SECOND, second_bps // 32)
        manager.look(its)
    return there


def test_a_medium_that_the_first_path_carries_has_no_second_one(manager):
    its = policy(ConnectionMode.HASSLE_FREE, video())
    assert play(manager, 60, 8_100_000, 0, its) == 0


def test_a_medium_has_its_second_path_while_too_little_is_loaded(manager):
    its = policy(ConnectionMode.HASSLE_FREE, video())
    there = play(manager, 600, 6_000_000, 7_000_000, its)
    assert 0.25 < there * 7 / (there * 7 + 2400 * 6) < 0.29  # the deficit is 2 of 8 Mb/s
    assert manager.told.count("subflow-opened") - manager.told.count("subflow-closed") in {0, 1}
    assert manager.told.count("subflow-closed") > 3


def test_as_printed_the_second_path_stays(manager):
    printed = OnDemand(reading=Reading.PRINTED)
    its = policy(ConnectionMode.HASSLE_FREE, video(), on_demand=printed)
    assert play(manager, 100, 6_000_000, 2_500_000, its) > 350


def test_a_threshold_that_changes_holds_for_media_that_play(manager):
    its = policy(ConnectionMode.HASSLE_FREE, video())
    play(manager, 40, 6_000_000, 7_000_000, its)
    assert "subflow-closed" in manager.told
    assert play(manager, 3, 6_000_000, 7_000_000, its) == 0
    its = replace(its, on_demand=OnDemand(100 * S, 200 * S))
    assert play(manager, 3, 6_000_000, 7_000_000, its) > 4


def test_a_medium_with_another_rate_begins_by_one_path(manager):
    play(manager, 10, 6_000_000, 7_000_000, policy(ConnectionMode.HASSLE_FREE, video()))
    assert not KERNEL.there[SECOND, PEER].is_backup
    slower = replace(video(), media_rate_bps=4_000_000)
    manager.look(policy(ConnectionMode.HASSLE_FREE, slower))
    assert KERNEL.there[SECOND, PEER].is_backup


# What is configured, and reported.

NODE = {
    "path": [
        {"interface": "eth0", "buffer": 8_000_000},
        {
            "interface": "wwan0",
            "backup": True,
            "buffer": 8_000_000,
            "radio-technology": ["he"],
            "minimum-signal": -70,
            "data-limit": {"maximum": "1000", "warning": 50},
        },
    ],
    "limits": {"subflows": 3},
    "tuning": {"maximum-buffer": 12_000_000},
    "connections": {
        "application": [
            {
                "name": "video",
                "mode": "on-demand",
                "source": "user",
                "user": [1001],
                "control-group": ["/video"],
                "remote-port": [443],
                "media-rate": "8000000",
                "media-duration": 120,
            }
        ],
        "on-demand": {"threshold": 5000, "reading": "printed"},
        "download": {"small-object": "10", "long-running": 20},
        "heat": {"zone": "cpu", "stop-level": 45_000, "restart-level": 42_000},
        "retry-after": 1000,
    },
}


def configured(node):
    ports = desired_ports({"tsn-multipath:multipath": node}, {})
    return {name: config[MultipathConfig] for name, config in ports.items()}


def test_all_that_is_configured_of_connections_is_in_their_policy():
    its = configured(NODE)
    assert its["eth0"].policy == its["wwan0"].policy
    assert its["eth0"].policy == Policy(
        ConnectionMode.HASSLE_FREE,
        (
            PathPolicy("eth0"),
            PathPolicy("wwan0", True, False, frozenset({"he"}), -70, 1000, 50),
        ),
        (
            Application(
                "video",
                ConnectionMode.ON_DEMAND,
                Source.USER,
                frozenset({1001}),
                frozenset({"/video"}),
                frozenset({443}),
                8_000_000,
                120 * S,
            ),
        ),
        3,
        OnDemand(5 * S, 10 * S, Reading.PRINTED),
        Download(10, 20 * MS),
        Heat("cpu", 45_000, 42_000),
        S,
    )
    values = dict(its["eth0"].settings)
    assert values["path-manager"] == "1"
    assert values["maximum-receive-buffer"] == values["maximum-send-buffer"] == "12000000"


def test_what_is_absent_is_as_the_module_says():
    node = {"path": NODE["path"][:1], "default-mode": "single-path", "connections": {}}
    its = configured(node)["eth0"]
    assert its.policy == Policy(ConnectionMode.SINGLE_PATH, (PathPolicy("eth0"),))
    node = {**node, "connections": {"on-demand": {"threshold": 1}}}
    assert configured(node)["eth0"].policy.on_demand == OnDemand(1 * MS, 2 * MS)


def test_buffers_of_paths_are_added_where_all_of_them_have_one():
    first, second = NODE["path"]
    small = {**NODE, "path": [{**first, "buffer": 2_000_000}, second]}
    assert dict(configured(small)["eth0"].settings)["maximum-send-buffer"] == "10000000"
    some = {**NODE, "path": [{"interface": "eth0"}, second]}
    assert dict(configured(some)["eth0"].settings)["maximum-send-buffer"] == "12000000"


@pytest.fixture
def station():
    return Switch(MemoryPorts(MECHANISMS, rehearsal_ports(["eth0", "wwan0"])))


def test_a_station_says_who_manages_its_connections(station):
    plain = {"path": NODE["path"][:1]}
    station.apply(desired_ports({"tsn-multipath:multipath": plain}, {}))
    wanted = desired_ports(
        {"tsn-multipath:multipath": {**plain, "connections": {}}}, station.read()
    )
    told = differences(MECHANISMS, wanted, station.read())["eth0"]
    assert "its connections are managed by the kernel, configured is the agent" in told
    station.apply(wanted)
    assert differences(MECHANISMS, wanted, station.read()) == {}
    assert station.read()["eth0"][MultipathState].policy is not None


def test_an_application_whose_mode_no_scheduler_can_do_is_refused(station):
    application = {"name": "game", "mode": "low-latency"}
    node = {"path": NODE["path"][:1], "connections": {"application": [application]}}
    wanted = desired_ports({"tsn-multipath:multipath": node}, {})
    (found,) = problems(station.ports, wanted, station.read())
    assert "application game: mode low-latency needs a scheduler" in found.text
    assert "this kernel has: default" in found.text


def test_what_was_decided_is_reported_with_its_reasons(station, manager):
    manager.look(policy())
    KERNEL.there[SECOND, PEER] = subflow(
        SECOND, id=9, rtt_ns=5, delivery_rate_bps=6, octets_acked=7, retransmitted=8
    )
    manager.look(policy())
    use = PathUse(1000, "its signal is -80 dBm, less than -70", Radio("he", -80))
    node = NodeState(
        connections=manager.manager.connections,
        exclusions=(Exclusion(SECOND, PEER, 5 * MS),),
        uses={"wwan0": use},
        millicelsius=41_000,
        settings=(("path-manager", "1"),),
        now_ns=2 * MS,
    )
    station.apply(desired_ports({"tsn-multipath:multipath": {"path": NODE["path"]}}, {}))
    states = [each.with_part(node) for each in station.read().values()]
    found = operational(states)["tsn-multipath:multipath"]
    assert (found["kernel"]["path-manager"], found["kernel"]["temperature"]) == ("program", 41_000)
    first, second = found["path-state"]
    assert first.keys() == {"interface", "managed", "endpoint"}
    assert (
        second.items()
        >= {
            "interface": "wwan0",
            "demoted": "its signal is -80 dBm, less than -70",
            "data-octets": "1000",
            "radio-technology": "he",
            "signal": -80,
        }.items()
    )
    assert found["exclusion"] == [{"local": SECOND, "remote": PEER, "retry-in": "3"}]
    (connection,) = found["connection"]
    first, second = connection.pop("subflow")
    assert connection == {
        "token": TOKEN,
        "local": FIRST,
        "local-port": 50_000,
        "remote": PEER,
        "remote-port": 443,
        "user": 1001,
        "mode": "hassle-free",
        "reason": "no application has it",
        "managed": True,
    }
    assert "round-trip-time" not in first  # nothing was measured there
    assert (
        second.items()
        >= {
            "interface": "wwan0",
            "reason": "mode hassle-free",
            "round-trip-time": "5",
            "delivery-rate": "6",
            "sent": "7",
            "received": "0",
            "retransmitted": 8,
        }.items()
    )


# What decisions are made from.


def stations(*rates, signal=-60):
    """Answers of nl80211, encoded with the attributes of linux/nl80211.h as a driver's would be:
    no radio is here."""
    found = []
    for rate in rates:
        message = nl80211cmd()
        message["cmd"] = 19  # NL80211_CMD_NEW_STATION
        bitrate = [("NL80211_STA_INFO_TX_BITRATE", {"attrs": rate})] if rate is not None else []
        info = {"attrs": [("NL80211_STA_INFO_SIGNAL", signal), *bitrate]}
        message["attrs"] = [("NL80211_ATTR_STA_INFO", info)]
        message.encode()
        decoded = nl80211cmd(message.data)
        decoded.decode()
        found.append(decoded)
    return found


HE = [("NL80211_RATE_INFO_BITRATE32", 6000), ("NL80211_RATE_INFO_HE_MCS", 9)]


@pytest.mark.parametrize(
    ("rates", "radio"),
    [
        ([HE], Radio("he", -60, 600_000_000)),
        ([[("NL80211_RATE_INFO_MCS", 7)]], Radio("ht", -60, None)),
        ([[("NL80211_RATE_INFO_BITRATE", 540)]], Radio("legacy", -60, 54_000_000)),
        ([None], Radio(None, -60, None)),
        ([HE, HE], Radio()),
        ([], Radio()),
    ],
)
def test_a_radio_link_is_what_the_driver_says_of_the_only_peer(rates, radio):
    assert feeder.radio(stations(*rates)) == radio


def test_what_a_machine_has_not_is_absent(tmp_path):
    assert feeder.millicelsius("cpu", tmp_path) is None
    assert feeder.cgroup_ids(["/none"], tmp_path) == {}
    (tmp_path / "video").mkdir()
    inode = (tmp_path / "video").stat().st_ino
    assert feeder.cgroup_ids(["/video"], tmp_path) == {inode: "/video"}


def test_the_hottest_zone_of_the_type_counts(tmp_path):
    for number, (kind, temperature) in enumerate(
        [("cpu", "41000"), ("cpu", "43000"), ("battery", "50000"), ("cpu", "cold")]
    ):
        zone = tmp_path / f"thermal_zone{number}"
        zone.mkdir()
        (zone / "type").write_text(f"{kind}\n")
        (zone / "temp").write_text(f"{temperature}\n")
    assert feeder.millicelsius("cpu", tmp_path) == 43_000


class Links:
    """The octets of an interface, its rate, and its radio link, instead of the kernel's."""

    def __init__(self):
        self.octets, self.radio_now = 5000, Radio()

    def radio(self, _ifindex):
        return self.radio_now

    def speed_bps(self, _name):
        return None

    def close(self):
        pass


@pytest.fixture
def links(monkeypatch):
    found = Links()
    monkeypatch.setattr(surroundings, "Ethtool", lambda: found)
    monkeypatch.setattr(surroundings, "Wireless", lambda: found)
    monkeypatch.setattr(feeder, "octets", lambda _ipr, _ifindex: found.octets)
    return found


LIMITED = Policy(ConnectionMode.HASSLE_FREE, (PathPolicy("wwan0", limit_octets=1000),))
LINKS = {"wwan0": PathLink(3, [SECOND])}


def told(gatherer, its=LIMITED):
    _, events = gatherer.gather(its, LINKS)
    return [each.name for each in events]


def test_octets_count_towards_a_limit_from_when_it_is_set(links, tmp_path):
    gatherer = Gatherer(None, tmp_path / "limits.json")
    assert told(gatherer) == []
    links.octets += 800
    assert told(gatherer) == ["data-limit-near"]
    assert told(gatherer) == []
    links.octets += 201
    assert told(gatherer) == ["path-demoted"]
    assert gatherer.paths["wwan0"].octets == 1001


def test_a_killed_agent_leaves_what_is_used_up_of_a_limit(links, tmp_path):
    record = tmp_path / "limits.json"
    told(Gatherer(None, record))
    links.octets += 2000
    assert told(Gatherer(None, record)) == ["data-limit-near", "path-demoted"]


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"boot-id": "of before", "bases": {"wwan0": 1}}']
)
def test_a_record_of_another_boot_or_of_no_sense_counts_nothing(links, tmp_path, content):
    record = tmp_path / "limits.json"
    record.write_text(content)
    assert told(Gatherer(None, record)) == []


def test_an_interface_that_comes_again_counts_from_0_and_a_limit_that_goes_is_forgotten(
    links, tmp_path
):
    record = tmp_path / "limits.json"
    gatherer = Gatherer(None, record)
    told(gatherer)
    links.octets = 900
    assert told(gatherer) == ["data-limit-near"]
    told(gatherer, replace(LIMITED, paths=(PathPolicy("wwan0"),)))
    assert json.loads(record.read_text())["bases"] == {}


def test_a_radio_link_demotes_its_path_and_restores_it(links, tmp_path):
    path = PathPolicy("wwan0", radio_technologies=frozenset({"he"}))
    its = replace(LIMITED, paths=(path,))
    gatherer = Gatherer(None, tmp_path / "limits.json")
    seen = []
    for technology in ("he", "ht", "legacy", "he"):
        links.radio_now = Radio(technology)
        seen += told(gatherer, its)
    assert seen == ["path-demoted", "path-restored"]
