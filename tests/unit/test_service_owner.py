"""What a service begins with: its store, and the intent file as it is now."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from cnc import app
from cnc.check import judge
from cnc.errors import CncError, InputError
from cnc.service import owner
from cnc.service.admission import Admission
from cnc.service.store import FILE_NAME, Store
from tests.unit.service_network import FILE, planned

NEW = {
    "talker": "t1",
    "listeners": ["l1"],
    "class": "cyclic",
    "period": "1ms",
    "payload": "200B",
    "max-latency": "200us",
}
OF_CUC = "plc__00-1B-21-00-00-01_00-01"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    its = Store(tmp_path / FILE_NAME)
    yield its
    its.close()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "cell.yaml"
    path.write_text(FILE.read_text())
    return path


def change(file: Path, **sections: object) -> None:
    """Write the file anew; a section that is None goes, a stream that is None as well."""
    document = yaml.safe_load(file.read_text())
    for key, its in sections.items():
        if key == "streams":
            document["streams"] |= its
            gone = [name for name, keys in document["streams"].items() if keys is None]
            for name in gone:
                del document["streams"][name]
        else:
            document[key] = its
    file.write_text(yaml.safe_dump(document))


def with_cuc(file: Path, store: Store) -> Admission:
    admission = owner.begin(file, store, planned)
    with (
        admission.changing({OF_CUC: NEW}, (), "plc") as change,
        store.deciding(owner._itself(file), "stream.put", OF_CUC, "placed") as made,
    ):
        made.take_plan(change.before, change.plan, change.touched)
    return admission


def test_the_stored_plan_is_loaded_and_not_planned_anew(file, store):
    before = with_cuc(file, store).plan
    again = owner.begin(file, store, pytest.fail).plan
    assert again == before
    assert again.intent.document == before.intent.document
    assert not judge(again)


def test_streams_of_the_file_come_change_and_go_and_no_other_moves(file, store, caplog):
    before = with_cuc(file, store).plan
    first, second = sorted(app.load_intent(file).streams)[:2]
    payload = {**yaml.safe_load(file.read_text())["streams"][first], "payload": "300B"}
    change(file, streams={"new": NEW, first: payload, second: None})
    after = owner.begin(file, store, pytest.fail).plan
    assert f"added new; changed {first}; removed {second}" in caplog.text
    assert {its.stream for its in app.moves(before, after)} <= {first}
    assert "new" in after.streams
    assert second not in after.streams
    assert after.intent.streams[first].payload_octets == 300
    assert after.streams[OF_CUC] == before.streams[OF_CUC]
    assert not judge(after)
    assert owner.begin(file, store, pytest.fail).plan == after  # taken once


def test_a_stream_of_the_file_that_has_no_place_is_refused_by_name_and_nothing_changes(file, store):
    before = with_cuc(file, store).plan
    noted = store.noted("file")
    change(file, streams={"new": {**NEW, "payload": "1400B", "frames": 60, "max-latency": "900us"}})
    with pytest.raises(CncError, match=r"cell.yaml: added new: the running") as refused:
        owner.begin(file, store, pytest.fail)
    assert "keep the intent that runs" in refused.value.hint
    assert store.plan() == before
    assert store.noted("file") == noted


def with_a_spare_station(file: Path) -> dict[str, object]:
    """The sections that a station more changes."""
    its = yaml.safe_load(file.read_text())
    stations = its["end-stations"]
    added = [*stations, "spare"] if isinstance(stations, list) else {**stations, "spare": {}}
    links = [*its["links"], ["spare/eth0", "s1/spare"]]
    its["switches"]["s1"]["ports"] = [*its["switches"]["s1"]["ports"], "spare"]
    return {"end-stations": added, "links": links, "switches": its["switches"]}


def test_another_section_is_taken_where_no_stream_has_to_move(file, store):
    before = with_cuc(file, store).plan
    change(file, **with_a_spare_station(file))
    after = owner.begin(file, store, pytest.fail).plan
    assert "spare" in after.intent.network.end_stations
    assert after.streams == before.streams
    assert not judge(after)
    assert store.plan() == after


def test_another_section_that_moves_streams_is_refused_by_name(file, store):
    before = with_cuc(file, store).plan
    defaults = {**yaml.safe_load(file.read_text())["defaults"], "clock-error": "3us"}
    change(file, defaults=defaults)
    with pytest.raises(CncError, match=r"cell.yaml: defaults changed: ") as refused:
        owner.begin(file, store, pytest.fail)
    assert "clock error" in str(refused.value)
    assert store.plan() == before


def test_a_stream_of_the_file_with_the_name_of_a_cucs_is_refused(file, store):
    with_cuc(file, store)
    change(file, streams={OF_CUC: NEW})
    with pytest.raises(InputError, match="a CUC has a stream of that name"):
        owner.begin(file, store, pytest.fail)


def test_a_stream_with_the_name_of_a_cucs_is_refused_beside_another_section_too(file, store):
    with_cuc(file, store)
    change(file, streams={OF_CUC: NEW}, **with_a_spare_station(file))
    with pytest.raises(InputError, match="a CUC has a stream of that name"):
        owner.begin(file, store, pytest.fail)


def test_a_file_that_says_what_was_handed_over_before_changes_nothing(file, store):
    admission = with_cuc(file, store)
    change(file, streams={"late": NEW})
    intent, asker = app.load_intent(file), owner._itself(file)
    handed_over = owner.change_to(intent, store)
    with owner.taking("laptop", intent, handed_over, admission=admission, store=store, asker=asker):
        pass
    decided = store.noted("decided")
    assert owner.begin(file, store, pytest.fail).plan == admission.plan
    assert store.noted("decided") == decided


def test_another_network_is_refused(file, store):
    with_cuc(file, store)
    change(file, name="other")
    with pytest.raises(InputError, match="the network other, and the service in this directory"):
        owner.begin(file, store, pytest.fail)


def test_recovery_is_promised_in_whole_periods_so_that_streams_that_come_have_room(file, store):
    plan = owner.begin(file, store, planned).plan
    longest_ns = max(its.period_ns for its in plan.intent.streams.values())
    assert plan.recovery_ns.keys() == plan.streams.keys()
    assert {ns % longest_ns for ns in plan.recovery_ns.values()} == {0}
    after = with_cuc(file, store).plan
    assert after.recovery_ns.items() > plan.recovery_ns.items()
    assert after.recovery_ns[OF_CUC] % longest_ns == 0
    assert judge(after) == []
