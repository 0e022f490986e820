"""The pictures show what the plan says, down to the shortest opening."""

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest

from cnc import chart
from cnc.chart import View
from cnc.chart.axis import tick_ns
from cnc.chart.terminal import cells
from cnc.errors import InputError
from cnc.model import Plan, PortRef
from cnc.plans import file as planfile

LINE3 = Path(__file__).parent / "data" / "line3-plan.json"
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def line3() -> Plan:
    return planfile.load(LINE3)


@pytest.mark.parametrize(
    ("times", "drawn"),
    [
        ([], "····"),
        ([(0, 4000)], "████"),
        ([(1000, 3000)], "·██·"),
        ([(1000, 1001)], "·▁··"),
        ([(0, 1500), (1501, 4000)], "█▇██"),
        ([(500, 1500)], "▄▄··"),
        ([(900, 1100), (1200, 1300)], "▁▂··"),
    ],
)
def test_a_cell_is_as_high_as_its_share_of_open_time(
    times: list[tuple[int, int]], drawn: str
) -> None:
    assert cells(times, cycle_ns=4000, count=4) == drawn


def test_more_cells_than_nanoseconds_still_draw_the_cycle() -> None:
    assert cells([(0, 2)], cycle_ns=4, count=8) == "████····"


@pytest.mark.parametrize(
    ("cycle_ns", "ticks", "step_ns"),
    [(1_000_000, 10, 100_000), (2_000_000, 9, 500_000), (1, 5, 1), (999, 10, 100)],
)
def test_the_ruler_has_round_marks_and_no_more_than_fit(
    cycle_ns: int, ticks: int, step_ns: int
) -> None:
    assert tick_ns(cycle_ns, ticks) == step_ns


def test_the_terminal_chart_has_a_row_for_each_class_of_each_port(line3: Plan) -> None:
    lines = chart.text(line3).splitlines()
    for port, gates in line3.gates.items():
        start = next(i for i, line in enumerate(lines) if line.startswith(f"{port} → "))
        assert f"cycle {gates.cycle_ns // 1000} µs, {len(gates.entries)} entries" in lines[start]
        rows = [line.split()[:2] for line in lines[start + 1 : start + 4]]
        assert rows == [["7", "control"], ["6", "cyclic"], ["0", "best-effort"]]
        assert set(lines[start + 1].split()[2]) == {"█"}


@pytest.mark.parametrize("width", [72, 80, 100, 200])
def test_no_line_is_wider_than_the_terminal(line3: Plan, width: int) -> None:
    assert max(map(len, chart.text(line3, width).splitlines())) <= width


def test_each_stream_is_listed_with_bound_limit_and_hops(line3: Plan) -> None:
    shown = chart.text(line3, 120)
    bound = line3.streams["torque"].latency_bound_ns / 1000
    assert f"torque  cyclic, every 500 µs, latency ≤ {bound:g} of 36 µs" in shown
    for hop in line3.streams["torque"].hops:
        assert f"{hop.egress} {hop.offset_ns / 1000:g}" in shown


@pytest.fixture(scope="module")
def partial(line3: Plan) -> Plan:
    """The plan with motion sent twice and no place for the camera."""
    (way,) = line3.streams["motion"].paths
    later = tuple(replace(hop, offset_ns=hop.offset_ns + 200_000) for hop in way)
    streams = {**line3.streams, "motion": replace(line3.streams["motion"], paths=(way, later))}
    del streams["camera"]
    return replace(line3, streams=streams, refused={"camera": "no room on s1/s2"})


def test_a_stream_of_two_classes_is_shown_with_the_one_the_plan_chose(line3: Plan) -> None:
    torque = replace(line3.intent.streams["torque"], traffic_classes=("best-effort", "cyclic"))
    wanted = replace(line3.intent, streams={**line3.intent.streams, "torque": torque})
    assert "torque  cyclic, every" in chart.text(replace(line3, intent=wanted))


def test_the_terminal_lists_each_path_of_a_stream(partial: Plan) -> None:
    shown = chart.text(partial, 120).splitlines()
    motion = next(i for i, line in enumerate(shown) if line.startswith("  motion"))
    starts = [line.split()[:3] for line in shown[motion + 1 : motion + 3]]
    assert starts == [["at", "t1/eth0", "14.5"], ["at", "t1/eth0", "214.5"]]


def test_the_terminal_names_the_streams_without_a_place(partial: Plan, line3: Plan) -> None:
    last = "streams without a place\n  camera: no room on s1/s2\n"
    assert chart.text(partial).endswith(last)
    assert chart.text(replace(partial, streams={})).endswith(last)
    assert "without a place" not in chart.text(line3)


def test_the_picture_draws_each_path_of_its_own(partial: Plan) -> None:
    root = ET.fromstring(chart.svg(partial))  # noqa: S314 - our own text
    ways = [path.get("d") for path in root.iter(f"{SVG}path") if path.get("class") == "way"]
    assert len(ways) == sum(len(way) - 1 for s in partial.streams.values() for way in s.paths)
    steps = [re.findall(r"M([\d.]+) .*L([\d.]+) ", way) for way in ways]
    assert all(float(x1) < float(x2) for ((x1, x2),) in steps)
    assert len(set(ways)) == len(ways)


def test_the_picture_counts_the_streams_without_a_place(partial: Plan) -> None:
    assert "3 streams, 1 without a place, 4 gated ports" in chart.svg(partial)


def test_colour_changes_nothing_but_colour(line3: Plan) -> None:
    coloured = chart.text(line3, color=True)
    assert "\x1b[36m" in coloured
    assert re.sub(r"\x1b\[\d+m", "", coloured) == chart.text(line3)


def test_the_picture_has_each_planned_frame_on_each_port(line3: Plan) -> None:
    root = ET.fromstring(chart.svg(line3))  # noqa: S314 - our own text
    titles = [title.text or "" for title in root.iter(f"{SVG}title")]
    for name, planned in line3.streams.items():
        period = line3.intent.streams[name].period_ns
        for hop in planned.hops:
            frames = [t for t in titles if t.startswith(f"{name} on {hop.egress}: planned at ")]
            assert len(frames) == 2_000_000 // period


def test_the_picture_shows_every_opening_of_a_gate(line3: Plan) -> None:
    root = ET.fromstring(chart.svg(line3))  # noqa: S314 - our own text
    titles = [t.text or "" for t in root.iter(f"{SVG}title")]
    windows = sum(
        2_000_000 // gates.cycle_ns
        for gates in line3.gates.values()
        for entry in gates.entries
        if entry.gate_states & 0x40
    )
    assert len([t for t in titles if t.startswith("cyclic open from")]) == windows


def test_nothing_leaves_the_picture(line3: Plan) -> None:
    root = ET.fromstring(chart.svg(line3))  # noqa: S314 - our own text
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    for rect in root.iter(f"{SVG}rect"):
        at = {key: float(rect.get(key, 0)) for key in ("x", "y", "width", "height")}
        assert at["width"] > 0
        assert at["x"] + at["width"] <= width
        assert at["y"] + at["height"] <= height


def test_names_from_the_operator_cannot_break_the_picture(line3: Plan) -> None:
    name = '<script>&"'
    shown = chart.svg(replace(line3, intent=replace(line3.intent, name=name)))
    root = ET.fromstring(shown)  # noqa: S314 - our own text
    assert name in [text.text for text in root.iter(f"{SVG}text")]
    assert not list(root.iter(f"{SVG}script"))


def test_a_plan_without_streams_can_be_drawn(line3: Plan) -> None:
    empty = replace(line3, streams={}, gates={}, intent=replace(line3.intent, streams={}))
    assert chart.text(empty) == "nothing is scheduled\n"
    ET.fromstring(chart.svg(empty))  # noqa: S314 - our own text


PORTS = (PortRef("s2", "s3"), PortRef("s3", "l1"))


def drawn(plan: Plan, view: View) -> ET.Element:
    return ET.fromstring(chart.svg(plan, view))  # noqa: S314  ours


def words(picture: ET.Element) -> list[str]:
    return ["".join(text.itertext()) for text in picture.iter(f"{SVG}text")]


def test_a_view_has_its_ports_and_their_streams_alone(line3: Plan) -> None:
    text = " ".join(words(drawn(line3, View(PORTS))))
    assert "s2/s3" in text
    assert "s1/s2" not in text
    assert {name for name in line3.streams if name in text} == {
        name for name, its in line3.streams.items() if {hop.egress for hop in its.hops} & {*PORTS}
    }


def test_a_view_of_some_time_has_what_lies_in_it_as_often_as_it_does(line3: Plan) -> None:
    (port, gates), period_ns = next(iter(line3.gates.items())), 500_000

    def frames(view: View) -> int:
        titles = [title.text or "" for title in drawn(line3, view).iter(f"{SVG}title")]
        return sum(title.startswith(f"torque on {port}") for title in titles)

    assert frames(View((port,))) == gates.cycle_ns // period_ns
    beyond = View((port,), gates.cycle_ns - period_ns, gates.cycle_ns + period_ns)
    assert frames(beyond) == 2


def test_nothing_of_a_view_is_beyond_its_edges(line3: Plan) -> None:
    picture = drawn(line3, View(PORTS, 505_000, 535_000))
    for each in picture.iter(f"{SVG}rect"):
        if each.get("x"):
            x, width = float(each.get("x", "")), float(each.get("width", ""))
            assert 0 <= x <= x + width <= 1200 - 24 + 2
    assert "505 to 535 µs shown" in " ".join(words(picture))


def test_a_view_without_title_has_no_legend(line3: Plan) -> None:
    text = words(drawn(line3, View(PORTS, has_title=False)))
    assert "line3" not in text
    assert "control open" not in text


@pytest.mark.parametrize(
    ("view", "why"),
    [(View((PortRef("s9", "x"),)), "has the port s9/x"), (View((), 5, 5), "nothing is from")],
)
def test_a_view_of_nothing_is_refused(line3: Plan, view: View, why: str) -> None:
    with pytest.raises(InputError, match=why):
        chart.svg(line3, view)
