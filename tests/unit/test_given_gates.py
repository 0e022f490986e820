"""Gate control lists that an operator gives: by port, and as shares of classes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from cnc import cli
from cnc import intent as intents
from cnc.check import judge
from cnc.check.change import Judged
from cnc.errors import InputError, Unschedulable
from cnc.mechanisms.gates.given import GivenList, GivenLists, operative, remark
from cnc.model import GateControlList, GateEntry, GateLimits, Plan, PortRef
from cnc.planner import Live, _problem, plan
from cnc.planner.sharing.forward import ForwardWays
from cnc.plans import file as planfile
from tests.intent_documents import LINE3

US, MS = 1_000, 1_000_000
WITHOUT_STREAMS = LINE3.read_text().partition("\nstreams:")[0] + "\nstreams: {}\n"
PORT = PortRef("s1", "s2")
STATED = """{
      gate-control-list: {cycle: 1ms, entries: [
        {open: [control, cyclic], for: 300us},
        {open: 0x81, for: 700us}]}}"""
HIGH = "  high: {traffic-class: 5, priority: 5, dscp: 34, role: scheduled, windows: {SHARE}}\n"


def documented(tmp_path: Path, its: str, text: str = WITHOUT_STREAMS) -> Path:
    """line3 with what is stated of port s2 of s1."""
    ports = f"ports: {{t1: {{}}, t2: {{}}, s2: {its}}}"
    path = tmp_path / "network.yaml"
    path.write_text(text.replace("ports: [t1, t2, s2]", ports))
    return path


def shared(tmp_path: Path, share: str, more: str = "", text: str = WITHOUT_STREAMS) -> Path:
    """line3 with a class `high` with a share."""
    path = tmp_path / "network.yaml"
    high = HIGH.replace("{SHARE}", share)
    path.write_text(text.replace("  best-effort: {", f"{high}{more}  best-effort: {{", 1))
    return path


def entries_of(gates: GateControlList) -> list[tuple[int, int]]:
    return [(each.gate_states, each.interval_ns) for each in gates.entries]


def refusal(path: Path) -> str:
    with pytest.raises(InputError) as error:
        intents.load(path)
    return str(error.value)


def test_a_port_runs_the_list_that_it_is_given_without_any_stream(tmp_path: Path) -> None:
    made = plan(intents.load(documented(tmp_path, STATED)))
    assert made.gates.keys() == {PORT}
    assert entries_of(made.gates[PORT]) == [(0xC0, 300 * US), (0x81, 700 * US)]
    assert judge(made) == []


def test_a_plan_with_given_lists_is_read_back_from_its_file_as_it_was(tmp_path: Path) -> None:
    made = plan(intents.load(documented(tmp_path, STATED)))
    written = tmp_path / "plan.json"
    planfile.dump(made, written)
    assert planfile.load(written) == made


def test_the_last_state_holds_where_a_list_is_shorter_than_its_cycle(tmp_path: Path) -> None:
    short = STATED.replace("700us", "200us")
    made = plan(intents.load(documented(tmp_path, short)))
    assert entries_of(made.gates[PORT]) == [(0xC0, 300 * US), (0x81, 700 * US)]
    assert judge(made) == []
    told = remark(made.intent[GivenLists].by_port[PORT])
    assert told == (
        "its list lasts 500 µs of a cycle of 1 ms: the states of its last entry, 0x81, hold for "
        "the other 500 µs"
    )


def test_what_is_behind_the_end_of_the_cycle_never_runs(tmp_path: Path) -> None:
    long = STATED.replace("700us}", "900us}, {open: control, for: 50us}")
    made = plan(intents.load(documented(tmp_path, long)))
    assert entries_of(made.gates[PORT]) == [(0xC0, 300 * US), (0x81, 700 * US)]
    assert judge(made) == []
    told = remark(made.intent[GivenLists].by_port[PORT])
    assert told == (
        "its list lasts 1.25 ms, the cycle 1 ms: 200 µs of entry 1 and the last 1 entry never run"
    )


def test_a_base_offset_moves_the_list_within_the_cycle(tmp_path: Path) -> None:
    moved = STATED.replace("cycle: 1ms", "cycle: 1ms, base-offset: 100us")
    made = plan(intents.load(documented(tmp_path, moved)))
    assert entries_of(made.gates[PORT]) == [(0x81, 100 * US), (0xC0, 300 * US), (0x81, 600 * US)]
    assert judge(made) == []


GIVEN = st.builds(
    GivenList,
    st.integers(1, 50),
    st.lists(
        st.builds(GateEntry, st.integers(0, 255), st.integers(1, 20)), min_size=1, max_size=6
    ).map(tuple),
)


@given(GIVEN, st.data())
def test_gates_are_at_each_instant_as_the_state_machines_of_the_standard_have_them(
    stated: GivenList, data: st.DataObject
) -> None:
    offset = data.draw(st.integers(0, stated.cycle_ns - 1))
    made = operative(replace(stated, base_offset_ns=offset))
    assert sum(each.interval_ns for each in made.entries) == stated.cycle_ns
    states = [each.gate_states for each in made.entries for _ in range(each.interval_ns)]
    # 802.1Q 8.6.9.2: an entry after the other, the last one's states until the cycle starts anew.
    run = [each.gate_states for each in stated.entries for _ in range(each.interval_ns)]
    run += [stated.entries[-1].gate_states] * stated.cycle_ns
    due = [run[(at - offset) % stated.cycle_ns] for at in range(stated.cycle_ns)]
    assert states == due


@pytest.mark.parametrize(
    ("stated", "path", "refused"),
    [
        ("[cyclik]", ".entries[0].open", "found 'cyclik', expected one of best-effort, control"),
        ("0x08", ".entries[0].open", "found 0x08, which opens gates 0x08 of no class"),
        ("300", ".entries[0].open", "expected names of classes, a list, or a mask"),
        ("[control, cyclic], for: 300", ".entries[0].for", "expected a duration"),
    ],
)
def test_an_entry_that_cannot_be_is_refused_with_its_line(
    tmp_path: Path, stated: str, path: str, refused: str
) -> None:
    wrong = STATED.replace("[control, cyclic], for: 300us", f"{stated}, for: 300us")
    wrong = wrong.replace("300, for: 300us", "300").replace("for: 300, for: 300us", "for: 300")
    if stated == "300":
        wrong = STATED.replace("[control, cyclic]", "300")
    file = documented(tmp_path, wrong)
    line = next(i for i, t in enumerate(file.read_text().splitlines(), 1) if "{open" in t)
    told = refusal(file)
    assert f"{file}:{line}: switches.s1.ports.s2.gate-control-list{path}: " in told
    assert refused in told


@pytest.mark.parametrize(
    ("limit", "changed", "refused"),
    [
        ("gate-entries-max: 1", STATED, "found a list of 2 entries, expected at most 1, which"),
        ("gate-tick: 7us", STATED, "found an interval of 300 µs, expected a multiple of 7 µs"),
        ("gate-interval-min: 400us", STATED, "found an interval of 300 µs, expected at least 400"),
        ("gate-cycle-max: 900us", STATED, "found a cycle of 1 ms, expected at most 900 µs"),
        (
            "gate-tick: 1ns",
            STATED.replace("300us", "5us"),
            "found class cyclic open for 5 µs at most, expected 12.338 µs at once, which its larg",
        ),
        (
            "gate-tick: 1ns",
            STATED.replace("0x81", "0x80"),
            "found class best-effort never open, expected",
        ),
    ],
)
def test_a_list_that_the_port_cannot_run_is_refused_with_its_line(
    tmp_path: Path, limit: str, changed: str, refused: str
) -> None:
    file = documented(tmp_path, changed.replace("{\n", f"{{{limit},\n", 1))
    line = next(i for i, t in enumerate(file.read_text().splitlines(), 1) if "gate-control" in t)
    told = refusal(file)
    assert f"{file}:{line}: switches.s1.ports.s2.gate-control-list: {refused}" in told


def test_limits_that_switches_state_refuse_a_list_by_port(tmp_path: Path) -> None:
    intent = intents.load(documented(tmp_path, STATED))
    with pytest.raises(Unschedulable) as error:
        plan(intent.within({PORT: GateLimits(entries_max=1)}))
    assert error.value.reasons == {
        "port s1/s2": "the list that is given has a list of 2 entries, expected at most 1, which "
        "the port holds"
    }


def test_intervals_longer_than_the_port_takes_are_cut(tmp_path: Path) -> None:
    intent = intents.load(documented(tmp_path, STATED))
    made = plan(intent.within({PORT: GateLimits(interval_max_ns=500 * US)}))
    assert entries_of(made.gates[PORT]) == [(0xC0, 300 * US), (0x81, 350 * US), (0x81, 350 * US)]
    assert judge(made) == []


def test_a_port_without_a_cable_has_no_list(tmp_path: Path) -> None:
    text = WITHOUT_STREAMS.replace(
        "ports: [t1, t2, s2]", f"ports: {{t1: {{}}, t2: {{}}, s2: {{}}, spare: {STATED}}}"
    )
    path = tmp_path / "network.yaml"
    path.write_text(text)
    assert "found a list of s1/spare, which has no link" in refusal(path)


def test_a_stream_that_would_leave_by_such_a_port_is_refused_by_name(tmp_path: Path) -> None:
    intent = intents.load(documented(tmp_path, STATED, LINE3.read_text()))
    with pytest.raises(Unschedulable) as error:
        plan(intent)
    assert error.value.reasons.keys() == {"motion", "torque", "camera", "valves"}
    assert error.value.reasons["motion"].startswith(
        "its path leads by s1/s2, whose gate control list is given: "
    )


def test_streams_are_planned_where_they_meet_no_given_list(tmp_path: Path) -> None:
    text = LINE3.read_text().replace(
        "ports: [s2, l1, l2]", f"ports: {{s2: {STATED}, l1: {{}}, l2: {{}}}}"
    )
    path = tmp_path / "network.yaml"
    path.write_text(text)
    made = plan(intents.load(path))
    assert len(made.streams) == 4
    assert entries_of(made.gates[PortRef("s3", "s2")]) == [(0xC0, 300 * US), (0x81, 700 * US)]
    assert judge(made) == []
    without = plan(intents.load(LINE3))
    assert {**without.gates, PortRef("s3", "s2"): made.gates[PortRef("s3", "s2")]} == made.gates
    assert made.streams == without.streams


def triangle(tmp_path: Path) -> Path:
    """line3 with a cable from s1 to s3, where s1 has the list that is stated."""
    text = LINE3.read_text().replace(
        "ports: [t1, t2, s2]", f"ports: {{t1: , t2: , s2: , s3: {STATED}}}"
    )
    text = text.replace("ports: [s2, l1, l2]", "ports: [s2, l1, l2, s1]")
    path = tmp_path / "network.yaml"
    path.write_text(
        text.replace("  - [s2/s3, s3/s2]\n", "  - [s2/s3, s3/s2]\n  - [s1/s3, s3/s1]\n")
    )
    return path


def test_a_stream_leads_around_a_port_whose_list_is_given(tmp_path: Path) -> None:
    path = triangle(tmp_path)
    made = plan(intents.load(path))
    assert len(made.streams) == 4
    crossed = {hop.egress for its in made.streams.values() for hop in its.hops}
    assert PORT in crossed
    assert PortRef("s1", "s3") not in crossed
    assert judge(made) == []
    path.write_text(path.read_text().replace(STATED, ""))
    assert PORT not in plan(intents.load(path)).gates


def test_so_do_ways_that_streams_get_to_share_windows(tmp_path: Path) -> None:
    asked = _problem(intents.load(triangle(tmp_path)), None, 1)[0]
    rank = {"s1": 0, "s2": 1, "s3": 2}
    forward = ForwardWays(asked)
    forward.follow(
        {n: rank[its.source.node] for n, its in enumerate(asked.links) if its.source.node in rank}
    )
    way = forward.find("t1", "l1", 0.0)
    assert way is not None
    crossed = [asked.links[number].source for number in way]
    assert PORT in crossed
    assert PortRef("s1", "s3") not in crossed


def test_streams_that_come_and_go_leave_a_given_list_alone(tmp_path: Path) -> None:
    text = LINE3.read_text().replace(
        "ports: [s2, l1, l2]", f"ports: {{s2: {STATED}, l1: {{}}, l2: {{}}}}"
    )
    path = tmp_path / "network.yaml"
    path.write_text(text.replace("100us}\n", "100us}\n"))
    made = plan(intents.load(path))
    judged = Judged(made)
    live = Live(made)
    live.remove(["valves"])
    assert live.plan.gates[PortRef("s3", "s2")] == made.gates[PortRef("s3", "s2")]
    assert judged.after(live.plan) == []
    back = replace(made.intent.streams["valves"], talker="l1", listeners=("t1",), name="back")
    with pytest.raises(Unschedulable, match="leads by s3/s2, whose gate control list is given"):
        live.add([back])
    live.add([made.intent.streams["valves"]])
    assert live.plan.gates.keys() == made.gates.keys()
    assert judge(live.plan) == []


def test_a_kept_stream_has_no_place_any_more_where_a_list_is_given(tmp_path: Path) -> None:
    before = plan(intents.load(LINE3))
    intent = intents.load(documented(tmp_path, STATED, LINE3.read_text()))
    after = plan(intent, keep=before, best_effort=True)
    assert not after.streams
    assert len(after.refused) == 4
    assert judge(after) == []


def broken(made: Plan, gates: GateControlList | None) -> list[str]:
    lists = {port: its for port, its in made.gates.items() if port != PORT}
    if gates:
        lists[PORT] = gates
    return [str(each) for each in judge(replace(made, gates=lists))]


def test_the_judge_finds_a_list_that_is_not_as_given(tmp_path: Path) -> None:
    made = plan(intents.load(documented(tmp_path, STATED)))
    first, second = made.gates[PORT].entries
    other = replace(first, gate_states=0xC1)
    assert broken(made, GateControlList(MS, (other, second))) == [
        "s1/s2: gates are 0xc1 at 0 ns of the cycle, 0xc0 are given [gate-given]"
    ]
    later = (replace(first, interval_ns=310 * US), replace(second, interval_ns=690 * US))
    assert broken(made, GateControlList(MS, later)) == [
        "s1/s2: gates are 0xc0 at 300000 ns of the cycle, 0x81 are given [gate-given]"
    ]
    twice = GateControlList(2 * MS, (first, second) * 2)
    assert broken(made, twice) == [
        "s1/s2: the cycle is 2000000 ns, 1000000 ns are given [gate-given]"
    ]
    assert broken(made, None) == ["s1/s2: no gate control list, but one is given [gate-given]"]
    short = replace(made.gates[PORT], entries=(first,))
    assert broken(made, short) == [
        "s1/s2: the intervals add up to 300000 ns, the cycle is 1000000 ns [gate-cycle]"
    ]


def test_the_judge_finds_a_class_whose_largest_frame_never_fits(tmp_path: Path) -> None:
    made = plan(intents.load(documented(tmp_path, STATED)))
    stated = GivenList(MS, (GateEntry(0xC0, 5 * US), GateEntry(0x81, 995 * US)))
    intent = made.intent.having(GivenLists({PORT: stated}))
    narrow = replace(made, intent=intent, gates={PORT: operative(stated)})
    [violation] = judge(narrow)
    assert str(violation) == (
        "s1/s2: class cyclic is never open for more than 5000 ns, its largest frame takes 12338 ns "
        "[gate-frame]"
    )


def test_a_share_opens_a_class_alone_at_every_port_of_a_switch(tmp_path: Path) -> None:
    made = plan(intents.load(shared(tmp_path, "{share: 30%, every: 1ms, after: 200us}")))
    switched = {port for port in made.intent.network.links if port.node in {"s1", "s2", "s3"}}
    assert made.gates.keys() == switched
    assert {tuple(entries_of(its)) for its in made.gates.values()} == {
        ((0x81, 200 * US), (0xA0, 300 * US), (0x81, 500 * US))
    }
    assert judge(made) == []


def test_shares_follow_each_other(tmp_path: Path) -> None:
    low = (
        "  low: {traffic-class: 3, priority: 3, dscp: 26, role: scheduled, "
        "windows: {share: 20%, every: 1ms, after: high}}\n"
    )
    made = plan(intents.load(shared(tmp_path, "{share: 30%, every: 1ms}", low)))
    assert entries_of(made.gates[PORT]) == [(0xA0, 300 * US), (0x88, 200 * US), (0x81, 500 * US)]
    assert judge(made) == []


def test_a_port_with_a_list_of_its_own_runs_that_beside_shares(tmp_path: Path) -> None:
    text = shared(tmp_path, "{share: 30%, every: 1ms}").read_text()
    made = plan(intents.load(documented(tmp_path, STATED, text)))
    assert entries_of(made.gates[PORT]) == [(0xC0, 300 * US), (0x81, 700 * US)]
    assert entries_of(made.gates[PortRef("s2", "s1")])[0] == (0xA0, 300 * US)
    assert judge(made) == []


@pytest.mark.parametrize(
    ("share", "refused"),
    [
        ("{share: 30%}", "windows: found a share without every, expected every, the time"),
        ("{every: 1ms}", "windows.every: found every without a share, expected share, such as"),
        ("{share: 30%, every: 1ms, after: low}", "windows.after: found 'low', expected a duration"),
        ("{share: 30%, every: 1ms, after: high}", "windows.after: found 'high', expected a durat"),
        ("{share: 30%, every: 1ms, after: 800us}", "found windows that end 1.1ms into a cycle"),
        ("{share: 30%, every: 1ms, frames: shared}", "found a share, and frames: shared, expected"),
        ("{share: 0.1%, every: 1ms}", "found class high open for 1 µs at most at s1/s2"),
        ("{share: 99.5%, every: 1ms}", "expected a share of the cycle from 1ppb to 99%"),
        ("thin", "windows: found 'thin', expected one of exact, shared, auto"),
    ],
)
def test_a_share_that_cannot_be_is_refused(tmp_path: Path, share: str, refused: str) -> None:
    told = refusal(shared(tmp_path, share))
    assert "network.yaml:37: classes.high.windows" in told
    assert refused in told


def test_windows_that_would_overlap_are_refused(tmp_path: Path) -> None:
    low = (
        "  low: {traffic-class: 3, priority: 3, dscp: 26, role: scheduled, "
        "windows: {share: 20%, every: 500us}}\n"
    )
    assert (
        "found windows that begin at 0 ns, while those of class low last until 100 µs, expected "
        "windows of their own"
    ) in refusal(shared(tmp_path, "{share: 30%, every: 1ms}", low))


def test_a_class_with_a_share_carries_no_stream(tmp_path: Path) -> None:
    text = LINE3.read_text().replace("class: cyclic", "class: high", 1)
    told = refusal(shared(tmp_path, "{share: 30%, every: 1ms}", text=text))
    assert "streams.motion.class: found high, whose windows are given by share" in told


def run(*words: str) -> str:
    result = CliRunner().invoke(cli.cnc, words)
    assert result.exit_code == 0, result.output
    return result.output


def test_each_class_is_told_what_it_can_send(tmp_path: Path) -> None:
    file = documented(tmp_path, STATED)
    told = run("plan", str(file))
    rows = [" ".join(line.split()) for line in told.splitlines()]
    assert "s1/s2 control 1 ms of 1 ms 1 Gb/s 0 ns any" in rows
    assert "cyclic 300 µs of 1 ms 300 Mb/s 712.338 µs 37476 B" in rows
    assert "best-effort 700 µs of 1 ms 700 Mb/s 312.338 µs 87471 B" in rows


def test_a_program_is_told_it_by_check(tmp_path: Path) -> None:
    written = tmp_path / "plan.json"
    run("plan", str(documented(tmp_path, STATED)), "-o", str(written))
    openings = json.loads(run("check", str(written), "--json"))["openings"]
    assert openings[1] == {
        "port": "s1/s2",
        "class_name": "cyclic",
        "cycle_ns": MS,
        "open_ns": 300 * US,
        "rate_bps": 300_000_000,
        "wait_ns": 712_338,
        "frame_octets": 37_476,
    }


def test_what_becomes_of_a_list_of_another_length_is_told(tmp_path: Path) -> None:
    told = run("plan", str(documented(tmp_path, STATED.replace("0x81", "0x01"))))
    assert "s1/s2: control is shut in each cycle of 1 ms: class control for 700 µs" in told


def test_a_plan_without_given_lists_is_what_it_was() -> None:
    made = plan(intents.load(LINE3))
    assert made.intent[GivenLists] == GivenLists()
    assert "openings" not in run("check", str(LINE3), "--json")


def test_the_longest_wait_is_that_of_the_longest_gap_between_openings(tmp_path: Path) -> None:
    twice = STATED.replace(
        "{open: 0x81, for: 700us}",
        "{open: 0x81, for: 100us}, {open: 0xc0, for: 100us}, {open: 0x81, for: 500us}",
    )
    written = tmp_path / "plan.json"
    run("plan", str(documented(tmp_path, twice)), "-o", str(written))
    cyclic = json.loads(run("check", str(written), "--json"))["openings"][1]
    assert (cyclic["open_ns"], cyclic["wait_ns"]) == (400 * US, 500 * US + 12_338)
    assert cyclic["frame_octets"] == 37_476


def test_an_opening_that_goes_on_into_the_next_cycle_is_one(tmp_path: Path) -> None:
    over = STATED.replace("cycle: 1ms", "cycle: 1ms, base-offset: 900us")
    written = tmp_path / "plan.json"
    run("plan", str(documented(tmp_path, over)), "-o", str(written))
    cyclic = json.loads(run("check", str(written), "--json"))["openings"][1]
    assert (cyclic["open_ns"], cyclic["wait_ns"]) == (300 * US, 712_338)
    assert cyclic["frame_octets"] == 37_476


def test_a_gate_that_may_open_late_lets_a_frame_wait_longer_and_be_shorter(tmp_path: Path) -> None:
    late = WITHOUT_STREAMS.replace("gate-margin: 0ns", "gate-margin: 50us")
    file = documented(tmp_path, STATED, late)
    written = tmp_path / "plan.json"
    run("plan", str(file), "-o", str(written))
    cyclic = json.loads(run("check", str(written), "--json"))["openings"][1]
    assert (cyclic["open_ns"], cyclic["wait_ns"]) == (300 * US, 712_338 + 50 * US)
    assert cyclic["frame_octets"] == 31_226
