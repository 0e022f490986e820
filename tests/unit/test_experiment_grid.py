"""Grids of an experiment: which runs there are, what is refused, and how they go side by side."""

from __future__ import annotations

import csv
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Annotated, Any

import pytest
from click.testing import CliRunner, Result
from pydantic import Field

from cnc import cli
from cnc import intent as intents
from cnc.errors import InputError
from cnc.intent.replacing import path_of, with_value
from cnc.keys.values import text
from cnc.planner import executors
from cnc.testbed import experiments
from cnc.testbed.experiments import description
from cnc.testbed.experiments.grid import runs
from cnc.testbed.experiments.grid.points import EXPERIMENT, INTENT, points
from cnc.testbed.experiments.keys import NAMES_A_FILE, NetworkDescription

SCHEDULES = Path(__file__).parents[2] / "schedules"
EXPERIMENTS = SCHEDULES / "experiments"
BOUNDS, ERRORS = EXPERIMENTS / "bound-check.yaml", EXPERIMENTS / "clock-error.yaml"
SWEEP, STEPS = EXPERIMENTS / "share-sweep.yaml", EXPERIMENTS / "clock-steps.yaml"


def measure(*argv: object) -> Result:
    return CliRunner().invoke(cli.cnc, ["lab", "measure", *map(str, argv)])


# --- points ---------------------------------------------------------------------------------------


def test_all_values_are_combined_and_the_last_key_varies_fastest():
    found = points(BOUNDS, ["frames=100,200", "streams.recipe.period=4ms,8ms"])
    assert [tuple(point.values.values()) for point in found] == [
        ("100", "4ms"),
        ("100", "8ms"),
        ("200", "4ms"),
        ("200", "8ms"),
    ]
    assert found[1].name == "2-frames=100,streams.recipe.period=8ms"


def test_a_point_is_an_experiment_with_an_intent_of_its_own(tmp_path: Path):
    (point,) = points(BOUNDS, ["frames=100", "streams.recipe.period=8ms"])
    file = point.write(tmp_path)
    assert description.load(file).model_dump() == {
        **description.load(BOUNDS).model_dump(),
        "frames": 100,
        "network": INTENT,
    }
    intent = intents.load(tmp_path / INTENT)
    assert intent.streams["recipe"].period_ns == 8_000_000
    original = intents.load(SCHEDULES / "line5.yaml")
    assert intent.streams.keys() == original.streams.keys()
    assert intent.network == original.network


def test_an_intent_of_which_no_key_is_set_stays_as_its_author_wrote_it(tmp_path: Path):
    (point,) = points(BOUNDS, ["frames=100"])
    point.write(tmp_path)
    assert (tmp_path / INTENT).read_text() == (SCHEDULES / "line5.yaml").read_text()


def test_an_experiment_without_a_network_has_no_intent(tmp_path: Path):
    found = points(SWEEP, ["shares=[30],[50, 70]", "closed-form=true"])
    assert [point.values["shares"] for point in found] == ["[30]", "[50, 70]"]
    found[1].write(tmp_path)
    assert os.listdir(tmp_path) == [EXPERIMENT]  # noqa: PTH208
    assert description.load(tmp_path / EXPERIMENT).shares == [50, 70]  # type: ignore[attr-defined]


def test_a_key_may_be_that_of_another_network(tmp_path: Path):
    found = points(BOUNDS, ["network=../line3.yaml,../line5.yaml"])
    found[0].write(tmp_path)
    assert intents.load(tmp_path / INTENT).name == "line3"


class Repeated(NetworkDescription):
    """An experiment that names a further file."""

    recorded: Annotated[str, text(".+", "the path of a recording"), NAMES_A_FILE] = Field(
        description="what is sent again"
    )


def test_a_point_finds_every_file_that_its_experiment_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(description.KINDS, "repeated", Repeated)
    found: list[str] = []

    def made(its: Repeated, file: Path) -> None:
        found.append((file.parent / its.recorded).read_text())

    monkeypatch.setitem(experiments._MADE_OF, Repeated, made)
    (tmp_path / "recorded").mkdir()
    for name in ("a", "b"):
        (tmp_path / "recorded" / f"{name}.csv").write_text(name)
    file = tmp_path / "repeated.yaml"
    network = SCHEDULES / "line3.yaml"
    file.write_text(
        f"kind: repeated\nname: again\ntitle: Again\nnetwork: {network}\nrecorded: recorded/a.csv\n"
    )
    for point in points(file, ["recorded=recorded/a.csv,recorded/b.csv"]):
        of_point = point.write(tmp_path / "out" / point.name)
        experiments.experiment_of(description.load(of_point), of_point)
    assert found == ["a", "b"] * 2, "where it is checked, and where it is run"


def test_a_key_that_both_have_needs_a_word_before_it():
    with pytest.raises(InputError, match=r"switches=.* both the experiment and its intent") as told:
        points(ERRORS, ["switches=[s1],[s2]"])
    assert told.value.hint == "write experiment.switches or network.switches"
    assert len(points(ERRORS, ["experiment.switches=[s1],[s2]"])) == 2
    found = points(ERRORS, ["network.switches.s1.processing={min: 1us, max: 2us}"])
    assert "min: 1us" in found[0].files[INTENT]


def test_small_numbers_survive_being_written(tmp_path: Path):
    loop = EXPERIMENTS / "step-responses.yaml"
    (point,) = points(loop, ["tune.kp.from=0.00001"])
    found = description.load(point.write(tmp_path))
    assert str(found.tune.kp.from_) == "0.00001"  # type: ignore[attr-defined]


def test_labs_of_kernels_have_a_name_each_since_they_share_this_machine():
    found = points(STEPS, ["sends-for=1s,2s"])
    names = [line for p in found for line in p.files[EXPERIMENT].splitlines() if "name:" in line]
    assert names == ["name: clock-steps-1", "name: clock-steps-2"]


@pytest.mark.parametrize(
    ("setting", "why"),
    [
        ("frames", "frames: found no value, expected KEY=VALUE"),
        ("frames=", "frames=: found no value"),
        ("frames=1,2,1", "found 1 a second time"),
        (".frames=1", "found the key '.frames', expected names with dots"),
        ("frames=[1", "not YAML"),
        ("frams=1", "found the unknown key 'frams', .*did you mean frame"),
        ("frames=100,many", r"bound-check.yaml: frames: found 'many', expected a whole number"),
        ("seed=-1", r"bound-check.yaml: seed: found -1, expected a whole number from 0"),
        ("network=nowhere.yaml", "nowhere.yaml: cannot read it"),
        ("streams.recipe.period=1", "streams.recipe.period: found 1, expected a duration such as"),
        ("streams.recipe.perod=1ms", "found the unknown key 'perod', .*did you mean period"),
        ("streams.recip.period=1ms", "found the unknown key 'recip', .*did you mean recipe"),
        ("streams.recipe.talker=s1", "streams.recipe.talker: found 's1', expected one of"),
        ("links[10].rate=1Gbps", r"links: found 10 values, expected one at \[10\]"),
        ("frames[0]=1", "frames: found 100000, expected a list"),
        ("name.x=1", "both the experiment and its intent have"),
    ],
)
def test_a_wrong_key_or_value_is_told_and_nothing_is_run(tmp_path: Path, setting: str, why: str):
    with pytest.raises(InputError, match=why):
        points(BOUNDS, [setting])
    result = measure(BOUNDS, "--set", setting, "-o", tmp_path / "out")
    assert isinstance(result.exception, InputError)
    assert not (tmp_path / "out").exists()


def test_an_error_names_the_values_that_it_is_about():
    with pytest.raises(InputError) as told:
        points(BOUNDS, ["frames=100,200", "streams.recipe.period=8ms,9"])
    assert told.value.hint == "this is with --set frames=100 --set streams.recipe.period=9"


def test_an_experiment_and_an_intent_that_do_not_fit_are_refused(tmp_path: Path):
    loop = EXPERIMENTS / "step-responses.yaml"
    with pytest.raises(InputError, match=r"step-responses.yaml: loop: found 'push'"):
        points(loop, ["loop=push"])


def test_of_a_value_that_was_set_no_line_is_told_since_the_file_has_another_there():
    with pytest.raises(InputError, match=r"share-sweep\.yaml: shares\[1\]: found 200, expected"):
        points(SWEEP, ["shares=[30, 200]"])


def test_the_document_that_was_read_stays_as_it_is():
    read = intents.read(SCHEDULES / "line5.yaml")
    path = path_of("streams.recipe.period")
    assert with_value(read, path, "7ms").document["streams"]["recipe"]["period"] == "7ms"
    assert read.document["streams"]["recipe"]["period"] != "7ms"


def test_a_key_is_set_once():
    with pytest.raises(InputError, match=r"found experiment\.frames a second time"):
        points(BOUNDS, ["frames=1", "experiment.frames=2"])


def test_a_point_without_a_plan_is_left_to_its_run():
    found = points(BOUNDS, ["streams.recipe.max-latency=1ms,40us"])
    assert [point.experiment is None for point in found] == [False, True]


def test_what_a_run_is_described_by_is_not_replaced(tmp_path: Path):
    (point,) = points(BOUNDS, ["frames=100"])
    file = point.write(tmp_path)
    before = file.read_bytes()
    result = measure(file, "--set", "frames=200", "-o", tmp_path)
    assert isinstance(result.exception, InputError)
    assert file.read_bytes() == before


# --- one run --------------------------------------------------------------------------------------


def test_with_one_value_each_it_is_an_ordinary_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    measured: list[tuple[Path, Path]] = []

    def note(file: Path, directory: Path, *_: Any, **__: Any) -> None:
        measured.append((file, directory))
        raise InputError("that is all")

    monkeypatch.setattr(experiments, "measure", note)
    measure(BOUNDS, "--set", "frames=100", "--set", "seed=2", "-o", tmp_path)
    assert measured == [(tmp_path / EXPERIMENT, tmp_path)]
    assert description.load(tmp_path / EXPERIMENT).seed == 2


def test_jobs_are_about_several_runs():
    assert measure(BOUNDS, "--jobs", 2).exit_code == 2
    assert measure(BOUNDS, "--set", "frames=1", "--jobs", 2).exit_code == 2
    assert measure(BOUNDS, "--set", "frames=1", "--dask", "localhost:1").exit_code == 2
    assert measure(BOUNDS, "--set", "frames=1,2", "--jobs", 2, "--dask", "x:1").exit_code == 2


def test_nothing_runs_beside_a_measurement_in_real_time(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("TSN_VM", raising=False)
    monkeypatch.setattr("cnc.testbed.lab.vm.own_kernel_has_taprio", lambda: True)
    (bounds,) = points(BOUNDS, ["frames=1"])
    (overhead,) = points(EXPERIMENTS / "control-overhead.yaml", ["rounds=1"])
    for point in (bounds, overhead):
        assert runs.Processes(point.experiment, None).count == 1
        with pytest.raises(InputError, match="--jobs: found 2, expected 1"):
            runs.Processes(point.experiment, 2)
    monkeypatch.setattr("cnc.testbed.lab.vm.own_kernel_has_taprio", lambda: False)
    assert runs.Processes(bounds.experiment, 2).count == 2


# --- runs side by side ----------------------------------------------------------------------------

RUN = """
import json, pathlib, sys, time
frames = int(sys.argv[1])
summary = {"seed": 1, "frames": frames, "platform": {"exact": True}, "disagreements": [],
           "streams": [{"id": "motion", "max_ns": 10 * frames}],
           "hops": [{"node": "s2", "mean_ns": 60}], "points": [{"lost": 0}]}
pathlib.Path(sys.argv[2], "begun").touch()
while frames == 4 and not pathlib.Path(sys.argv[2], "never").exists():
    time.sleep(0.05)
if frames == 3:
    print("no plan")
    sys.exit(2)
if frames == 2:
    summary["disagreements"] = ["one frame is late"]
pathlib.Path(sys.argv[2], "summary.json").write_text(json.dumps(summary))
sys.exit(frames == 2)
"""


@pytest.fixture
def in_place_of_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs that take no kernel: with 2 frames one disagrees, with 3 it fails, with 4 none ends."""

    def command(file: Path, directory: Path) -> list[str]:
        frames = description.load(file).frames  # type: ignore[attr-defined]
        return [sys.executable, "-c", RUN, str(frames), str(directory)]

    monkeypatch.delenv("TSN_VM", raising=False)
    monkeypatch.setattr("cnc.testbed.lab.vm.own_kernel_has_taprio", lambda: False)
    monkeypatch.setattr(runs, "command", command)


def test_a_grid_has_one_table_of_all_points(in_place_of_kernels: None, tmp_path: Path):
    result = measure(BOUNDS, "--set", "frames=1,2,3", "-o", tmp_path, "--jobs", 2)
    assert result.exit_code == 2, "the worst of the points"
    with (tmp_path / "grid.csv").open() as file:
        one, two, three = csv.DictReader(file)
    assert one == {
        "point": "1-frames=1",
        "frames": "1",
        "exit_code": "0",
        "disagreements": "0",
        "seed": "1",
        "streams.motion.max_ns": "10",
        "hops.s2.mean_ns": "60",
        "points[0].lost": "0",
    }
    assert (two["exit_code"], two["disagreements"]) == ("1", "1")
    assert (three["exit_code"], three["streams.motion.max_ns"]) == ("2", "")
    assert "2-frames=2: one frame is late" in result.output
    assert "no plan" in (tmp_path / "3-frames=3" / runs.LOG).read_text()
    page = (tmp_path / "report.html").read_text()
    assert '<a href="1-frames%3D1/report.html">agrees</a>' in page
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert [point["set"] for point in summary["points"]] == [{"frames": n} for n in "123"]


def test_what_a_former_grid_left_is_not_taken_for_a_result(
    in_place_of_kernels: None, tmp_path: Path
):
    (tmp_path / "2-frames=3").mkdir()
    (tmp_path / "2-frames=3" / "summary.json").write_text('{"disagreements": []}')
    measure(BOUNDS, "--set", "frames=1,3", "-o", tmp_path)
    assert json.loads((tmp_path / "summary.json").read_text())["points"][1]["summary"] is None


def test_an_interrupt_ends_all_runs_and_keeps_the_points_that_have_ended(
    in_place_of_kernels: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(runs, "_KILL_AFTER_S", 1000)  # the interrupt alone ends them

    def interrupt() -> None:
        deadline = time.monotonic() + 60
        wanted = [tmp_path / "1-frames=1/summary.json", tmp_path / "2-frames=4/begun"]
        while not all(path.exists() for path in wanted) and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(2)  # the first has ended
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    result = measure(BOUNDS, "--set", "frames=1,4", "-o", tmp_path, "--jobs", 2)
    assert isinstance(result.exception, KeyboardInterrupt) or result.exit_code == 1
    with (tmp_path / "grid.csv").open() as file:
        assert [row["point"] for row in csv.DictReader(file)] == ["1-frames=1"]


def test_a_key_that_is_a_figure_too_has_one_column(in_place_of_kernels: None, tmp_path: Path):
    measure(BOUNDS, "--set", "frames=1,2", "--set", "seed=7", "-o", tmp_path)
    header, *rows = (tmp_path / "grid.csv").read_text().splitlines()
    assert header.split(",").count("seed") == header.split(",").count("frames") == 1
    assert len(rows) == 2


def test_no_run_outlives_whoever_wanted_it(in_place_of_kernels: None, tmp_path: Path):
    found = points(BOUNDS, ["frames=1,4"])
    outcomes = runs.Processes(found[0].experiment, 2).run(found, tmp_path)
    assert next(outcomes).point.name == "1-frames=1"
    outcomes.close()  # it returns: the other one, which never ends, has ended


def test_a_cluster_that_is_not_there_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    words = (BOUNDS, "--set", "frames=1,2", "-o", tmp_path, "--dask")
    monkeypatch.setattr(executors, "CONNECT_TIMEOUT_S", 0.1)
    assert "cannot use 'dask://127.0.0.1:1'" in str(measure(*words, "127.0.0.1:1").exception)
    assert "does not name a host and a port" in str(measure(*words, "here").exception)


def test_the_summary_of_a_grid_is_what_json_prints(in_place_of_kernels: None, tmp_path: Path):
    result = measure(BOUNDS, "--set", "frames=1,2", "-o", tmp_path, "--json")
    assert json.loads(result.stdout) == json.loads((tmp_path / "summary.json").read_text())


def test_a_grid_names_its_points_alike_each_time(in_place_of_kernels: None, tmp_path: Path):
    for name in ("one", "other"):
        measure(BOUNDS, "--set", "frames=1,2", "-o", tmp_path / name)
    for file in ("grid.csv", "report.html", "1-frames=1/experiment.yaml"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "other" / file).read_bytes()
