"""What a CUC asks for becomes keys of a stream of the intent, leaf by leaf;
docs/operate/uni.md."""

from __future__ import annotations

from typing import Any

import pytest

from cnc.check import judge
from cnc.service import uni
from cnc.service.uni import Failure, Refused
from tests.unit.uni_bodies import ACTIVE, body, mac, network, planned, with_stream

IP = {"ipv4-tuple": {"destination-ip-address": "192.0.2.4"}}
DSCP = {"ipv4-tuple": {"destination-ip-address": "192.0.2.4", "dscp": 46}}
GROUP = {"ieee802-mac-addresses": {"destination-mac-address": "91-E0-F0-00-FE-07"}}
TAG = {"ieee802-vlan-tag": {"vlan-id": 20, "priority-code-point": 5}}
NAME = "plc__1"
ROUTED = network("line3.yaml")
BRIDGED = network("bridged5.yaml")
ROUTED_TALKER, ROUTED_LISTENERS = 1, [3]
PLC, DRIVE, PANEL = 1, 3, 5


def routed(frames: list[Any] | None = None, **traffic: Any) -> dict[str, Any]:
    """A stream from t1 to l1."""
    return body(ROUTED_TALKER, ROUTED_LISTENERS, frames or [DSCP], **traffic)


def wanted(asked: dict[str, Any]) -> dict[str, Any]:
    return uni.wanted(asked, NAME, ROUTED)


def bridged(asked: dict[str, Any]) -> dict[str, Any]:
    return uni.wanted(asked, NAME, BRIDGED)


def refused(asked: dict[str, Any], intent: Any = ROUTED) -> Refused:
    with pytest.raises(Refused) as refusal:
        uni.wanted(asked, NAME, intent)
    assert refusal.value.hint
    return refusal.value


def test_the_interval_in_seconds_is_the_period_in_nanoseconds() -> None:
    assert wanted(routed(interval=(1, 3125)))["period"] == "320000ns"


@pytest.mark.parametrize("interval", [(1, 3), (0, 1), (1, 0), (3, 1)])
def test_an_interval_of_no_whole_nanoseconds_or_none_is_refused(interval: tuple[int, int]) -> None:
    its = refused(routed(interval=interval))

    assert its.failure_code == Failure.FEATURE
    assert "{}/{} s".format(*interval) in str(its)


def test_an_absent_interval_is_refused() -> None:
    asked = routed()
    del asked["talker"]["traffic-specification"]["interval"]
    assert "is no time" in str(refused(asked))


def test_the_longest_msdu_is_the_payload() -> None:
    assert wanted(routed(max_frame_size=200))["payload"] == "200B"


def test_a_frame_that_is_padded_on_the_wire_is_planned_with_its_padding() -> None:
    assert wanted(routed(max_frame_size=1))["payload"] == "46B"
    packet = {"ipv6-tuple": {"dscp": 46}}
    assert wanted(routed([packet], max_frame_size=1))["payload"] == "48B"


@pytest.mark.parametrize(("octets", "code"), [(0, 25), (1501, 14), (9001, 14), (65535, 14)])
def test_a_frame_that_no_class_carries_is_refused(octets: int, code: int) -> None:
    assert refused(routed(max_frame_size=octets)).failure_code == code


def test_frames_of_an_interval_are_sent_back_to_back() -> None:
    assert wanted(routed(max_frames_per_interval=3))["frames"] == 3


@pytest.mark.parametrize(("frames", "code"), [(0, 25), (1001, 2)])
def test_no_frames_and_more_than_a_queue_takes_are_refused(frames: int, code: int) -> None:
    assert refused(routed(max_frames_per_interval=frames)).failure_code == code


def test_only_strict_priority_is_a_transmission_selection_of_a_talker() -> None:
    assert wanted(routed(transmission_selection=0)) == wanted(routed())
    assert "transmission-selection 1" in str(refused(routed(transmission_selection=1)))


def test_a_talker_that_sends_at_any_time_is_refused() -> None:
    asked = routed()
    del asked["talker"]["traffic-specification"]["time-aware"]

    its = refused(asked)

    assert its.failure_code == Failure.FEATURE
    assert "at any time" in str(its)


def test_transmit_offsets_are_the_window_of_the_talker() -> None:
    window = {"earliest-transmit-offset": 1000, "latest-transmit-offset": 5000}
    asked = routed(time_aware=window, max_latency=900_000)
    assert wanted(asked)["window"] == {"earliest": "1000ns", "latest": "5000ns"}


def test_without_offsets_the_talker_sends_at_any_time_of_the_interval() -> None:
    asked = routed(max_latency=0)
    assert wanted(asked)["window"] == {"earliest": "0ns", "latest": "999999ns"}


@pytest.mark.parametrize(("earliest", "latest"), [(1_000_000, 1_000_000), (0, 1_000_001), (5, 4)])
def test_a_window_outside_of_the_interval_or_none_is_refused(earliest: int, latest: int) -> None:
    window = {"earliest-transmit-offset": earliest, "latest-transmit-offset": latest}
    assert refused(routed(time_aware=window)).failure_code == Failure.FEATURE


def test_max_latency_counts_from_the_start_of_the_interval_to_the_first_bit() -> None:
    """The window leaves room for the fastest way: offset and latency share what is allowed, and the
    intent counts to the last bit: 100 octets in a frame of 122 and a preamble, on 1 Gbit/s."""
    keys = wanted(routed(max_latency=200_000, time_aware={"earliest-transmit-offset": 10_000}))

    frame_ns = (100 + 22 + 8) * 8 - 1  # by the fastest transmitter
    assert keys["max-latency"] == f"{200_000 + frame_ns - 10_000}ns"
    latest_ns = int(keys["window"]["latest"].removesuffix("ns"))
    assert 150_000 < latest_ns < 200_000


def test_a_latency_that_ends_before_the_talker_may_send_is_refused_with_its_code() -> None:
    late = {"earliest-transmit-offset": 500_000}
    its = refused(routed(max_latency=400_000, time_aware=late))

    assert its.failure_code == Failure.LATENCY
    assert "start of the interval" in str(its)


def test_a_latency_below_what_the_fastest_way_takes_is_refused() -> None:
    assert refused(routed(max_latency=1_000)).failure_code == Failure.LATENCY


def test_the_strictest_listener_counts_for_the_stream_and_the_talker_for_all() -> None:
    asked = body(2, [3, 4], [DSCP], max_latency=0)
    asked["listener"][1]["user-to-network-requirements"] = {"max-latency": 150_000}
    assert wanted(asked)["max-latency"] == "151039ns"
    asked["talker"]["user-to-network-requirements"] = {"max-latency": 120_000}
    assert wanted(asked)["max-latency"] == "121039ns"


def test_a_max_latency_of_0_takes_what_the_plan_finds() -> None:
    assert wanted(routed(max_latency=0))["max-latency"] == "1000000ns"


def test_jitter_of_a_talker_is_planned_from_its_earliest_instant_on() -> None:
    intent = network("line3.yaml", defaults__talker_lateness="4us")
    window = {"earliest-transmit-offset": 5_000, "latest-transmit-offset": 9_000, "jitter": 2_000}
    asked = routed(time_aware=window, max_latency=900_000)

    keys = uni.wanted(asked, NAME, intent)

    assert keys["window"] == {"earliest": "3000ns", "latest": "7000ns"}
    plan = with_stream(planned(intent), NAME, keys)
    assert 5_000 <= told_offset(plan, asked) <= 9_000


def told_offset(plan: Any, asked: dict[str, Any]) -> int:
    told = uni.answer(plan, NAME, asked)["talker"]["interface-configuration"]["interface-list"]
    return int(told[0]["config-list"][-1]["time-aware-offset"])


def test_jitter_that_the_lateness_of_the_station_does_not_cover_is_refused() -> None:
    intent = network("line3.yaml", defaults__talker_lateness="3us")
    its = refused(routed(time_aware={"jitter": 2_000}), intent)

    assert its.failure_code == Failure.FEATURE
    assert "talker-lateness: 4000ns` of t1" in str(its.hint)


def test_jitter_of_a_talker_with_an_agent_is_refused() -> None:
    stations = {"t1": {"management": "10.99.0.9"}, "t2": {}, "l1": {}, "l2": {}}
    intent = network("line3.yaml", end_stations=stations)
    assert "whose agent tells" in str(refused(routed(time_aware={"jitter": 1}), intent))


def test_both_ranks_ask_for_the_same() -> None:
    first = routed()
    first["talker"]["stream-rank"] = {"rank": 0}
    assert wanted(first) == wanted(routed())


def test_another_rank_than_0_or_1_is_refused() -> None:
    asked = routed()
    asked["talker"]["stream-rank"] = {"rank": 2}
    assert "rank 2" in str(refused(asked))


def test_two_trees_are_two_paths_of_which_switches_take_out_copies() -> None:
    asked = body(PLC, [DRIVE], [GROUP, TAG])
    asked["listener"][0]["user-to-network-requirements"] = {"num-seamless-trees": 2}

    keys = bridged(asked)

    assert (keys["paths"], keys["elimination"]) == (2, "switch")
    plan = with_stream(planned(BRIDGED), NAME, keys)
    assert len(plan.streams[NAME].paths) == 2
    assert judge(plan) == []


@pytest.mark.parametrize("trees", [0, 3])
def test_no_tree_and_more_than_two_are_refused(trees: int) -> None:
    asked = body(PLC, [DRIVE], [GROUP, TAG])
    asked["talker"]["user-to-network-requirements"]["num-seamless-trees"] = trees
    assert refused(asked, BRIDGED).failure_code == Failure.BRIDGE_RESOURCES


def test_two_trees_in_a_routed_network_are_refused() -> None:
    asked = routed()
    asked["talker"]["user-to-network-requirements"]["num-seamless-trees"] = 2
    assert refused(asked).failure_code == Failure.BRIDGE_RESOURCES


def test_addresses_of_interfaces_name_the_end_stations() -> None:
    keys = wanted(body(2, [3, 4], [DSCP]))
    assert (keys["talker"], keys["listeners"]) == ("t2", ["l1", "l2"])


def test_an_address_that_the_intent_does_not_have_is_refused_with_what_to_write_where() -> None:
    its = refused(body(1, [9], [DSCP]))

    assert its.failure_code == Failure.NO_PORT
    assert "02:00:00:00:01:09" in str(its)
    assert "`mac: 02:00:00:00:01:09` of the end station" in str(its.hint)


@pytest.mark.parametrize("listeners", [[], [1], [3, 3]])
def test_listeners_are_other_stations_each_once(listeners: list[int]) -> None:
    assert refused(body(1, listeners, [DSCP])).failure_code


def test_interfaces_of_two_stations_are_not_one_end() -> None:
    asked = routed()
    asked["listener"][0]["end-station-interfaces"].append(
        {"mac-address": mac(4), "interface-name": ""}
    )
    assert "l1 and l2" in str(refused(asked))


def test_the_dscp_chooses_the_class_in_a_routed_network() -> None:
    assert wanted(routed())["class"] == ["cyclic"]
    its = refused(routed([{"ipv4-tuple": {"dscp": 11}}]))
    assert its.failure_code == Failure.PRIORITY


@pytest.mark.parametrize(("dscp", "is_one"), [(63, True), (64, True), (65, False), (255, False)])
def test_a_dscp_is_0_to_63_and_64_is_any(dscp: int, is_one: bool) -> None:
    its = {"destination-ip-address": "192.0.2.4", "dscp": dscp}
    asked = body(PLC, [PANEL], [{"ipv4-tuple": its}])
    if is_one:
        known_by = bridged(asked)["identification"]["ip"]
        assert known_by.get("dscp") == (None if dscp == 64 else dscp)
    else:
        assert refused(asked, BRIDGED).failure_code == Failure.IDENTIFICATION


def test_a_routed_network_knows_no_mac_addresses() -> None:
    assert refused(routed([GROUP])).failure_code == Failure.IDENTIFICATION
    assert refused(routed([DSCP, TAG])).failure_code == Failure.IDENTIFICATION


def test_frames_with_a_group_address_and_a_tag_are_taken_as_they_are() -> None:
    keys = bridged(body(PLC, [DRIVE, PANEL], [GROUP, TAG]))
    assert keys["destination-mac"] == "91:e0:f0:00:fe:07"
    assert (keys["vlan"], keys["pcp"], keys["class"]) == (20, 5, ["cyclic"])
    assert "identification" not in keys


@pytest.mark.parametrize(("vlan", "code"), [(1, 17), (4095, 17), (0, 23)])
def test_a_vlan_that_is_none_is_refused(vlan: int, code: int) -> None:
    tag = {"ieee802-vlan-tag": {"vlan-id": vlan, "priority-code-point": 5}}
    assert refused(body(PLC, [DRIVE], [GROUP, tag]), BRIDGED).failure_code == code


def test_a_priority_of_no_class_for_streams_is_refused() -> None:
    tag = {"ieee802-vlan-tag": {"vlan-id": 20, "priority-code-point": 7}}
    its = refused(body(PLC, [DRIVE], [GROUP, tag]), BRIDGED)
    assert its.failure_code == Failure.PRIORITY
    assert "motion (6" in str(its.hint)


@pytest.mark.parametrize("reserved", ["01-80-C2-00-00-0E", "01-00-5E-00-00-01"])
def test_an_address_that_bridges_do_not_forward_is_refused(reserved: str) -> None:
    frames = {"ieee802-mac-addresses": {"destination-mac-address": reserved}}
    its = refused(body(PLC, [DRIVE], [frames, TAG]), BRIDGED)
    assert its.failure_code == Failure.OTHER_DESTINATION


def test_an_address_of_one_station_is_none_for_several_listeners() -> None:
    frames = {"ieee802-mac-addresses": {"destination-mac-address": "02-00-00-00-00-09"}}
    its = refused(body(PLC, [DRIVE, PANEL], [frames, TAG]), BRIDGED)
    assert its.failure_code == Failure.OTHER_DESTINATION


def test_a_source_address_is_one_of_the_talker() -> None:
    def frames(source: str) -> dict[str, Any]:
        return {
            "ieee802-mac-addresses": {
                "destination-mac-address": "91-E0-F0-00-FE-07",
                "source-mac-address": source,
            }
        }

    bridged(body(PLC, [DRIVE], [frames(mac(PLC)), TAG]))
    its = refused(body(PLC, [DRIVE], [frames(mac(2)), TAG]), BRIDGED)
    assert its.failure_code == Failure.IDENTIFICATION


def test_the_first_switch_identifies_untagged_packets() -> None:
    its = {
        "source-ip-address": "192.0.2.1",
        "destination-ip-address": "192.0.2.4",
        "protocol": 17,
        "source-port": 5003,
        "destination-port": 5004,
        "dscp": 10,
    }
    asked = body(PLC, [PANEL], [{"ipv4-tuple": its}])

    keys = bridged(asked)

    assert keys["ip"] == 4
    assert keys["identification"]["ip"] == {
        "source": "192.0.2.1",
        "destination": "192.0.2.4",
        "protocol": "udp",
        "source-port": 5003,
        "destination-port": 5004,
        "dscp": 10,
    }
    assert judge(with_stream(planned(BRIDGED), NAME, keys)) == []


@pytest.mark.parametrize(
    "its",
    [
        {},
        {"dscp": 10},
        {"destination-ip-address": "224.0.0.1"},
        {"destination-ip-address": "192.0.2.4", "protocol": 1},
        {"destination-ip-address": "192.0.2.4", "destination-port": 5004},
        {"destination-ip-address": "192.0.2.4", "protocol": 17, "destination-port": 0},
        {"destination-ip-address": "192.0.2.4%eth0"},
    ],
)
def test_packets_by_which_a_switch_cannot_know_a_stream_are_refused(its: dict[str, Any]) -> None:
    asked = body(PLC, [PANEL], [{"ipv4-tuple": its}])
    assert refused(asked, BRIDGED).failure_code == Failure.IDENTIFICATION


def test_any_protocol_is_65535_and_its_ports_are_ignored() -> None:
    its = {"destination-ip-address": "192.0.2.4", "protocol": 65535, "destination-port": 9}
    known_by = bridged(body(PLC, [PANEL], [{"ipv4-tuple": its}]))["identification"]
    assert known_by == {"ip": {"destination": "192.0.2.4"}}


def test_untagged_frames_are_known_by_an_address() -> None:
    asked = body(PLC, [PANEL], [GROUP])
    assert bridged(asked)["identification"] == {"destination-mac": "91:e0:f0:00:fe:07"}
    source = {"ieee802-mac-addresses": {"source-mac-address": mac(PLC)}}
    asked = body(PLC, [PANEL], [source])
    assert bridged(asked)["identification"] == {"source-mac": "02:00:00:00:01:01"}


def test_untagged_frames_for_several_listeners_are_refused() -> None:
    its = refused(body(PLC, [PANEL, DRIVE], [GROUP]), BRIDGED)
    assert its.failure_code == Failure.NO_TRANSFORMATION


def test_ends_that_tag_and_transform_take_address_and_vlan_from_the_plan() -> None:
    asked = body(PLC, [PANEL], [IP])
    able = {"vlan-tag-capable": True, "cb-stream-iden-type-list": [ACTIVE]}
    asked["talker"]["interface-capabilities"] = able
    assert "identification" in bridged(asked)  # the listener cannot
    asked["listener"][0]["interface-capabilities"] = able
    assert not {"identification", "destination-mac", "vlan", "pcp"} & bridged(asked).keys()
    asked["talker"]["interface-capabilities"] = {"vlan-tag-capable": True}
    assert "identification" in bridged(asked)


def test_ends_that_tag_alone_keep_the_address_of_their_frames() -> None:
    asked = body(PLC, [PANEL], [GROUP])
    for end in (asked["talker"], *asked["listener"]):
        end["interface-capabilities"] = {"vlan-tag-capable": True}
    keys = bridged(asked)
    assert keys["destination-mac"] == "91:e0:f0:00:fe:07"
    assert "identification" not in keys


@pytest.mark.parametrize("frames", [[{}], [GROUP, GROUP], [IP, {"ipv6-tuple": {"dscp": 1}}]])
def test_frames_that_are_known_by_nothing_or_by_two_of_a_kind_are_refused(frames: Any) -> None:
    its = refused(body(PLC, [PANEL], frames), BRIDGED)
    assert its.failure_code == Failure.IDENTIFICATION
