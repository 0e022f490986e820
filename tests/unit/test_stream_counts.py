"""What is said of the copies of streams by the counters of last switches: in `status` and `watch`.

t ── s1 ── s2 ── s3 ── l
      └─── s4 ───┘
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import zip_longest

import pytest

from cnc.cli.render.status import status as show
from cnc.data_tree.counters import PortCounters
from cnc.data_tree.state import SwitchState
from cnc.data_tree.tree import TSN_LINUX, AgentReport, BridgeReport
from cnc.mechanism import Counts as BridgeCounts
from cnc.mechanisms.frer.counts import SilentPaths
from cnc.mechanisms.frer.model import FoundErrors, LatentErrors, Recovery, SequenceFunctions
from cnc.mechanisms.frer.watched import HINT_PATHS, Copies
from cnc.model import NS_PER_S, BridgeForwarding, Elimination, Parts, Plan, PortRef
from cnc.planner import plan
from cnc.rollout.compare import PortStatus
from cnc.rollout.compare import _port_status as port_status
from cnc.rollout.stream_counts import Look, compared
from cnc.switch.device import StoredSwitch
from cnc.switch.subscription import Notification
from cnc.watch.condition import Event
from cnc.watch.messages import requires_poll
from cnc.watch.observation import Poll
from cnc.watch.observer import Observer
from tests.json_documents import documented
from tests.unit.asked import asked, bridge_forwarding, desired_ports
from tests.unit.bridged_networks import bridged
from tests.unit.places import bridge_report
from tests.unit.planner_networks import RING, stream

START = datetime(2026, 11, 23, 9, 0, tzinfo=UTC)
LAST = "s3"
Counts = Mapping[str, Mapping[str, int]]


@pytest.fixture(scope="module")
def made() -> Plan:
    twice = stream("twice", "t", "l", paths=2)
    return plan(bridged(RING, replace(twice, elimination=Elimination.SWITCH)))


@pytest.fixture(scope="module")
def desired(made: Plan) -> BridgeForwarding:
    return desired_ports(made, LAST)["br0"][BridgeForwarding]


def came(fast: int, slow: int, **others: int) -> Counts:
    """What a last switch has counted of so many copies by each way: the fast ones pass."""
    return {"s2": {"passed": fast, **others}, "s4": {"discarded": slow}}


def counters(made: Plan, counts: Counts) -> dict[str, PortCounters]:
    return {
        port: PortCounters(recovery={made.addresses["twice"]: its}) for port, its in counts.items()
    }


def look(made: Plan, after_s: float, counts: Counts, latent: LatentErrors | None = None) -> Look:
    """The last switch, which may have found `latent` errors."""
    does = bridge_forwarding(made, LAST)
    errors = {made.addresses["twice"]: latent} if latent else {}
    report = bridge_report(BridgeReport((), does, counts=Parts.of(FoundErrors(errors))))
    now_ns = round(after_s * NS_PER_S)
    state = SwitchState(AgentReport(37, 100), {"br0": report}, now_ns, now_ns)
    return Look(state, counters(made, counts))


def found(made: Plan, desired: BridgeForwarding, before: Counts, after: Counts) -> BridgeCounts:
    return compared("br0", desired, look(made, 0, before), look(made, 1, after))


def test_a_stream_of_which_copies_come_by_both_ways_is_no_problem(
    made: Plan, desired: BridgeForwarding
) -> None:
    counts = found(made, desired, came(100, 90), came(1_100, 1_090))
    assert counts.problems == counts.past == ()
    assert [(its.stream, its.port, its.passed, its.discarded) for its in counts.of(Copies)] == [
        ("twice", "s2", 1_100, 0),
        ("twice", "s4", 0, 1_090),
    ]


@pytest.mark.parametrize(
    ("after", "silent", "by"), [(came(1_100, 90), "s4", "s2"), (came(100, 1_090), "s2", "s4")]
)
def test_a_way_by_which_no_copy_comes_while_others_do_is_silent(
    made: Plan, desired: BridgeForwarding, after: Counts, silent: str, by: str
) -> None:
    counts = found(made, desired, came(100, 90), after)
    text = f"no copy of twice arrives at {silent}, while 1000 frames arrived at {by}"
    assert counts.problems == (text,)
    assert [its.port for its in counts.of(Copies) if its.is_silent] == [silent]


def test_a_talker_that_sends_nothing_makes_no_way_silent(
    made: Plan, desired: BridgeForwarding
) -> None:
    assert found(made, desired, came(100, 90), came(100, 90)).problems == ()


def test_copies_of_a_slower_way_may_be_as_late_as_the_history_allows(
    made: Plan, desired: BridgeForwarding
) -> None:
    (recovery,) = desired[SequenceFunctions].by_stream.values()
    assert isinstance(recovery, Recovery)
    late = recovery.history_length
    assert found(made, desired, came(100, 90), came(100 + late, 90)).problems == ()
    assert found(made, desired, came(100, 90), came(101 + late, 90)).problems != ()


def test_what_comes_by_a_way_between_two_looks_is_added_up(
    made: Plan, desired: BridgeForwarding
) -> None:
    """A stream with a long period sends few frames between two looks."""
    paths = SilentPaths()
    silent = [
        {path.port for path in paths.update(desired, counters(made, came(100 + count, 90)))}
        for count in range(12)
    ]
    assert silent[0] == set()
    assert silent[-1] == {"s4"}
    assert paths.update(desired, counters(made, came(112, 91))) == {}


def test_counters_that_begin_again_are_no_silence(made: Plan, desired: BridgeForwarding) -> None:
    assert found(made, desired, came(1_000, 1_000), came(1_500, 500)).problems == ()


def test_a_switch_that_reports_no_counters_is_asked_for_none(
    made: Plan, desired: BridgeForwarding
) -> None:
    assert found(made, desired, {}, {}) == BridgeCounts()


def test_lost_and_rogue_frames_are_a_problem_while_they_grow(
    made: Plan, desired: BridgeForwarding
) -> None:
    before, after = came(100, 90, lost=5, rogue=2), came(1_100, 1_090, lost=8, rogue=3)
    counts = found(made, desired, before, after)
    assert counts.problems == (
        "3 frames of twice lost on all paths",
        "1 frame of twice rogue",
    )
    assert found(made, desired, after, after).problems == ()


def test_a_latent_error_is_a_problem_until_the_switch_says_that_it_has_ended(
    made: Plan, desired: BridgeForwarding
) -> None:
    def counts(latent: LatentErrors) -> BridgeCounts:
        before, after = came(100, 90), came(1_100, 1_060)
        return compared("br0", desired, look(made, 0, before), look(made, 1, after, latent))

    bad = counts(LatentErrors(is_detected=True, difference=30, tests=2))
    text = "copies of twice do not arrive by all paths: 30 copies of them too few or too many"
    assert bad.problems == (text,)
    assert bad.hints == (HINT_PATHS,)
    assert [its.has_latent_error for its in bad.of(Copies)] == [True, True]
    good = counts(LatentErrors(is_detected=False, difference=1, tests=2))
    assert good.problems == ()
    assert [its.has_latent_error for its in good.of(Copies)] == [False, False]


# --- status --------------------------------------------------------------------------------------


def seen(
    made: Plan,
    desired: BridgeForwarding,
    before: Counts,
    after: Counts,
    latent: LatentErrors | None = None,
) -> PortStatus:
    second = look(made, 1, after, latent)
    return port_status(
        PortRef(LAST, "br0"),
        asked(desired),
        second.state.ports["br0"],
        (),
        compared("br0", desired, look(made, 0, before), second),
        stored=None,
        is_crossed=True,
        hint=None,
    )


def test_status_names_a_silent_way_and_what_to_do(
    made: Plan, desired: BridgeForwarding, capsys: pytest.CaptureFixture[str]
) -> None:
    good = seen(made, desired, came(100, 90), came(1_100, 1_090))
    bad = seen(made, desired, came(100, 90), came(1_100, 90))
    assert (good.verdict, good.agrees) == ("running", True)
    assert bad.verdict.startswith(
        "running; no copy of twice arrives at s4, while 1000 frames arrived"
    )
    assert not bad.agrees
    assert bad.hints == (HINT_PATHS,)
    show([good, bad], only_problems=True, as_json=False)
    rows = rows_of(capsys.readouterr().out)
    assert rows == [["twice", "s3", "s4", "0", "90", "0", "0", "silent"]]
    latent = seen(made, desired, came(100, 90), came(1_100, 1_000), LatentErrors(True, 90, 1))
    show([latent], only_problems=True, as_json=False)
    assert [row[-2:] for row in rows_of(capsys.readouterr().out)] == [["latent", "error"]] * 2
    show([good], only_problems=False, as_json=False)
    assert rows_of(capsys.readouterr().out) == [
        ["twice", "s3", "s2", "1,100", "0", "0", "0", "comes"],
        ["twice", "s3", "s4", "0", "1,090", "0", "0", "comes"],
    ]


def rows_of(printed: str) -> list[list[str]]:
    """The table of copies."""
    return [line.split() for line in printed.splitlines() if line.startswith("  twice ")]


def test_json_has_all_counts(
    made: Plan, desired: BridgeForwarding, capsys: pytest.CaptureFixture[str]
) -> None:
    show([seen(made, desired, came(100, 90), came(1_100, 90))], only_problems=False, as_json=True)
    printed = capsys.readouterr().out
    documented("status", printed)
    (port,) = json.loads(printed)
    assert [its["is_silent"] for its in port["counts"]["copies"]] == [False, True]
    assert port["counts"]["filters"] == []


# --- watch ---------------------------------------------------------------------------------------


def observed(
    made: Plan, *looks: tuple[float, Counts], latent: Sequence[LatentErrors | None] = ()
) -> list[tuple[str, str, str, str]]:
    """The events of streams at the last switch."""
    observer = Observer(made, is_known=lambda _: True)
    events: list[Event] = []
    for (after_s, counts), errors in zip_longest(looks, latent):
        its = look(made, after_s, counts, errors)
        at = START + timedelta(seconds=after_s)
        events += observer.take(Poll(LAST, at, its.state, StoredSwitch({}, None), its.counters))
    return told(events)


def told(events: Sequence[Event]) -> list[tuple[str, str, str, str]]:
    kinds = {"silent-path", "recovery-errors", "latent-error"}
    return [(each.what, each.kind, each.port, each.text) for each in events if each.kind in kinds]


def test_watch_tells_when_a_way_falls_silent_and_when_copies_come_again(made: Plan) -> None:
    text = "no copy of twice arrives at s4, while 1000 frames arrived at s2"
    assert observed(
        made,
        (0, came(100, 90)),
        (10, came(1_100, 1_090)),
        (20, came(2_100, 1_090)),
        (30, came(3_100, 2_090)),
    ) == [
        ("began", "silent-path", "s4", text),
        ("ended", "silent-path", "s4", text),
    ]


def test_watch_tells_of_frames_that_came_by_no_way(made: Plan) -> None:
    lost = came(100, 90, lost=7), came(200, 190, lost=9)
    assert observed(made, (0, lost[0]), (10, lost[1]), (80, lost[1])) == [
        ("began", "recovery-errors", "br0", "2 frames of twice lost on all paths"),
        ("ended", "recovery-errors", "br0", "2 frames of twice lost on all paths"),
    ]


def test_watch_tells_a_latent_error_once_and_its_end(made: Plan) -> None:
    text = "copies of twice do not arrive by all paths: 30 copies of them too few or too many"
    looks = [(10.0 * number, came(100 + number, 90 + number)) for number in range(4)]
    found = LatentErrors(is_detected=True, difference=30, tests=1)
    ended = LatentErrors(is_detected=False, difference=0, tests=2)
    assert observed(made, *looks, latent=(None, found, found, ended)) == [
        ("began", "latent-error", "br0", text),
        ("ended", "latent-error", "br0", text),
    ]


@pytest.mark.parametrize("name", ["latent-error", "latent-error-ended"])
def test_watch_looks_at_once_when_a_switch_reports_a_latent_error(name: str) -> None:
    assert requires_poll(Notification(TSN_LINUX, name, {}))
