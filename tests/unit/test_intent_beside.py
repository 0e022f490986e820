"""Streams that come to an intent one by one are read as those of a file are."""

from __future__ import annotations

from pathlib import Path

import pytest

from cnc.errors import InputError
from cnc.intent import from_document, load
from cnc.intent.beside import Beside
from cnc.mechanisms.stream_filters.model import Policing, PolicingRules
from cnc.model import Intent

SCHEDULES = Path(__file__).resolve().parents[2] / "schedules"


def without_loops(intent: Intent) -> Intent:
    """Loops name their streams, of which none may be missing."""
    document = {key: its for key, its in intent.document.items() if key != "loops"}
    return from_document(document, "intent")


@pytest.mark.parametrize("path", sorted(SCHEDULES.glob("*.yaml")), ids=lambda its: its.stem)
def test_an_intent_is_the_same_whether_its_streams_come_at_once_or_one_by_one(path):
    whole = without_loops(load(path))
    by_itself = Beside(whole)
    found = by_itself.without(whole, whole.streams)
    assert not found.streams
    for name, keys in whole.document["streams"].items():
        found = by_itself.having(found, {name: keys}, "intent")
    assert found == whole
    assert found.document == whole.document


def bridged() -> Intent:
    return load(SCHEDULES / "bridged5.yaml")


def first(intent: Intent) -> dict[str, object]:
    return dict(next(iter(intent.document["streams"].values())))


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"talker": "nobody"}, "streams.new.talker: found 'nobody', expected one of"),
        ({"period": "1"}, "streams.new.period: found '1', expected a duration"),
        ({"peroid": "1ms"}, "streams.new.peroid: found the unknown key 'peroid'"),
        ({"max-latency": "1us"}, "streams.new.max-latency: found 1us, expected at least"),
        ({"for": {"axis": "1-4"}}, "streams.new.for: found the key 'for', expected other keys"),
        ({"class": "best-effort"}, "streams.new.class"),
        ({"window": {"earliest": "1s"}}, "streams.new.window.earliest"),
    ],
)
def test_what_is_wrong_is_said_as_of_a_file(keys, said):
    intent = bridged()
    stated = {**first(intent), **keys}
    with pytest.raises(InputError) as refused:
        Beside(intent).having(intent, {"new": stated}, "plc")
    assert f"plc: {said}" in str(refused.value)
    if "for" in keys:
        return
    document = {**intent.document, "streams": {**intent.document["streams"], "new": stated}}
    with pytest.raises(InputError) as of_file:
        from_document(document, "plc")
    assert str(refused.value) == str(of_file.value)


def test_an_address_that_another_stream_has_is_refused():
    intent = bridged()
    stated = {**first(intent), "destination-mac": "03:54:53:4e:12:34", "vlan": 10}
    reader = Beside(intent)
    having = reader.having(intent, {"one": stated}, "plc")
    with pytest.raises(InputError, match="in VLAN 10, which stream one has"):
        reader.having(having, {"two": stated}, "plc")
    without = reader.without(having, ["one"])
    assert reader.having(without, {"two": stated}, "plc").streams["two"].vlan_id == 10


def test_what_frames_are_policed_by_comes_and_goes_with_their_stream():
    intent = bridged()
    reader = Beside(intent)
    having = reader.having(intent, {"new": {**first(intent), "policing": "drop"}}, "plc")
    assert having[PolicingRules].streams["new"] is Policing.DROP
    assert reader.without(having, ["new"]) == intent


def test_problems_that_a_network_has_by_itself_are_not_those_of_a_stream():
    intent = load(SCHEDULES / "loop.yaml")
    reader = Beside(intent)
    keys = first(intent)
    assert "new" in reader.having(intent, {"new": keys}, "plc").streams
