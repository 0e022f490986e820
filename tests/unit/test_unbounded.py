"""Streams without a bound on how long a disturbance makes them late: a warning, or a refusal."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from cnc import cli
from cnc import intent as intents_from
from cnc.account.openings import GateCycle
from cnc.check import judge, judgement, unbounded
from cnc.check.change import Judged, Named
from cnc.check.streams import judge_streams
from cnc.errors import Unschedulable
from cnc.mechanisms.frer.derive import sequence_functions
from cnc.mechanisms.frer.model import Recovery
from cnc.model import Elimination, Intent, Plan, PortRef, Windows
from cnc.page.data import page_data
from cnc.planner import Live, plan
from tests.simulator.adversary import Chance
from tests.simulator.outcome import missed
from tests.simulator.ports import Disturbance
from tests.unit.planner_networks import MS, US, examples, intent, intents, network, seeded, stream
from tests.unit.test_recovery import WIRE_NS, of_one_talker, with_much_control

SCHEDULES = Path(__file__).parents[2] / "schedules"


def wanted(*, is_required: bool = False, disturbance_ns: int | None = 100 * US) -> Intent:
    """A port between s1 and s2 that is too full to recover, and a stream that goes another way."""
    apart = network("t-s1", "s1-s2", "s2-l", "u-s3", "s3-s4", "s4-m")
    apart = replace(apart, disturbance_ns=disturbance_ns, recovery_required=is_required)
    crowd = [stream(f"f{n}", "t", "l", period_ns=100 * US) for n in range(19)]
    asked = intent(apart, *crowd, stream("g", "u", "m"))
    return with_windows(asked, Windows.EXACT)


def with_windows(asked: Intent, windows: Windows) -> Intent:
    streams = {n: replace(its, windows=windows) for n, its in asked.streams.items()}
    return replace(asked, streams=streams)


CROWD = {f"f{n}" for n in range(19)}


def test_streams_without_a_bound_have_a_place_and_others_keep_their_bound() -> None:
    planned = plan(wanted())
    assert planned.streams.keys() == CROWD | {"g"}
    assert planned.recovery_ns.keys() == {"g"}
    assert judge(planned) == []


def test_required_refuses_the_same_plan_and_leaves_streams_out_where_that_is_accepted() -> None:
    with pytest.raises(Unschedulable, match="too little time for f0"):
        plan(wanted(is_required=True))
    rest = plan(wanted(is_required=True), best_effort=True)
    assert rest.refused.keys() < CROWD
    assert rest.recovery_ns.keys() == rest.streams.keys()
    assert judge(rest) == []


def test_the_judge_misses_a_bound_only_where_it_is_required_and_checks_each_that_is_stated() -> (
    None
):
    planned = plan(wanted())
    required = replace(planned, intent=wanted(is_required=True))
    assert {(each.code, each.where) for each in judge(required)} == {
        ("recovery", name) for name in CROWD
    }
    assert judge(replace(planned, recovery_ns={})) == []
    shorter = replace(planned, recovery_ns={"g": planned.recovery_ns["g"] // 2})
    assert [(each.code, each.where) for each in judge(shorter)] == [("recovery", "g")]
    made_up = replace(planned, recovery_ns={**planned.recovery_ns, "f0": 10**12})
    assert [(each.code, each.where) for each in judge(made_up)] == [("recovery", "f0")]


def test_what_is_late_for_ever_keeps_those_from_a_bound_that_it_meets_later() -> None:
    """Stream x only leaves s2, to which the crowd comes."""
    net = network("t-s1", "s1-s2", "s2-l", "u-s2", "s2-m")
    net = replace(net, disturbance_ns=800 * US)
    crowd = [stream(f"f{n}", "t", "l", period_ns=100 * US) for n in range(18)]
    asked = intent(net, *crowd, stream("x", "u", "l"), stream("y", "u", "m"))
    planned = plan(with_windows(asked, Windows.EXACT))
    assert planned.recovery_ns.keys() == {"y"}
    assert judge(planned) == []
    made_up = replace(planned, recovery_ns={**planned.recovery_ns, "x": 10**12})
    assert [(each.code, each.where) for each in judge(made_up)] == [("recovery", "x")]


def test_a_talker_without_a_pause_keeps_its_own_streams_from_a_bound() -> None:
    busy = of_one_talker(20, 20 * WIRE_NS)
    asked = replace(busy, network=replace(busy.network, disturbance_ns=0))
    planned = plan(with_windows(asked, Windows.EXACT))
    assert planned.recovery_ns == {}
    assert judge(planned) == []
    assert "t/s1: the talker sends without a pause" in (unbounded.warning(judgement(planned)) or "")


# --- what is said of it ---------------------------------------------------------------------------


def test_the_warning_names_streams_and_ports_with_the_reason_and_what_helps() -> None:
    text = unbounded.warning(judgement(plan(wanted()))) or ""
    assert text.startswith(
        "no bound is found on how long after a disturbance 19 of 20 streams (f0, f1, f2, f3, f4, "
        "14 more) may be late, which is no proof that they stay late: s2/l: beside planned "
        "windows its gates are open for too short a time"
    )
    assert "s3/s4" not in text
    assert "`recovery: required` refuses" in unbounded.HINT


def test_nothing_is_said_where_all_have_a_bound_or_none_is_asked_for() -> None:
    alone = wanted()
    alone = replace(alone, streams={"g": alone.streams["g"]})
    assert unbounded.warning(judgement(plan(alone))) is None
    assert unbounded.warning(judgement(plan(wanted(disturbance_ns=None)))) is None


def test_where_nothing_is_promised_the_account_is_made_for_the_warning_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    planned = plan(wanted())
    silent = replace(planned, recovery_ns={})
    monkeypatch.setattr("cnc.check.whole.account_of", None)
    monkeypatch.setattr("cnc.check.change.rules.account_of", None)
    judged = judgement(silent)
    assert judged.violations == []
    live = Live(silent)
    gone = live.remove(["f0"])
    assert Judged(silent, judged).after(live.plan, Named({"f0"}, gone.gates.keys())) == []
    monkeypatch.undo()
    assert judged.endless == judgement(planned).endless != {}


def test_the_page_has_the_warning_and_the_recovery_of_those_that_have_a_bound() -> None:
    planned = plan(wanted())
    data = page_data(planned)
    assert data["unbounded"] == unbounded.warning(judgement(planned))
    assert data["recovery_ns"] == planned.recovery_ns["g"]
    shown = {each["name"]: each["recovery_ns"] for each in data["streams"]}
    assert {name for name, ns in shown.items() if ns is not None} == {"g"}


def crowded_file(tmp_path: Path, recovery: object) -> Path:
    document = yaml.safe_load((SCHEDULES / "line3.yaml").read_text())
    document["defaults"] |= {"recovery": recovery, "windows": "exact"}
    first = next(iter(document["streams"].values()))
    crowd = {"period": "100us", "max-latency": "100us", "payload": "100B"}
    kept = {key: its for key, its in first.items() if key in {"talker", "listeners", "class"}}
    document["streams"] = {f"f{n}": kept | crowd for n in range(19)}
    file = tmp_path / "crowded.yaml"
    file.write_text(yaml.safe_dump(document))
    return file


def cnc(*argv: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "cnc", *map(str, argv)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_plan_check_and_show_warn_and_required_refuses(tmp_path: Path) -> None:
    file, planned = crowded_file(tmp_path, "100us"), tmp_path / "plan.json"
    made = cnc("plan", file, "-o", planned)
    for done in (made, cnc("check", planned), cnc("show", planned)):
        assert done.returncode == 0
        assert "cnc: warning: no bound is found on how long after a disturbance" in done.stderr
        assert "19 of 19 streams" in done.stderr
    assert cnc("plan", file, "--json").stderr == ""
    silent = crowded_file(tmp_path, "none")
    assert "no bound is found" not in cnc("plan", silent).stderr
    for recovery in ("required", {"disturbance": "50us", "required": True}):
        refused = cnc("plan", crowded_file(tmp_path, recovery))
        assert refused.returncode != 0
        assert "no bound is found on how long frames are late" in refused.stderr


def test_a_command_judges_a_plan_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, planned = crowded_file(tmp_path, "100us"), tmp_path / "plan.json"
    judged: list[Plan] = []

    def counted(plan: Plan, lists: Mapping[PortRef, GateCycle]) -> object:
        judged.append(plan)
        return judge_streams(plan, lists)

    monkeypatch.setattr("cnc.check.whole.judge_streams", counted)
    page = tmp_path / "page.html"
    for argv in (
        ("plan", file, "-o", planned),
        ("check", planned),
        ("show", planned),
        ("show", planned, "--html", page),
    ):
        judged.clear()
        done = CliRunner().invoke(cli.cnc, [str(each) for each in argv])
        assert done.exit_code == 0
        assert "no bound is found" in done.stderr
        assert len(judged) == 1


def test_recovery_is_stated_as_a_time_a_word_or_a_mapping() -> None:
    document = yaml.safe_load((SCHEDULES / "line3.yaml").read_text())
    for stated, expected in (
        ("20us", (20 * US, False)),
        ("none", (None, False)),
        ("required", (100 * US, True)),
        ({"required": True}, (100 * US, True)),
        ({"disturbance": "1ms"}, (MS, False)),
        ({"disturbance": "0us", "required": True}, (0, True)),
    ):
        document["defaults"]["recovery"] = stated
        found = intents_from.from_document(document, "stated").network
        assert (found.disturbance_ns, found.recovery_required) == expected


def test_switches_that_take_out_copies_count_with_the_disturbance_where_there_is_no_bound() -> None:
    planned = plan(intents_from.load(SCHEDULES / "guarded.yaml"))
    streams = planned.intent.streams
    name = next(n for n, its in streams.items() if its.elimination is Elimination.SWITCH)

    def reset_ms(its: Plan) -> int:
        functions = sequence_functions(its, name).values()
        return max(each.reset_timeout_ms for each in functions if isinstance(each, Recovery))

    long = replace(planned, recovery_ns={**planned.recovery_ns, name: 50 * MS})
    assert reset_ms(long) >= reset_ms(planned) + 45
    others = {n: its for n, its in planned.recovery_ns.items() if n != name}
    without = replace(planned, recovery_ns=others)
    assert reset_ms(without) <= reset_ms(planned)
    text = unbounded.warning(judgement(without)) or ""
    assert f"Switches eliminate duplicates of {name} that come up to 100 µs late" in text


# --- any network ---------------------------------------------------------------------------------


@examples(max_examples=25)
@given(intents(streams_max=8, entries_max=st.sampled_from([0, 0, 16, 6])), st.integers(0, 1000))
def test_no_stream_is_late_for_longer_than_promised_beside_such_without_a_bound(
    drawn: Intent, seed: int
) -> None:
    asked = with_much_control(drawn)
    asked = replace(asked, network=replace(asked.network, disturbance_ns=300 * US))
    try:
        planned = plan(asked, best_effort=True)
    except Unschedulable:
        return
    assert judge(planned) == []
    random, cycle = seeded(seed), asked.hyperperiod_ns()
    for port in sorted(planned.gates) if planned.recovery_ns else ():
        its = planned.streams.values()
        offsets = [h.offset_ns for each in its for h in each.hops if h.egress == port]
        disturbance = Disturbance(port, cycle + random.choice(offsets) - 1, 300 * US)
        against = Chance(random.randrange(1000))
        lasts = 3 * cycle + 2 * max(planned.recovery_ns.values())
        for frame, _, _ in missed(planned, against, duration_ns=lasts, disturbance=disturbance):
            promised = planned.recovery_ns.get(frame.flow.name, lasts)
            late_ns = frame.begin_ns - disturbance.end_ns - asked.network.clock_error_ns
            assert late_ns <= promised


# --- which windows --------------------------------------------------------------------------------


def test_auto_takes_shared_windows_where_more_streams_have_a_bound_so() -> None:
    asked = with_windows(wanted(), Windows.AUTO)
    planned = plan(asked)
    assert all(its.is_shared for its in planned.streams.values())
    assert planned.recovery_ns.keys() == planned.streams.keys()
    assert judge(planned) == []
    unasked = plan(with_windows(wanted(disturbance_ns=None), Windows.AUTO))
    assert not any(its.is_shared for its in unasked.streams.values())
