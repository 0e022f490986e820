"""Plan files: what is written can be read again, and nothing else can.

Every file in `data/plan-refused` is refused in exactly the words of the text beside it. After a
change of wording, `REGENERATE=1 pytest` writes the texts anew: read the difference.
"""

import json
import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from cnc.check import judge
from cnc.errors import InputError
from cnc.model import GateLimits, Intent, MeasuredMargin, Plan, PortRef
from cnc.plans import file as planfile

DATA = Path(__file__).parent / "data"
REFUSED = DATA / "plan-refused"


@pytest.fixture(scope="module")
def line3() -> Plan:
    return planfile.load(DATA / "line3-plan.json")


def test_a_plan_survives_the_way_through_a_file(line3: Plan, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    text = planfile.dump(line3, path)
    again = planfile.load(path)
    assert again == line3
    assert again.intent.document == line3.intent.document
    assert path.read_text(encoding="utf-8") == text == planfile.dump(again)


def test_both_paths_of_a_stream_and_the_streams_left_out_survive(
    line3: Plan, tmp_path: Path
) -> None:
    (way,) = line3.streams["motion"].paths
    later = tuple(replace(hop, offset_ns=hop.offset_ns + 5_000) for hop in way)
    streams = {**line3.streams, "motion": replace(line3.streams["motion"], paths=(way, later))}
    del streams["camera"], streams["valves"]
    refused = {"valves": "50 µs are too few", "camera": "no room on s1/s2"}
    partial = replace(line3, streams=streams, refused=refused)
    path = tmp_path / "plan.json"
    text = planfile.dump(partial, path)
    assert planfile.load(path) == partial
    assert '\n "valves": "50 µs are too few"\n' in text


def test_what_the_switches_stated_survives_and_limits_the_ports_again(
    line3: Plan, tmp_path: Path
) -> None:
    port = PortRef("s1", "s2")
    limits = GateLimits(entries_max=16, interval_max_ns=10**9, tick_ns=8)
    asked = replace(line3, intent=line3.intent.within({port: limits}))
    path = tmp_path / "plan.json"
    text = planfile.dump(asked, path)
    again = planfile.load(path)
    assert again == asked
    assert again.intent.stated_limits == {port: limits}
    link = again.intent.network.links[port]
    assert (link.gate_entries_max, link.gate_interval_max_ns, link.gate_tick_ns) == (16, 10**9, 8)
    assert json.loads(text)["intent"] == line3.intent.document
    assert text == planfile.dump(again)


def unstated(line3: Plan) -> Intent:
    """The intent of line3 without a word of the gate margin."""
    document = json.loads(json.dumps(line3.intent.document))
    del document["defaults"]["gate-margin"]
    return replace(line3.intent, document=document)


def test_the_gate_margin_of_a_plan_and_what_it_was_measured_on_survive(line3: Plan) -> None:
    measured = MeasuredMargin(50_000, PortRef("s1", "s2"), 43_210, 1_234_567)
    asked = replace(line3, intent=unstated(line3).with_gate_margin(50_000, measured))
    text = planfile.dump(asked)
    again = planfile.parse(text, "plan.json")
    assert again == asked
    assert again.intent.network.gate_margin_ns == 50_000
    assert json.loads(text)["gate_margin"] == {
        "value_ns": 50_000,
        "measured": {"port": "s1/s2", "maximum_ns": 43_210, "count": 1_234_567},
    }
    assert text == planfile.dump(again)


def test_a_plan_keeps_the_default_gate_margin_of_its_time(line3: Plan) -> None:
    older = replace(line3, intent=unstated(line3).with_gate_margin(70_000))
    again = planfile.parse(planfile.dump(older), "plan.json")
    assert again.intent.network.gate_margin_ns == 70_000
    assert again.intent.measured_margin is None


def test_an_older_plan_file_is_to_be_planned_again() -> None:
    with pytest.raises(InputError) as refused:
        planfile.load(REFUSED / "older-format.json")
    assert "run `cnc plan` on the intent again" in str(refused.value.hint)


def in_format_2(plan: Plan, **defaults: str) -> str:
    """The plan as a file of format 2, whose intent states `defaults` and leaves out what format 2
    implied."""
    document = json.loads(planfile.dump(plan))
    for key in ("gate-margin", "talker-interference"):
        document["intent"]["defaults"].pop(key, None)
    document["intent"]["defaults"] |= defaults
    return json.dumps(document | {"format": "cnc-plan/2"})


def test_a_plan_file_of_format_2_keeps_the_values_that_its_intent_left_out(line3: Plan) -> None:
    plan = planfile.parse(in_format_2(line3), "old.json")
    assert plan == line3
    assert plan.intent.network.gate_margin_ns == 0
    written = json.loads(planfile.dump(plan))
    assert written["format"] == "cnc-plan/3"
    assert written["intent"]["defaults"]["gate-margin"] == "0ns"
    assert written["intent"]["defaults"]["talker-interference"] == "none"


def test_a_plan_file_of_format_2_keeps_the_values_that_its_intent_states(line3: Plan) -> None:
    plan = planfile.parse(in_format_2(line3, **{"gate-margin": "30us"}), "old.json")
    assert plan.intent.network.gate_margin_ns == 30_000


@pytest.mark.parametrize("intent", [None, [], {}, {"defaults": None}, {"defaults": []}])
def test_a_plan_file_of_format_2_without_a_sound_intent_is_bad_input(intent: object) -> None:
    text = json.dumps({"format": "cnc-plan/2", "intent": intent})
    with pytest.raises(InputError, match=r"old\.json: intent"):
        planfile.parse(text, "old.json")


def test_two_plans_can_be_compared_line_by_line(line3: Plan) -> None:
    lines = planfile.dump(line3).splitlines()
    for key in (*line3.streams, *map(str, line3.gates)):
        (line,) = (line for line in lines if line.startswith(f' "{key}": ' + '{"'))
        assert line.rstrip(",}").count('"') > 2


def test_the_file_holds_the_intent_the_hops_and_the_gates(line3: Plan) -> None:
    document = json.loads(planfile.dump(line3))
    assert list(document) == ["format", "intent", "algorithm", "streams", "refused", "gates"]
    assert document["format"] == "cnc-plan/3"
    assert document["intent"] == line3.intent.document
    first = line3.streams["camera"].hops[0]
    assert document["streams"]["camera"]["paths"][0][0] == ["t2", "eth0", first.offset_ns, 6]
    gates = document["gates"]["s3/l2"]
    assert sum(interval for _, interval in gates["entries"]) == gates["cycle_ns"] == 2_000_000
    assert {states for states, _ in gates["entries"]} == {"0x80", "0x81", "0xc0"}


def test_a_plan_file_is_readable_by_all_and_replaced_whole(line3: Plan, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text("an older plan")
    planfile.dump(line3, path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert list(tmp_path.iterdir()) == [path]


def test_a_plan_that_cannot_be_written_leaves_the_old_one(
    line3: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "plan.json"
    path.write_text("an older plan")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match="No space left on device"):
        planfile.dump(line3, path)
    assert path.read_text() == "an older plan"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", sorted(path.stem for path in REFUSED.glob("*.json")))
def test_a_bad_plan_file_is_refused_with_place_finding_and_expectation(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(REFUSED)
    with pytest.raises(InputError) as refused:
        planfile.load(Path(f"{name}.json"))
    golden = REFUSED / f"{name}.txt"
    if os.environ.get("REGENERATE"):
        golden.write_text(f"{refused.value}\n", encoding="utf-8")
    assert f"{refused.value}\n" == golden.read_text(encoding="utf-8")


def test_a_missing_file_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file or directory"):
        planfile.load(tmp_path / "nowhere.json")


def test_a_file_too_large_is_refused_unread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planfile, "SIZE_MAX_OCTETS", 10)
    path = tmp_path / "plan.json"
    path.write_text("x" * 11)
    with pytest.raises(InputError, match="found 11 octets, expected at most 10"):
        planfile.load(path)


def test_text_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_bytes(b'{"format": "\xff"}')
    with pytest.raises(InputError, match=r"not UTF-8 text \(octet 12\)"):
        planfile.load(path)


def test_bottomless_nesting_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text("[" * 100_000)
    with pytest.raises(InputError, match="nested too deeply"):
        planfile.load(path)


def test_a_plan_that_rests_on_preemption_is_read_and_then_refused(line3: Plan) -> None:
    """The history may hold one, and must stay readable."""
    document = json.loads(planfile.dump(line3))
    document["intent"]["switches"]["s1"]["ports"] = {
        "t1": {},
        "t2": {},
        "s2": {"preemption": True},
    }
    plan = planfile.parse(json.dumps(document), "old.json")
    assert ("preemption", "s1/s2") in {(each.code, each.where) for each in judge(plan)}
