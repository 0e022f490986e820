"""The pictures of a trace have what its columns say."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from matplotlib.figure import Figure

from cnc.plans import file as planfile
from cnc.testbed.cli.trace import trace
from cnc.testbed.experiments import pictures, trace_pictures
from cnc.testbed.traffic.trace.account import Layer
from cnc.testbed.traffic.trace.columns import PathColumns, gather
from tests.unit.traced_frames import T0, Record, torque

NAMES = ["layers", "frames", "stages", "causes", "correlation", "regression", "drift"]


@pytest.fixture(scope="module")
def path() -> PathColumns:
    """Of 40 frames of torque, each 10 ns later than the one before and one 9 µs."""
    return torque_late_by([9_000 if seq == 7 else 10 * seq for seq in range(40)])


def torque_late_by(lateness_ns: list[int]) -> PathColumns:
    record = Record(planfile.load(Path(__file__).parent / "data" / "line3-plan.json"))
    for seq, late_ns in enumerate(lateness_ns):
        torque(record, seq, late_ns=late_ns)
    (columns,) = gather(record.accounts())
    return columns


def figure_of(name: str, paths: list[PathColumns]) -> Figure:
    (picture,) = (each for each in trace_pictures.pictures_of(paths, T0) if each.name == name)
    figure = Figure()
    picture.draw(figure)
    return figure


def title_of(figure: Figure) -> str:
    return figure.legends[0].get_title().get_text() if figure.legends else figure.get_suptitle()


def varying_by(name: str, by_ns: int) -> PathColumns:
    path = PathColumns(name, "l1", 0)
    for seq, total_ns in enumerate((1_000, 1_000 + by_ns)):
        path.seqs.append(seq)
        path.planned_ns.append(T0 + seq)
        path.total_ns.append(total_ns)
        path.sender_ns.append(100)
        path.receiver_ns.append(100)
    return path


def test_a_picture_is_written_in_three_formats_and_the_same_every_time(
    path: PathColumns, tmp_path: Path
):
    *_, drift = trace_pictures.pictures_of([path], T0)
    drawn = []
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        pictures.save([drift], tmp_path / name, {"measured on": "a test"})
        drawn.append({each.name: each.read_bytes() for each in (tmp_path / name).iterdir()})
    assert set(drawn[0]) == {"drift.svg", "drift.png", "drift.pdf"}
    assert drawn[0] == drawn[1]


@pytest.mark.parametrize("name", NAMES)
def test_each_picture_has_a_title_and_units(name: str, path: PathColumns):
    figure = figure_of(name, [path])
    assert title_of(figure)
    assert all(axes.get_xlabel() or axes.get_ylabel() for axes in figure.axes)


def test_the_bars_of_a_frame_are_its_parts_one_after_the_other(path: PathColumns):
    (axes,) = figure_of("frames", [path]).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        *("torque/20, median", "torque/7, latest"),
    ]
    latest = [bar for bar in axes.patches if bar.get_y() > 0.5]
    ends_us = [bar.get_x() + bar.get_width() for bar in latest]
    assert [bar.get_x() for bar in latest[1:]] == pytest.approx(ends_us[:-1])
    assert ends_us[-1] == pytest.approx(30.927 + 9)


def test_a_box_has_the_quartiles_and_what_is_beyond_its_whiskers_is_a_point(path: PathColumns):
    (axes,) = figure_of("layers", [path]).axes
    rows = [label.get_text() for label in axes.get_yticklabels()]
    box = axes.patches[rows.index("listener")]
    # Of 0, 10 ... 390 and 9,000 in the place of 70, beyond 300 of every listener.
    assert box.get_x() == pytest.approx(0.4075)
    assert box.get_x() + box.get_width() == pytest.approx(0.6025)
    points = [list(line.get_xdata()) for line in axes.lines if len(line.get_xdata())]
    assert points == [[pytest.approx(9.3)]]


def test_what_takes_long_is_drawn_in_milliseconds():
    late = torque_late_by([20_000_000] * 40)
    (layers,) = figure_of("layers", [late]).axes
    (frames,) = figure_of("frames", [late]).axes
    stages = figure_of("stages", [late]).axes
    (drift,) = figure_of("drift", [late]).axes
    assert layers.get_xlabel() == "ms"
    assert frames.get_xlabel() == "ms after the planned instant"
    assert [axes.get_xlabel() for axes in stages] == ["µs", "µs", "ms"]
    assert drift.get_ylabel() == "total, ms"
    assert max(frames.get_xlim()) < 25


def test_a_trace_without_outliers_says_so():
    (axes,) = figure_of("causes", [torque_late_by([0] * 40)]).axes
    assert [text.get_text() for text in axes.texts] == ["no outlier"]


def test_the_curve_of_a_stage_rises_to_all_frames(path: PathColumns):
    sender, channel, receiver = figure_of("stages", [path]).axes
    for axes, least_us, most_us in (
        (sender, 0.5, 0.5),
        (channel, 30.127, 30.127),
        (receiver, 0.3, 9.3),
    ):
        (curve,) = axes.lines
        assert (curve.get_xdata()[0], curve.get_ydata()[0]) == (pytest.approx(least_us), 0)
        assert (curve.get_xdata()[-1], curve.get_ydata()[-1]) == (pytest.approx(most_us), 1)


def test_a_cause_is_a_bar_at_its_layer(path: PathColumns):
    figure = figure_of("causes", [path])
    (axes,) = figure.axes
    rows = [label.get_text() for label in axes.get_yticklabels()]
    assert {row: bar.get_width() for row, bar in zip(rows, axes.patches, strict=True)} == {
        row: int(row == "listener") for row in rows
    }
    (legend,) = figure.legends
    (said,) = (text.get_text() for text in legend.get_texts())
    assert said.startswith("torque: 1 of 40 beyond ")


def test_a_layer_that_never_varies_has_no_correlation(path: PathColumns):
    axes, _ = figure_of("correlation", [path]).axes
    layers = [label.get_text() for label in axes.get_xticklabels()]
    said = dict(zip(layers, (text.get_text() for text in axes.texts), strict=True))
    assert said.pop("listener") == "1.00"
    assert set(said.values()) == {"–"}  # noqa: RUF001


def test_the_total_is_over_the_layer_that_it_varies_most_with_beside_the_line(path: PathColumns):
    figure = figure_of("regression", [path])
    (panel,) = figure.subfigs
    said = panel.get_suptitle()
    slope, intercept_ns = np.polyfit(path.layer_ns(Layer.LISTENER), path.total_ns, 1)
    assert (
        said == f"torque\ntotal = {intercept_ns / 1000:.3f} µs + {slope:.3f} · listener, r = 1.000"
    )
    above, points, beside = panel.axes
    dots, line = points.lines
    assert len(dots.get_xdata()) == len(set(path.total_ns))
    assert list(line.get_xdata()) == pytest.approx([0.3, 9.3])
    assert list(line.get_ydata()) == pytest.approx([30.627 + 0.3, 30.627 + 9.3])
    assert sum(bar.get_height() for bar in above.patches) == len(path)
    assert sum(bar.get_width() for bar in beside.patches) == len(path)


@pytest.mark.parametrize(
    ("late_ns", "why"), [([0] * 40, "all frames take the same time"), ([0, 9], "too few frames")]
)
def test_without_a_layer_that_varies_there_is_no_line_and_the_picture_says_why(
    late_ns: list[int], why: str
):
    (panel,) = figure_of("regression", [torque_late_by(late_ns)]).subfigs
    assert why in [text.get_text() for text in panel.texts]


def test_the_timeline_of_a_frame_has_its_parts_until_one_is_not_known():
    record = Record(planfile.load(Path(__file__).parent / "data" / "line3-plan.json"))
    torque(record, 0)
    torque(record, 1, up_to=4)  # it left s1, came to s2, and was lost there
    figure = Figure()
    (picture,) = trace_pictures.pictures_of([], T0, record.accounts())
    picture.draw(figure)
    whole, lost = figure.axes
    ends_us = [bar.get_x() + bar.get_width() for bar in whole.patches]
    assert [bar.get_x() for bar in whole.patches] == pytest.approx([0, *ends_us[:-1]])
    assert ends_us[-1] == pytest.approx(30.927)
    rows = [label.get_text() for label in lost.get_yticklabels()]
    assert (rows[0], rows[-1]) == ("t1  wake-up", "s1/s2  wire")


def test_the_drift_is_said_beside_its_curve(path: PathColumns):
    (axes,) = figure_of("drift", [path]).axes
    (curve,) = axes.lines
    assert len(curve.get_xdata()) == 10
    assert axes.get_title(loc="left").startswith("torque: ")
    assert axes.get_title(loc="left").endswith("ns/s, steady")


def test_of_many_flows_those_are_drawn_whose_total_varies_most():
    paths = [varying_by(f"flow-{by_ns}", by_ns) for by_ns in (5, 80, 30, 70, 20, 60, 10, 40)]
    figure = figure_of("drift", paths)
    assert [axes.get_title(loc="left") for axes in figure.axes] == [
        *("flow-80", "flow-30", "flow-70", "flow-20", "flow-60", "flow-40"),
    ]
    assert title_of(figure).endswith("(6 of 8 flows)")


def test_without_a_whole_frame_there_is_nothing_to_draw():
    assert trace_pictures.pictures_of([PathColumns("torque", "l1", 0)], T0) == []


def test_pictures_without_matplotlib_are_refused_before_anything_is_sent(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    line3_file = Path(__file__).parents[2] / "schedules" / "line3.yaml"
    done = CliRunner().invoke(trace, [str(line3_file), "--pictures", str(tmp_path / "drawn")])
    assert done.exit_code == 1
    assert "pictures are drawn with matplotlib, which is not installed" in str(done.exception)
    assert not (tmp_path / "drawn").exists()
