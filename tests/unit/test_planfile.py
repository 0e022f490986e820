"""Plan files: what is written can be read again, and nothing else can.

Every file in `data/plan-refused` is refused in exactly the words of the text beside it. After a
change of wording, `REGENERATE=1 pytest` writes the texts anew: read the difference.
"""

import json
import os
import stat
from pathlib import Path

import pytest

from cnc import intent, planfile
from cnc.errors import InputError
from cnc.model import Plan
from cnc.planner import plan

LINE3 = Path(__file__).parents[2] / "schedules" / "line3.yaml"
REFUSED = Path(__file__).parent / "data" / "plan-refused"


@pytest.fixture(scope="module")
def line3() -> Plan:
    return plan(intent.load(LINE3))


def test_a_plan_survives_the_way_through_a_file(line3: Plan, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    text = planfile.dump(line3, path)
    again = planfile.load(path)
    assert again == line3
    assert again.intent.document == line3.intent.document
    assert path.read_text(encoding="utf-8") == text == planfile.dump(again)


def test_the_file_holds_the_intent_the_hops_and_the_gates(line3: Plan) -> None:
    document = json.loads(planfile.dump(line3))
    assert list(document) == ["format", "intent", "algorithm", "streams", "gates"]
    assert document["format"] == "cnc-plan/1"
    assert document["intent"] == line3.intent.document
    first = line3.streams["camera"].hops[0]
    assert document["streams"]["camera"]["hops"][0] == ["t2", "eth0", first.offset_ns, 6]
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
