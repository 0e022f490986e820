"""What outlives the agent is read back; a port that cannot be read hides no other."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from agent.boot import BOOT_ID
from agent.datastore.memory import Memory, MemoryFile
from agent.mechanisms.gates.history import GateHistory
from agent.mechanisms.gates.model import GateEntry, GateOperation, GateSchedule
from agent.model import Clock, LastChange
from agent.run_context import Link, RunContext

SCHEDULE = GateSchedule(2**62, 100, (GateEntry(1, 60, GateOperation.HOLD), GateEntry(255, 40)))
MEMORY = Memory(
    {"p1": GateHistory(SCHEDULE, 2**62 + 100, 3), "p2": GateHistory(None, 7, 1)},
    LastChange(datetime(2026, 11, 21, 14, 13, 20, 5, UTC), 1234, 2),
    RunContext(
        {Clock.TAI: -37, Clock.REALTIME: 2**62},
        {"p1": Link(3, is_up=True), "p2": Link(None, is_up=False)},
    ),
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run" / "memory.json"


@pytest.mark.parametrize("memory", [MEMORY, Memory()])
def test_what_is_written_is_read(path, memory):
    MemoryFile(path).write(memory)
    assert MemoryFile(path).read() == memory


def test_what_another_boot_left_says_nothing(path, caplog):
    MemoryFile(path).write(MEMORY)
    path.write_text(path.read_text().replace(BOOT_ID.read_text().strip(), "of-yesterday"))
    assert MemoryFile(path).read() == Memory()
    assert caplog.text == ""


def test_a_file_that_is_missing_says_nothing(path, caplog):
    assert MemoryFile(path).read() == Memory()
    assert caplog.text == ""


def test_nobody_else_may_read_it_and_nothing_else_is_left(path):
    MemoryFile(path).write(MEMORY)
    MemoryFile(path).write(Memory())
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o755
    assert list(path.parent.iterdir()) == [path]


def test_a_link_left_in_the_way_is_not_followed(path, tmp_path):
    path.parent.mkdir()
    victim = tmp_path / "victim"
    victim.write_text("precious")
    path.with_suffix(".new").symlink_to(victim)
    MemoryFile(path).write(MEMORY)
    assert victim.read_text() == "precious"
    assert MemoryFile(path).read() == MEMORY


def test_where_nothing_can_be_written_the_agent_serves_on_and_says_so(tmp_path, caplog):
    (tmp_path / "run").write_text("not a directory")
    MemoryFile(tmp_path / "run" / "memory.json").write(MEMORY)
    assert "a restarted agent will not know of this change" in caplog.text


def kept(last_change=None, ports=None, clock_offsets_ns=None, links=None):
    """The text of a file of this boot."""
    run_context = {
        "clock-offsets-ns": clock_offsets_ns or {},
        "links": links or {},
    }
    return json.dumps(
        {
            "boot-id": BOOT_ID.read_text().strip(),
            "last-change": last_change,
            "ports": {} if ports is None else ports,
            "surroundings": run_context,
        }
    )


def damaged(**changes):
    """The same with a port p1, one leaf of which is changed."""
    port = {
        "change-time-ns": 5,
        "change-errors": 0,
        "schedule": {"base-time-ns": 0, "cycle-time-ns": 9, "entries": [["set-gate-states", 1, 9]]},
    }
    changes = {name.replace("_", "-"): value for name, value in changes.items()}
    return kept(ports={"p1": port | changes})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        "{}",
        kept(ports=[]),
        kept({"time": "yesterday", "duration-us": 1, "ports": 1}),
        kept({"time": "2026-11-21", "duration-us": 1, "ports": -1}),
        kept(clock_offsets_ns={"sundial": 1}),
        kept(clock_offsets_ns={"tai": 0.5}),
        "[" * 100_000,
        "\xff",
    ],
)
def test_a_damaged_file_is_ignored_named_and_replaced(path, caplog, text):
    path.parent.mkdir()
    path.write_bytes(text.encode("latin-1"))
    assert MemoryFile(path).read() == Memory()
    assert f"{path} is ignored" in caplog.text
    MemoryFile(path).write(MEMORY)
    assert MemoryFile(path).read() == MEMORY


@pytest.mark.parametrize(
    "text",
    [
        kept(links={"p1": 4}),
        kept(links={"p1": {"carrier-losses": "often", "is-up": True}}),
        kept(links={"p1": {"carrier-losses": 1, "is-up": "perhaps"}}),
        damaged(change_time_ns="soon"),
        damaged(change_time_ns=2**80),
        damaged(change_errors=-1),
        damaged(change_errors=True),
        damaged(schedule={"base-time-ns": 0, "cycle-time-ns": 0, "entries": []}),
        damaged(schedule={"base-time-ns": 2**80, "cycle-time-ns": 9, "entries": []}),
        damaged(schedule={"base-time-ns": 0, "cycle-time-ns": 9, "entries": [["open", 1, 9]]}),
        damaged(schedule={"base-time-ns": 0, "cycle-time-ns": 9, "entries": [[1, 9]]}),
    ],
)
def test_of_a_damaged_port_nothing_is_known_and_of_the_others_all_that_was_kept(path, caplog, text):
    MemoryFile(path).write(MEMORY)
    whole, hurt = json.loads(path.read_text()), json.loads(text)
    whole["ports"] |= hurt["ports"]
    whole["surroundings"]["links"] |= hurt["surroundings"]["links"]
    path.write_text(json.dumps(whole))

    read = MemoryFile(path).read()

    context = MEMORY.run_context
    links = {p: each for p, each in context.links.items() if p not in hurt["surroundings"]["links"]}
    history = {p: each for p, each in MEMORY.history.items() if p not in hurt["ports"]}
    assert read == Memory(history, MEMORY.last_change, replace(context, links=links))
    assert f"{path}: what it has of port p1 is ignored" in caplog.text


def test_without_the_damage_the_same_file_is_read(path):
    path.parent.mkdir()
    path.write_text(damaged())
    assert MemoryFile(path).read().history["p1"].change_time_ns == 5


def test_a_time_without_a_zone_is_read_as_local_and_shown_with_one(path):
    path.parent.mkdir()
    last = {"time": "2026-11-21T10:00:00", "duration-us": 1, "ports": 1}
    path.write_text(kept(last))
    assert MemoryFile(path).read().last_change.time.tzinfo is UTC
