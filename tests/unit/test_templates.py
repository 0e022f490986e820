"""Streams that are written once for many: by templates, and repeated for values."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from cnc import intent
from cnc.errors import InputError
from cnc.intent import templates
from cnc.intent.templates import STREAMS_MAX
from cnc.planner import plan
from cnc.plans import file as planfile

SERVO = {"class": "cyclic", "period": "1ms", "payload": "100B", "max-latency": "200us"}
SET = {"for": {"axis": "1-3"}, "template": "servo", "talker": "plc", "listeners": ["d{axis}"]}
ACTUAL = {"for": {"axis": [1, 3]}, "template": "servo", "talker": "d{axis}", "listeners": ["plc"]}


def document(
    streams: dict[str, Any], templates: dict[str, Any] | None = None, **keys: Any
) -> dict[str, Any]:
    """A switch with a controller and three drives."""
    stations = ["plc", "d1", "d2", "d3"]
    return {
        "name": "many",
        "defaults": {
            "rate": "1Gbps",
            "propagation": "100ns",
            "processing": {"min": "1us", "max": "5us"},
            "clock-error": "1us",
            "gate-margin": "0ns",
        },
        "classes": {
            "cyclic": {"traffic-class": 6, "priority": 6, "dscp": 46, "role": "scheduled"},
            "best-effort": {"traffic-class": 0, "priority": 0, "dscp": 0, "role": "best-effort"},
        },
        "switches": {"s1": {"management": "10.99.0.1", "ports": stations}},
        "end-stations": stations,
        "links": [[f"{station}/eth0", f"s1/{station}"] for station in stations],
        **({} if templates is None else {"templates": templates}),
        "streams": streams,
        **keys,
    }


def read(streams: dict[str, Any], templates: dict[str, Any] | None = None, **keys: Any) -> Any:
    return intent.from_document(document(streams, templates, **keys), "many.yaml")


def refusal(streams: Any, templates: Any = None) -> str:
    with pytest.raises(InputError) as refused:
        read(streams, templates)
    return str(refused.value)


def test_a_stream_has_the_keys_of_its_template_where_it_states_none() -> None:
    own = {"template": "servo", "talker": "plc", "listeners": ["d1"], "payload": "64B"}
    other = {"template": "servo", "talker": "plc", "listeners": ["d1"]}
    found = read({"a": own, "b": other}, {"servo": SERVO})
    assert found.streams["a"].payload_octets == 64
    assert found.streams["a"].period_ns == 1_000_000
    written_out = {key: value for key, value in own.items() if key != "template"}
    assert read({"a": {**SERVO, **written_out}}).streams["a"] == found.streams["a"]


def test_an_entry_stands_for_a_stream_for_each_value() -> None:
    found = read({"set-{axis}": SET, "back-{axis}": ACTUAL}, {"servo": SERVO})
    assert list(found.streams) == ["set-1", "set-2", "set-3", "back-1", "back-3"]
    assert found.streams["set-2"].listeners == ("d2",)
    assert found.streams["back-3"].talker == "d3"


def test_several_names_stand_for_each_combination() -> None:
    both = SET | {"for": {"axis": [1, 2], "kind": ["set", "reset"]}}
    found = read({"{kind}-{axis}": both}, {"servo": SERVO})
    assert list(found.streams) == ["set-1", "reset-1", "set-2", "reset-2"]


def test_a_value_that_is_a_number_is_one_where_it_stands_alone() -> None:
    vlan = SET | {"vlan": "{vlan}", "for": {"axis": [1], "vlan": [20]}}
    found = read({"set-{axis}-{vlan}": vlan}, {"servo": SERVO}, forwarding="bridged")
    assert found.streams["set-1-20"].vlan_id == 20


def test_a_placeholder_in_a_template_is_filled_in_too() -> None:
    common = {**SERVO, "talker": "d{axis}", "window": {"earliest": "{axis}0us"}}
    back = {"for": {"axis": [1, 2]}, "template": "servo", "listeners": ["plc"]}
    found = read({"back-{axis}": back}, {"servo": common})
    assert [its.talker for its in found.streams.values()] == ["d1", "d2"]
    assert [its.earliest_ns for its in found.streams.values()] == [10_000, 20_000]


def test_a_plan_has_the_streams_written_out_and_its_file_reads_as_the_same() -> None:
    planned = plan(read({"set-{axis}": SET}, {"servo": SERVO}))
    written = json.loads(planfile.dump(planned))["intent"]
    assert "templates" not in written
    assert written["streams"]["set-2"] == {**SERVO, "talker": "plc", "listeners": ["d2"]}
    again = planfile.parse(planfile.dump(planned), "plan.json")
    assert again.intent.streams == planned.intent.streams


def test_what_is_planned_is_what_is_planned_of_streams_that_are_written_out() -> None:
    short = plan(read({"set-{axis}": SET}, {"servo": SERVO}))
    long = {
        f"set-{axis}": {**SERVO, "talker": "plc", "listeners": [f"d{axis}"]} for axis in (1, 2, 3)
    }
    assert planfile.dump(plan(read(long))) == planfile.dump(short)


def test_a_problem_is_told_once_of_the_first_stream_that_has_it() -> None:
    told = refusal({"set-{axis}": SET}, {"servo": SERVO | {"period": "1xs"}})
    assert told == (
        "many.yaml: templates.servo.period: found '1xs' (stream set-1), expected a duration such "
        "as 250us, 1ms"
    )


def test_a_problem_of_a_key_that_the_stream_states_itself_is_told_there() -> None:
    other = {"template": "servo", "talker": "plc", "listeners": ["d1"]}
    told = refusal({"set-{axis}": SET | {"period": "1xs"}, "x": other}, {"servo": SERVO})
    assert told.startswith("many.yaml: streams.set-{axis}.period: found '1xs' (stream set-1)")


def test_a_problem_of_one_of_many_streams_names_it() -> None:
    told = refusal({"set-{axis}": SET | {"for": {"axis": "1-4"}}}, {"servo": SERVO})
    assert told == (
        "many.yaml: streams.set-{axis}.listeners[0]: found 'd4' (stream set-4), expected one of "
        "d1, d2, d3, plc"
    )


@pytest.mark.parametrize(("last", "refused"), [(8, False), (9, True)])
def test_as_many_streams_as_there_may_be_are_written_out(
    monkeypatch: pytest.MonkeyPatch, last: int, refused: bool
) -> None:
    monkeypatch.setattr(templates, "STREAMS_MAX", 10)
    many = SET | {"for": {"axis": f"1-{last}"}, "listeners": ["d1"]}
    one = {**SERVO, "talker": "d1", "listeners": ["plc"]}
    told = refusal({"x": one, "set-{axis}": many, "y": one | {"talker": "none"}}, {"servo": SERVO})
    assert ("streams.y: found 11 streams up to here, expected at most 10" in told) == refused
    assert ("streams.y.talker: found 'none'" in told) == (not refused)


@pytest.mark.parametrize("values", ["1-999999999", "0 - 999999999"])
def test_too_many_streams_are_refused_before_they_are_made(values: str) -> None:
    many = SET | {"for": {"axis": values, "other": values}}
    told = refusal({"set-{axis}-{other}": many}, {"servo": SERVO})
    assert f"expected at most {STREAMS_MAX} in all" in told


def test_long_texts_count_as_well() -> None:
    many = SET | {"for": {"axis": "1-90000"}, "listeners": [f"d{{axis}}{'x' * 1000}"]}
    assert "character" in refusal({"set-{axis}": many}, {"servo": SERVO})


def test_editors_accept_what_is_written_short_and_still_require_the_rest() -> None:
    schema = intent.json_schema()
    short = document(
        {"set-{axis}": SET | {"vlan": "{axis}"}, "back-{axis}": ACTUAL}, {"servo": SERVO}
    )
    jsonschema.validate(short, schema)
    lacking = deepcopy(short)
    lacking["streams"]["one"] = {"talker": "plc", "listeners": ["d1"]}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(lacking, schema)
    wrong = deepcopy(short)
    wrong["templates"]["servo"]["perod"] = "1ms"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(wrong, schema)


def test_the_shipped_example_is_shorter_and_has_the_same_streams() -> None:
    file = Path(__file__).parents[2] / "schedules" / "ring6.yaml"
    found = intent.load(file)
    assert "axis{axis}-set" in file.read_text()
    assert list(found.streams)[:4] == ["axis1-set", "axis2-set", "axis1-actual", "axis2-actual"]
    assert found.streams["axis2-actual"].talker == "axis2"
