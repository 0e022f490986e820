"""A stream that a program made is read from its keys as it was."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import cnc
from cnc import app
from cnc.intent.beside import Beside
from cnc.keys.written import keys_of
from cnc.model import NextProtocol, SourceMacIdentification
from cnc.model.streams import IpIdentification
from tests.unit.uni_bodies import SCHEDULES

FILES = sorted(SCHEDULES.glob("*.yaml"))


@pytest.mark.parametrize("file", FILES, ids=lambda its: its.stem)
def test_every_stream_of_the_examples_is_read_from_its_keys_as_it_was(file: Path) -> None:
    intent = cnc.load_intent(file)
    few = dict([*intent.streams.items()][:20])
    written = {name: keys_of(its, intent.document) for name, its in few.items()}
    found = Beside(intent).having(intent, written, "a program")
    assert {name: found.streams[name] for name in few} == few


@pytest.mark.parametrize(
    "known_by",
    [
        SourceMacIdentification("02:00:5e:05:00:07"),
        IpIdentification("192.0.2.9", "192.0.2.8", NextProtocol.UDP, None, 5004, 12),
    ],
)
def test_what_untagged_frames_are_known_by_is_written(known_by: object) -> None:
    intent = cnc.load_intent(SCHEDULES / "bridged5.yaml")
    stream = replace(intent.streams["sound"], name="speech", identification=known_by)
    keys = {"speech": keys_of(stream, intent.document)}
    without = Beside(intent).without(intent, ["sound"])
    assert Beside(intent).having(without, keys, "a program").streams["speech"] == stream


def test_a_plan_that_has_changed_in_memory_is_written_as_it_is(tmp_path: Path) -> None:
    """One stream is gone, one is another, one is new."""
    live = cnc.Live(cnc.plan(cnc.load_intent(SCHEDULES / "line3.yaml")))
    valves, torque = (live.plan.intent.streams[name] for name in ("valves", "torque"))
    live.remove(["valves", "torque", "camera"])
    live.add([replace(torque, payload_octets=60), replace(valves, name="brakes"), valves])
    file = tmp_path / "plan.json"

    app.dump_plan(live.plan, file)

    read = app.load_plan(file)
    assert read == live.plan
    assert "camera" not in read.intent.document["streams"]
    assert cnc.judge(read) == []
