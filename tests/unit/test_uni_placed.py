"""What a CUC is told of the place of its stream, and whether it is in time;
docs/operate/uni.md."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cnc.model import Plan
from cnc.service import uni
from cnc.service.uni import Failure, Refused
from cnc.service.uni.shown import notification, stream
from tests.unit.uni_bodies import STREAM_ID, body, mac, network, planned, with_stream

NAME = "plc__1"
DSCP = {"ipv4-tuple": {"destination-ip-address": "192.0.2.4"}}
GROUP = {"ieee802-mac-addresses": {"destination-mac-address": "91-E0-F0-00-FE-07"}}
TAG = {"ieee802-vlan-tag": {"vlan-id": 20, "priority-code-point": 5}}


def placed(file: str, asked: dict[str, Any]) -> Plan:
    plan = planned(network(file))
    return with_stream(plan, NAME, uni.wanted(asked, NAME, plan.intent))


def config(end: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = end["interface-configuration"]["interface-list"][0]["config-list"]
    return found


def test_accumulated_latency_counts_from_the_start_of_the_interval_to_the_first_bit() -> None:
    window = {"earliest-transmit-offset": 20_000}
    asked = body(1, [3], [DSCP], time_aware=window)
    plan = placed("line3.yaml", asked)
    its = plan.streams[NAME]

    told = uni.answer(plan, NAME, asked)["listener"][0]["accumulated-latency"]

    frame_ns = (100 + 22 + 8) * 8 - 1
    assert told == its.talker_offsets_ns[0] + its.latency_bound_ns - frame_ns
    assert told > 20_000


def test_the_talker_is_told_the_latest_of_all_listeners_and_each_listener_its_own() -> None:
    """l2 is behind a slow link, on which a frame takes ten times as long."""
    intent = network("line3.yaml")
    slow = {
        port: replace(link, rate_bps=100_000_000) if link.target.node == "l2" else link
        for port, link in intent.network.links.items()
    }
    document = {**intent.document}
    document["links"] = [
        {"ends": each, "rate": "100Mbps"} if "l2/eth0" in each else each
        for each in intent.document["links"]
    ]
    intent = replace(intent, network=replace(intent.network, links=slow), document=document)
    plan = planned(intent)
    asked = body(1, [3, 4], [DSCP])
    plan = with_stream(plan, NAME, uni.wanted(asked, NAME, plan.intent))

    told = uni.answer(plan, NAME, asked)

    fast, behind = (each["accumulated-latency"] for each in told["listener"])
    assert fast - behind == pytest.approx((100 + 22 + 8) * 8 * 9, abs=20)
    assert told["talker"]["accumulated-latency"] == max(fast, behind)


def test_the_talker_is_told_its_offset_within_its_window() -> None:
    window = {"earliest-transmit-offset": 20_000, "latest-transmit-offset": 30_000}
    asked = body(1, [3], [DSCP], time_aware=window)

    told = config(uni.answer(placed("line3.yaml", asked), NAME, asked)["talker"])

    assert 20_000 <= told[-1]["time-aware-offset"] <= 30_000


def test_in_a_routed_network_ends_are_told_the_dscp_of_the_class() -> None:
    asked = body(1, [3], [DSCP])
    told = uni.answer(placed("line3.yaml", asked), NAME, asked)
    packet = {"destination-ip-address": "192.0.2.4", "dscp": 46}
    assert config(told["talker"])[0] == {"index": 0, "ipv4-tuple": packet}
    assert config(told["listener"][0]) == [{"index": 0, "ipv4-tuple": packet}]


def test_in_a_bridged_network_ends_are_told_address_vlan_and_priority() -> None:
    asked = body(1, [3, 5], [GROUP, TAG])
    told = uni.answer(placed("bridged5.yaml", asked), NAME, asked)
    for end in (told["talker"], *told["listener"]):
        assert config(end)[:2] == [{"index": 0, **GROUP}, {"index": 1, **TAG}]


def test_who_sends_untagged_frames_is_told_an_offset_alone() -> None:
    asked = body(1, [5], [GROUP])
    told = uni.answer(placed("bridged5.yaml", asked), NAME, asked)
    assert [each.keys() for each in config(told["talker"])] == [{"index", "time-aware-offset"}]
    arrives = {"ieee802-mac-addresses": {"destination-mac-address": mac(5)}}
    assert config(told["listener"][0]) == [{"index": 0, **arrives}]


def test_every_interface_is_told_as_it_was_written() -> None:
    asked = body(1, [3], [DSCP])
    asked["talker"]["end-station-interfaces"][0]["interface-name"] = "enp1s0"
    told = uni.answer(placed("line3.yaml", asked), NAME, asked)
    (its,) = told["talker"]["interface-configuration"]["interface-list"]
    assert (its["mac-address"], its["interface-name"]) == (mac(1), "enp1s0")


def test_a_place_is_told_also_when_the_intent_states_other_addresses_since() -> None:
    asked = body(1, [3], [DSCP])
    plan = placed("line3.yaml", asked)
    stations = {
        name: replace(its, mac=None) for name, its in plan.intent.network.end_stations.items()
    }
    network_ = replace(plan.intent.network, end_stations=stations)
    since = replace(plan, intent=replace(plan.intent, network=network_))
    assert uni.answer(since, NAME, asked) == uni.answer(plan, NAME, asked)


def test_a_place_that_is_in_time_needs_no_other() -> None:
    asked = body(1, [3], [DSCP])
    assert uni.narrowed(placed("line3.yaml", asked), NAME, asked) is None


def late(plan: Plan, offset_ns: int) -> Plan:
    """The plan with the stream planned so much later, as a planner might within its window."""
    its = plan.streams[NAME]
    paths = tuple(
        tuple(replace(hop, offset_ns=hop.offset_ns + offset_ns) for hop in path)
        for path in its.paths
    )
    return replace(plan, streams={**plan.streams, NAME: replace(its, paths=paths)})


def test_a_place_that_is_too_late_is_followed_by_a_window_that_ends_sooner() -> None:
    """The intent's own bound holds; that of the standard, which counts the offset too, does not."""
    asked = body(1, [3], [DSCP], max_latency=60_000)
    plan = placed("line3.yaml", asked)
    bound_ns = plan.streams[NAME].latency_bound_ns

    keys = uni.narrowed(late(plan, 50_000), NAME, asked)

    assert keys is not None
    assert keys["window"]["latest"] == f"{60_000 + 1039 - bound_ns}ns"
    again = with_stream(planned(network("line3.yaml")), NAME, keys)
    assert uni.narrowed(again, NAME, asked, 2) is None
    assert uni.answer(again, NAME, asked)["talker"]["accumulated-latency"] <= 60_000


def test_in_the_last_window_to_try_every_place_is_in_time() -> None:
    asked = body(1, [3], [DSCP], max_latency=60_000)
    plan = late(placed("line3.yaml", asked), 50_000)

    keys = uni.narrowed(plan, NAME, asked, uni.TRIES_MAX - 1)

    assert keys is not None
    latest, most = (
        int(text.removesuffix("ns")) for text in (keys["window"]["latest"], keys["max-latency"])
    )
    assert latest + most == 60_000 + 1039
    with pytest.raises(Refused) as refusal:
        uni.narrowed(plan, NAME, asked, uni.TRIES_MAX)
    assert refusal.value.failure_code == Failure.LATENCY


def record(asked: dict[str, Any], **its: Any) -> dict[str, Any]:
    """A stream as the core answers it."""
    return {
        "cuc": "plc",
        "stream_id": STREAM_ID,
        "body": asked,
        "state": "planned",
        "placed": True,
        "reason": None,
        "failure_code": 0,
        "status": None,
        **its,
    }


def test_a_stream_is_ready_once_the_switches_run_it() -> None:
    asked = body(1, [3], [DSCP])
    told = uni.answer(placed("line3.yaml", asked), NAME, asked)

    waits = stream(record(asked, status=told))
    runs = stream(record(asked, status=told, state="configured"))

    assert waits["status-info"]["talker-status"] == "none"
    assert runs["status-info"] == {
        "talker-status": "ready",
        "listener-status": "ready",
        "failure-code": 0,
    }
    assert runs["stream-status"] == "configured"
    assert runs["listener"][0]["accumulated-latency"] > 0
    assert runs["talker"]["traffic-specification"] == asked["talker"]["traffic-specification"]


def test_a_stream_without_a_place_says_why_by_code_and_in_a_sentence() -> None:
    asked = body(1, [3], [DSCP])
    failed = record(asked, placed=False, failure_code=21, reason="too late by 3 us")
    assert stream(failed)["status-info"] == {
        "talker-status": "failed",
        "listener-status": "failed",
        "failure-code": 21,
        "tsn-cnc:reason": "too late by 3 us",
    }


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        ({"kind": "stream-placed", "stream_id": STREAM_ID}, "compute_streams_completed"),
        ({"kind": "stream-configured", "stream_id": STREAM_ID}, "configure_streams_completed"),
        ({"kind": "stream-removed", "stream_id": STREAM_ID}, "remove_streams_completed"),
        (
            {"kind": "computed", "streams": [STREAM_ID], "failed": {}, "failure_codes": {}},
            "compute_streams_completed",
        ),
    ],
)
def test_events_of_streams_are_notifications(event: dict[str, Any], kind: str) -> None:
    told = notification({"time": "2026-01-01T00:00:00+00:00", "cuc": "plc", **event}, "cell")
    assert told is not None
    (domain,) = told["ietf-restconf:notification"][f"ieee802-dot1q-cnc-config:{kind}"]["domain"]
    streams = [{"stream-id": STREAM_ID, "failure-code": 0}]
    assert domain == {"domain-id": "cell", "cuc": [{"cuc-id": "plc", "stream": streams}]}


@pytest.mark.parametrize(
    "event",
    [
        {"kind": "stream-refused", "stream_id": STREAM_ID, "reason": "late", "failure_code": 21},
        {
            "kind": "computed",
            "streams": [],
            "failed": {STREAM_ID: "late"},
            "failure_codes": {STREAM_ID: 21},
        },
    ],
)
def test_a_refusal_is_notified_with_its_code(event: dict[str, Any]) -> None:
    told = notification({"time": "2026-01-01T00:00:00+00:00", "cuc": "plc", **event}, "cell")
    assert told is not None
    completed = told["ietf-restconf:notification"][
        "ieee802-dot1q-cnc-config:compute_streams_completed"
    ]
    (stream_,) = completed["domain"][0]["cuc"][0]["stream"]
    assert stream_ == {"stream-id": STREAM_ID, "failure-code": 21, "tsn-cnc:reason": "late"}


def test_other_events_are_no_notification() -> None:
    assert notification({"kind": "rollout-done", "time": "", "rollout": 1}, "cell") is None
