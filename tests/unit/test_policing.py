"""What first switches are told to police: whose frames, when, and how long and many they may be.

t1, t2 ── s1 ── s2 ── s3 ── l1, l2        and l3 at s2
"""

from __future__ import annotations

from typing import Any

import pytest

from cnc import intent as intents
from cnc.check import judge
from cnc.errors import Unschedulable
from cnc.mechanisms.composition import bridge_forwardings
from cnc.mechanisms.stream_filters.derive import uncounted
from cnc.mechanisms.stream_filters.model import (
    FilteredStream,
    FixedGate,
    Policing,
    Strangers,
    StreamFilter,
    StreamFilters,
    WindowGate,
)
from cnc.model import Plan
from cnc.planner import plan
from cnc.plans import file as planfile
from tests.bridged_networks import line, stream
from tests.unit.planner_networks import BLOCKING_NS

FAST, SLOW = 6, 5
SHUT_OUT = [("t1", FAST), ("t2", FAST), ("t1", SLOW), ("t2", SLOW)]
OFF, COUNT, DROP = Policing.OFF, Policing.COUNT, Policing.DROP
# t1's link: 230 octets at 1 Gb/s, a nanosecond more or less, then 100 ns of cable.
FLIGHT_NS = (200 + 22 + 8) * 8 + 100
CONTROL_NS = BLOCKING_NS
CLOCK_ERROR_NS, PROCESSING_NS = 1_000, 5_000


def planned(
    policing: str | None = None, classes: dict[str, str] | None = None, **facts: Any
) -> Plan:
    """A plan of `set-point` from t1, `picture` from t2 and `report` from t2 in the slower class.

    `facts` are further keys of streams by name, or of the whole document.
    """
    streams = {
        "set-point": stream("t1", "l1"),
        "picture": stream("t2", "l2", octets=1400, frames=3),
        "report": stream("t2", "l1", octets=40, ip=4, **{"class": "slow"}),
    }
    for name in streams.keys() & facts.keys():
        streams[name] |= facts[name]
    document = {**line(**streams).document}
    document = {**document, "defaults": {**document["defaults"], **facts.get("defaults", {})}}
    document |= {"switches": facts.get("switches", document["switches"])}
    if policing:
        document["policing"] = policing
    for name, its in (classes or {}).items():
        document["classes"] = {**document["classes"]}
        document["classes"][name] = {**document["classes"][name], "policing": its}
    return plan(intents.from_document(document, "changed"))


def filters(of: Plan, switch: str = "s1") -> dict[object, StreamFilter]:
    """By the name of the stream, or by the port and priority of strangers."""
    names = {(a.destination_mac, a.vlan_id): name for name, a in of.addresses.items()}
    return {
        (its.of.port, its.priority)
        if isinstance(its.of, Strangers)
        else names[its.of.destination_mac, its.of.vlan_id]: its
        for its in bridge_forwardings(of)[switch][StreamFilters].filters
    }


def window(its: StreamFilter) -> WindowGate:
    assert isinstance(its.gate, WindowGate)
    return its.gate


def test_switches_count_unless_something_else_is_asked_for() -> None:
    assert judge(planned()) == []
    assert filters(planned()) == filters(planned("count"))
    assert not any(
        its[StreamFilters].filters for its in bridge_forwardings(planned("off")).values()
    )


@pytest.mark.parametrize("policing", [COUNT, DROP])
def test_each_stream_has_a_filter_at_the_port_of_its_talker(policing: Policing) -> None:
    made = planned(policing)
    assert judge(made) == []
    found = filters(made)
    assert [*found] == ["picture", "report", "set-point", *SHUT_OUT]
    address = made.addresses["set-point"]
    assert found["set-point"].of == FilteredStream(address.destination_mac, address.vlan_id, "t1")
    assert {its.policing for its in found.values()} == {policing}
    assert [found[name].priority for name in ("set-point", "report")] == [FAST, SLOW]


def test_strangers_are_shut_out_wherever_a_station_is_connected() -> None:
    made = planned("drop")
    assert [*filters(made, "s2")] == [("l3", FAST), ("l3", SLOW)]
    of_s3 = filters(made, "s3")
    assert [*of_s3] == [(port, number) for number in (FAST, SLOW) for port in ("l1", "l2")]
    assert {its.gate for its in of_s3.values()} == {FixedGate.CLOSED}


def test_a_gate_is_open_from_the_earliest_to_the_latest_arrival_at_any_clock() -> None:
    made = planned("drop")
    offset_ns = made.streams["set-point"].talker_offsets_ns[0]
    gate = window(filters(made)["set-point"])
    assert gate.start_ns == offset_ns + FLIGHT_NS - 1 - CLOCK_ERROR_NS
    last_ns = offset_ns + CONTROL_NS + FLIGHT_NS + 1 + PROCESSING_NS + CLOCK_ERROR_NS
    assert gate.start_ns + gate.open_ns - 1 == last_ns
    assert gate.period_ns == 1_000_000


@pytest.mark.parametrize("lateness_us", [0, 30])
def test_a_gate_waits_for_a_late_talker(lateness_us: int) -> None:
    punctual = window(filters(planned("drop"))["set-point"])
    late = window(
        filters(planned("drop", defaults={"talker-lateness": f"{lateness_us}us"}))["set-point"]
    )
    assert late.open_ns - punctual.open_ns == 1_000 * lateness_us


def test_best_effort_of_a_talker_makes_its_window_longer() -> None:
    punctual = window(filters(planned("drop"))["set-point"])
    late = window(
        filters(planned("drop", defaults={"talker-interference": "one-frame"}))["set-point"]
    )
    assert late.open_ns - punctual.open_ns == (1522 + 20) * 8 + 2


def test_a_stream_may_send_as_long_and_as_many_frames_as_it_states() -> None:
    found = filters(planned("drop"))
    sizes = {
        name: (found[name].max_sdu_octets, window(found[name]).octets_max)
        for name in ("set-point", "picture", "report")
    }
    padded = 46  # a shorter frame is padded on the cable
    assert sizes == {"set-point": (200, 200), "picture": (1400, 4200), "report": (padded, padded)}


def test_the_nearest_of_stream_class_and_network_is_what_holds() -> None:
    made = planned("count", classes={"slow": "off"}, picture={"policing": "drop"})
    assert judge(made) == []
    found = filters(made)
    assert {name: its.policing for name, its in found.items()} == {
        "picture": DROP,
        "set-point": COUNT,
        ("t1", FAST): COUNT,
        ("t2", FAST): COUNT,
    }


def test_a_stream_that_is_not_policed_is_no_stranger() -> None:
    made = planned("drop", picture={"policing": "off"})
    assert judge(made) == []
    its = filters(made)["picture"]
    assert (its.policing, its.gate, its.max_sdu_octets) == (OFF, FixedGate.OPEN, 0)


def test_a_policed_stream_of_a_class_without_policing_leaves_strangers_alone() -> None:
    made = planned("off", picture={"policing": "drop"})
    assert judge(made) == []
    assert [*filters(made)] == ["picture"]


def test_policing_moves_no_frame() -> None:
    without, policed = planned(), planned("drop")
    assert (policed.streams, policed.gates) == (without.streams, without.gates)
    kept = plan(policed.intent, keep=without)
    assert kept.streams == without.streams


def test_a_plan_file_says_no_more_than_the_intent_what_is_policed() -> None:
    made = planned("drop")
    text = planfile.dump(made)
    assert text.count("policing") == planfile.dump(planned()).count("policing") + 1
    again = planfile.parse(text, "plan.json")
    assert bridge_forwardings(again) == bridge_forwardings(made)


def limited(most: int) -> dict[str, Any]:
    switches = line(one=stream("t1", "l1")).document["switches"]
    return {**switches, "s1": {**switches["s1"], "stream-filters-max": most}}


def test_more_filters_than_a_switch_holds_are_refused_with_the_count() -> None:
    assert len(filters(planned("drop", switches=limited(7)))) == 7
    with pytest.raises(Unschedulable) as refused:
        planned("drop", switches=limited(6))
    assert refused.value.reasons == {
        "switch s1": "needs 7 stream filters, 3 for streams of its end stations and 4 for "
        "frames of no stream, and holds 6 (stream-filters-max)"
    }


def test_a_switch_too_small_to_count_does_what_is_asked_for_and_no_more() -> None:
    made = planned(switches=limited(6))
    assert judge(made) == []
    assert [*filters(made)] == []
    assert len(filters(made, "s3")) == 4
    dropping = planned(switches=limited(6), picture={"policing": "drop"})
    assert judge(dropping) == []
    assert [*filters(dropping)] == ["picture"]
    assert uncounted(dropping) == {"s1": 7}


def test_what_is_asked_for_is_refused_where_a_switch_holds_less_than_that() -> None:
    with pytest.raises(Unschedulable) as refused:
        planned(switches=limited(1), classes={"fast": "drop"})
    assert refused.value.reasons == {
        "switch s1": "needs 4 stream filters, 2 for streams of its end stations and 2 for "
        "frames of no stream, and holds 1 (stream-filters-max)"
    }


def test_dropping_is_refused_where_no_frame_is_out_of_its_window() -> None:
    # A frame is looked at at some time of the greatest processing time.
    defaults = {"recovery": "none", "processing": {"min": "39us", "max": "41us"}}
    always = {"set-point": {"period": "40us"}, "picture": {"frames": 1, "payload": "60B"}}
    with pytest.raises(Unschedulable) as refused:
        planned("drop", defaults=defaults, **always)
    assert refused.value.reasons == {
        "set-point": "its frames may come to s1/t1 at any time of their period of 40 µs, so that "
        "none is out of its window: policing can count, not drop. A talker-lateness of less, or a "
        "longer period, would help"
    }
    counted = planned("count", defaults=defaults, **always)
    assert judge(counted) == []
    assert window(filters(counted)["set-point"]).open_ns == 40_000
