"""How late talkers are: what a plan takes of what they measured, and when that is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from cnc import intent as intents
from cnc.app import plan
from cnc.check import judge
from cnc.cli.render import planning as render_planning
from cnc.data_tree.state import SwitchState
from cnc.data_tree.tree import TalkerReport
from cnc.errors import InputError
from cnc.mechanisms.measurements import SENT, measured_on
from cnc.mechanisms.stream_filters.derive import stream_filters
from cnc.mechanisms.talker_offsets import lateness
from cnc.mechanisms.terms import impossible
from cnc.model import Intent, MeasuredMargin, Plan, PortRef, WakeUps
from cnc.plans import file as planfile
from cnc.rollout import doctor
from cnc.rollout.doctor import Visit
from cnc.rollout.preflight import Check, Finding, Verdict
from tests.bridged_networks import line, stream
from tests.unit.places import changed
from tests.unit.watched_switches import poll

WORST = PortRef("t1", "eth0")
ENOUGH = 100_000


@pytest.fixture(autouse=True)
def real_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TSN_VIRTUAL_TIME", raising=False)


def intent(lateness_stated: str | None = None, policing: str = "drop") -> Intent:
    """Two talkers, one with two streams of which the slower has a period of 4 ms."""
    of = line(
        motion=stream("t1", "l1"),
        slow=stream("t1", "l2", period="4ms"),
        other=stream("t2", "l2"),
    )
    document = json.loads(json.dumps(of.document)) | {"policing": policing}
    document["defaults"]["gate-margin"] = "50us"
    document["defaults"].pop("talker-lateness", None)
    if lateness_stated:
        document["end-stations"]["t1"] = {"talker-lateness": lateness_stated}
    return intents.from_document(document, "line")


def measured(maximum_ns: int, count: int = ENOUGH) -> dict[PortRef, WakeUps]:
    """What the talkers of two stations say; t2 is punctual, and has not said so for long."""
    return {WORST: WakeUps(count, maximum_ns), PortRef("t2", "eth0"): WakeUps(10, 400)}


def lateness_ns(of: Intent) -> tuple[int | None, ...]:
    return tuple(of.network.end_stations[each].lateness_ns for each in ("t1", "t2"))


def test_what_talkers_measured_is_rounded_up_and_planned_with() -> None:
    asked = lateness.with_measured(intent(), measured(13_700))
    assert lateness_ns(asked) == (20_000, None)
    assert asked.measured_lateness == {"t1": MeasuredMargin(20_000, WORST, 13_700, ENOUGH)}
    assert not judge(plan(asked))


def test_the_window_of_a_filter_is_as_long_as_its_talker_was_late() -> None:
    def open_ns(of: Plan) -> list[int]:
        gates = [its.gate for its in stream_filters(of)["s1"]]
        return sorted(each.open_ns for each in gates if hasattr(each, "open_ns"))

    longer = open_ns(plan(lateness.with_measured(intent(), measured(99_000))))
    by_default = open_ns(plan(intent()))
    assert [one - other for one, other in zip(longer, by_default, strict=True)] == [
        0,
        50_000,
        50_000,
    ]


def test_too_few_periods_do_not_make_the_lateness_smaller_than_the_gate_margin() -> None:
    assert lateness.with_measured(intent(), measured(13_700, count=ENOUGH - 1)) == intent()
    later = lateness.with_measured(intent(), measured(70_000, count=30))
    assert lateness_ns(later) == (100_000, None)
    assert "30 periods, not enough before 100,000" in measured_on(
        later.measured_lateness["t1"], SENT
    )


def test_what_the_operator_states_is_kept() -> None:
    assert lateness.with_measured(intent("30us"), measured(90_000)) == intent("30us")


def test_the_lateness_of_the_running_plan_stays_until_a_talker_is_later() -> None:
    running = plan(lateness.with_measured(intent(), measured(13_700)))
    for maximum_ns in (12, 15_000, 20_000):
        assert lateness.with_measured(intent(), measured(maximum_ns), running) == running.intent
    later = lateness.with_measured(intent(), measured(20_001), running)
    assert lateness_ns(later) == (50_000, None)


def test_the_default_of_the_running_plan_stays_too() -> None:
    running = plan(intent())
    assert lateness.with_measured(intent(), measured(13_700), running) == intent()
    assert lateness_ns(lateness.with_measured(intent(), measured(50_001), running)) == (
        100_000,
        None,
    )


def test_drop_is_refused_where_a_talker_was_later_than_is_stated_of_it() -> None:
    with pytest.raises(InputError) as refused:
        lateness.refuse_refuted(intent("30us"), measured(43_000, count=12))
    assert str(refused.value) == (
        "talker-lateness of t1: found 30us, but t1/eth0 sends up to 43 µs late (the latest of 12 "
        "periods), and policing drops later frames of motion"
    )
    assert str(refused.value.hint).startswith("state `talker-lateness: 50us`, or leave it out")


@pytest.mark.parametrize(
    ("stated", "policing", "maximum_ns"),
    [
        pytest.param("30us", "drop", 30_000, id="within what is stated"),
        pytest.param("30us", "count", 43_000, id="counted only"),
        pytest.param(None, "drop", 43_000, id="not stated"),
    ],
)
def test_other_talkers_are_not_refused(stated: str | None, policing: str, maximum_ns: int) -> None:
    wanted = intent(stated, policing)
    late = measured(maximum_ns)
    lateness.refuse_refuted(lateness.with_measured(wanted, late), late)


def test_a_talker_that_was_late_by_a_period_is_refused_with_the_stream() -> None:
    late = measured(1_100_000)
    with pytest.raises(InputError, match="stream motion has a period of 1 ms") as refused:
        lateness.refuse_refuted(lateness.with_measured(intent(policing="count"), late), late)
    assert "state `talker-lateness` of t1" in str(refused.value.hint)


def test_drop_is_refused_where_what_was_measured_leaves_no_time_out_of_the_window() -> None:
    asked = lateness.with_measured(intent(), measured(499_000))
    motion = replace(asked.streams["motion"], period_ns=505_000)
    reason = impossible(asked, motion, asked.network.links[WORST])
    assert reason
    assert reason.endswith("(that of t1: measured on t1/eth0: max 499 µs of 100,000 periods)")


def test_the_plan_says_what_it_rests_on_and_keeps_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    planned = plan(lateness.with_measured(intent(), measured(13_700)))
    render_planning.figures(planned)
    assert capsys.readouterr().out.endswith(
        "talker lateness of t1 20 µs (measured on t1/eth0: max 13.7 µs of 100,000 periods)\n"
    )
    text = planfile.dump(planned, tmp_path / "plan.json")
    again = planfile.load(tmp_path / "plan.json")
    assert again == planned
    assert json.loads(text)["talker_lateness"] == {
        "t1": {
            "value_ns": 20_000,
            "measured": {"port": "t1/eth0", "maximum_ns": 13_700, "count": ENOUGH},
        }
    }


@pytest.mark.parametrize(
    ("station", "stated", "words"),
    [
        ("t9", None, "found 't9', expected an end station of the intent"),
        ("t1", "30us", "found a lateness of its talkers, expected none, since the intent states"),
    ],
)
def test_a_plan_file_has_it_of_stations_without_a_stated_one_alone(
    station: str, stated: str | None, words: str
) -> None:
    document = json.loads(planfile.dump(plan(intent(stated))))
    its = {"value_ns": 1, "measured": {"port": "t1/eth0", "maximum_ns": 1, "count": 1}}
    document["talker_lateness"] = {station: its}
    with pytest.raises(InputError, match=words):
        planfile.parse(json.dumps(document), "plan.json")


def found_by_doctor(of: Intent, said: WakeUps) -> Finding:
    """What doctor says of t1, whose talkers say this of two streams."""
    polled = poll("s1").state
    assert polled is not None
    report = next(iter(polled.ports.values()))
    talkers = TalkerReport(lateness={("motion", 1): said, ("slow", 1): WakeUps(1, 1)})
    state = SwitchState(polled.agent, {"eth0": changed(report, talkers)}, 0, 0)
    managed = replace(of.network.end_stations["t1"], management=of.network.bridges["s1"].management)
    stations = {**of.network.end_stations, "t1": managed}
    wanted = replace(of, network=replace(of.network, end_stations=stations))
    visits = {"t1": Visit((), state)}
    findings = doctor.diagnose(Plan(wanted, {}, {}, algorithm="none"), visits)
    (found,) = (each for each in findings if each.check is Check.LATENESS)
    return found


@pytest.mark.parametrize(
    ("stated", "policing", "verdict", "words"),
    [
        ("50us", "drop", Verdict.OK, "the plan allows for 50 µs"),
        ("30us", "drop", Verdict.WARNING, "allows for 30 µs: policing drops frames that are later"),
        ("30us", "count", Verdict.WARNING, "the plan allows for 30 µs"),
        (None, "count", Verdict.OK, "the plan allows for 50 µs"),
    ],
)
def test_doctor_holds_talkers_to_what_the_plan_allows_for(
    stated: str | None, policing: str, verdict: Verdict, words: str
) -> None:
    found = found_by_doctor(intent(stated, policing), WakeUps(3_000, 43_000))
    assert (found.where, found.verdict) == ("t1/eth0", verdict)
    assert found.text.startswith("its talkers send up to 43 µs late (the latest of 3,000 periods)")
    assert found.text.endswith(words)
    assert (found.hint is None) == (verdict is Verdict.OK)
