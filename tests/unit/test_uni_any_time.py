"""Streams of CUCs whose talkers send at any time: without `time-aware` a stream has a class with
`shaping`; docs/operate/uni.md."""

from __future__ import annotations

from typing import Any

import pytest

from cnc.check import judge
from cnc.model import Intent, Shaper
from cnc.service import uni
from cnc.service.uni import Failure, Refused
from tests.unit.uni_bodies import ACTIVE, body, network, planned, with_stream

NAME = "plc__1"
SHAPED, CYCLIC = network("shapers3.yaml"), network("cqf4.yaml")
TALKER, LISTENER, OTHER = 1, 3, 4
MS = 1_000_000


def frames(pcp: int | None = None, vlan: int = 20) -> list[dict[str, Any]]:
    tag = {"vlan-id": vlan} | ({} if pcp is None else {"priority-code-point": pcp})
    return [
        {"ieee802-mac-addresses": {"destination-mac-address": "91-E0-F0-00-FE-07"}},
        {"ieee802-vlan-tag": tag},
    ]


def asked(pcp: int | None, listeners: list[int] | None = None, **keys: Any) -> dict[str, Any]:
    """A stream without `time-aware`, whose ends take from the plan what its frames do not have."""
    found = body(TALKER, listeners or [LISTENER], frames(pcp), max_latency=50 * MS, **keys)
    del found["talker"]["traffic-specification"]["time-aware"]
    for end in (found["talker"], *found["listener"]):
        end["interface-capabilities"] = {
            "vlan-tag-capable": True,
            "cb-stream-iden-type-list": [ACTIVE],
        }
    return found


def refused(its: dict[str, Any], intent: Intent = SHAPED) -> Refused:
    with pytest.raises(Refused) as refusal:
        uni.wanted(its, NAME, intent)
    assert refusal.value.hint
    return refusal.value


@pytest.mark.parametrize(
    ("intent", "pcp", "name"),
    [(SHAPED, 5, "video"), (SHAPED, 4, "alarms"), (CYCLIC, 5, "sensors")],
)
def test_the_priority_chooses_the_class_and_there_is_no_window(intent, pcp, name):
    keys = uni.wanted(asked(pcp), NAME, intent)
    assert keys["class"] == name
    assert "window" not in keys


def test_without_a_priority_the_highest_class_is_chosen_that_takes_its_frames():
    highest = SHAPED.classes_without_instants()[0].name
    assert uni.wanted(asked(None), NAME, SHAPED)["class"] == highest


def test_a_priority_of_planned_frames_is_refused_and_with_time_aware_one_of_the_others():
    (axes,) = (its.priority for its in SHAPED.planned_classes())
    assert refused(asked(axes)).failure_code == Failure.PRIORITY
    with_time = body(TALKER, [LISTENER], frames(5), time_aware={})
    assert refused(with_time).failure_code == Failure.PRIORITY
    assert "without time-aware" not in str(refused(with_time))


def test_two_trees_are_refused():
    its = asked(5)
    its["talker"]["user-to-network-requirements"]["num-seamless-trees"] = 2
    assert refused(its).failure_code == Failure.BRIDGE_RESOURCES


def test_untagged_frames_are_refused():
    its = asked(5)
    its["talker"]["data-frame-specification"] = [{"index": 0, **frames(5)[0]}]
    its["listener"][0]["interface-capabilities"]["vlan-tag-capable"] = False
    assert refused(its).failure_code == Failure.NO_TRANSFORMATION


@pytest.mark.parametrize(
    ("intent", "pcp", "shaper"), [(SHAPED, 5, Shaper.CREDIT), (CYCLIC, 5, None)]
)
def test_the_answer_has_its_bound_and_no_time_to_send_at(intent, pcp, shaper):
    its = asked(pcp)
    plan = with_stream(planned(intent), NAME, uni.wanted(its, NAME, intent))
    answer = uni.answer(plan, NAME, its)

    assert plan.streams[NAME].shaper is shaper
    assert not judge(plan)
    assert uni.narrowed(plan, NAME, its) is None
    bound_ns = plan.streams[NAME].latency_bound_ns
    assert 0 < bound_ns - answer["talker"]["accumulated-latency"] < 100_000
    (listed,) = answer["talker"]["interface-configuration"]["interface-list"]
    assert not any("time-aware-offset" in each for each in listed["config-list"])


def test_without_a_max_latency_ten_periods_are_allowed():
    its = asked(5)
    its["talker"]["user-to-network-requirements"]["max-latency"] = 0
    assert uni.wanted(its, NAME, SHAPED)["max-latency"] == f"{10 * MS}ns"
