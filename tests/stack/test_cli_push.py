"""`cnc` as an operator at a terminal has it, against real switches: Ctrl-C, -v, --json."""

from __future__ import annotations

import copy
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from lxml import etree

from cnc.data_tree.tree import NETCONF
from cnc.intent import from_document
from cnc.model import Plan
from cnc.planner import moves
from cnc.planner import plan as compute
from cnc.plans import file as planfile
from cnc.rollout.history import FILE_NAME, History, Phase
from cnc.switch.device import Device
from cnc.switch.rollout_id import RolloutId, rollout_id_element
from tests.json_documents import documented
from tests.scale.inspection import Inspector, inspector
from tests.scale.simulation import Simulation, simulated_switches

# `cnc`, held at a moment until a line comes in.
HELD = """
import os
import sys
from cnc.cli import main
from cnc.rollout.history import Journal
from cnc.rollout import rollout
from cnc.switch.device import Device

def hold(owner, name):
    does = getattr(owner, name)

    def held(*words, **named):
        os.write(1, b"held\\n")  # in one piece: switches are spoken to at once
        sys.stdin.readline()
        return does(*words, **named)

    setattr(owner, name, held)

hold({moment})
main()
"""
BEFORE_ANY_CHANGE = "rollout, 'examine'"
ALL_HAVE_COMMITTED = "Journal, 'decide'"
CONFIRMING = "Device, 'confirm'"


@pytest.fixture(scope="module")
def simulation():
    with simulated_switches(2) as running:
        yield running


@pytest.fixture(scope="module")
def former(simulation: Simulation) -> Plan:
    return compute(simulation.intent(200))


@pytest.fixture(scope="module")
def new(simulation: Simulation) -> Plan:
    return compute(simulation.intent(400))


class Operator:
    """Somebody with a shell, a plan file and a history."""

    def __init__(self, simulation: Simulation, directory: Path) -> None:
        self.plan_file = directory / "plan.json"
        self.state_dir = directory / "state"
        self.identity = simulation.connect.identity
        self.environment = os.environ | {
            "CNC_IDENTITY": str(self.identity),
            "CNC_KNOWN_HOSTS": str(simulation.connect.known_hosts),
            "CNC_STATE_DIR": str(self.state_dir),
            "XDG_CONFIG_HOME": str(directory),
        }

    def push(self, plan: Plan, *options: str) -> subprocess.CompletedProcess[str]:
        planfile.dump(plan, self.plan_file)
        return self.cnc("push", *options)

    def push_intent(
        self, document: Mapping[str, Any], *options: str
    ) -> subprocess.CompletedProcess[str]:
        self.plan_file = self.plan_file.with_name("intent.yaml")
        self.plan_file.write_text(json.dumps(document))
        return self.cnc("push", *options)

    def cnc(self, *words: str) -> subprocess.CompletedProcess[str]:
        """A command; one that is about the network gets the plan's file."""
        file = [] if words[0] in {"discover", "history", "rollback"} else [str(self.plan_file)]
        return subprocess.run(
            [sys.executable, "-m", "cnc", *words, *file],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def interrupt(self, plan: Plan, moment: str) -> tuple[int, str]:
        """A Ctrl-C in a push at this moment: exit code and what is told."""
        planfile.dump(plan, self.plan_file)
        with subprocess.Popen(
            [sys.executable, "-c", HELD.format(moment=moment), "push", str(self.plan_file)],
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as pushing:
            assert pushing.stdout is not None
            # The streams that move are told before.
            assert any(line == "held\n" for line in pushing.stdout), pushing.communicate()[1]
            pushing.send_signal(signal.SIGINT)
            _, told = pushing.communicate("\n\n", timeout=120)
            return pushing.returncode, told

    def last_phase(self) -> Phase:
        with History(self.state_dir / FILE_NAME) as history:
            return history.rollouts()[0].phase


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for all tests: who has another history is another controller."""
    return tmp_path_factory.mktemp("operator")


@pytest.fixture
def operator(simulation: Simulation, former: Plan, home: Path) -> Operator:
    """All switches run the former plan when a test begins."""
    operator = Operator(simulation, home)
    pushed = operator.push(former)
    assert pushed.returncode == 0, pushed.stderr
    return operator


@pytest.fixture
def seen(simulation: Simulation, operator: Operator):
    with inspector(simulation) as opened:
        yield opened


def test_ctrl_c_before_anything_was_sent_changes_nothing_and_says_so(
    operator: Operator, former: Plan, new: Plan, seen: Inspector
):
    code, told = operator.interrupt(new, BEFORE_ANY_CHANGE)
    assert code == 130
    assert told.endswith("cnc: interrupted\nno switch was changed\n")
    assert seen.lists() == former.gates
    assert seen.held() is None


def test_ctrl_c_after_all_have_committed_takes_all_back_and_says_so(
    operator: Operator, former: Plan, new: Plan, seen: Inspector
):
    code, told = operator.interrupt(new, ALL_HAVE_COMMITTED)
    assert code == 130
    assert told.endswith("cnc: interrupted\nno switch was changed\n")
    assert seen.lists() == former.gates
    assert seen.held() is None
    assert operator.last_phase() is Phase.ROLLED_BACK


def test_ctrl_c_while_switches_confirm_comes_too_late_and_is_told_so(
    operator: Operator, new: Plan, seen: Inspector
):
    code, told = operator.interrupt(new, CONFIRMING)
    assert code == 130
    assert told.endswith(
        "cnc: interrupted\ntoo late to interrupt: all switches run the new lists\n"
    )
    assert seen.lists() == new.gates
    assert operator.last_phase() is Phase.DONE


def test_without_v_a_push_says_only_what_came_of_it_and_what_may_go_wrong(
    operator: Operator, new: Plan
):
    warning, hint, *found = operator.push(new).stderr.splitlines()
    assert warning.startswith("cnc: warning: ")
    assert "frames may never leave" in warning
    assert hint.startswith("hint: gate-margin: ")
    # Which `cnc doctor` says of these switches, too: their TAI is that of a test.
    for line in found:
        assert line.startswith(
            ("cnc: warning: controller's clock: s", "hint: schedules follow the switches' clocks;")
        )


def test_v_tells_of_each_request_to_each_switch_and_what_it_took(operator: Operator, new: Plan):
    told = operator.push(new, "-v").stderr
    for switch in ("s1", "s2"):
        for request in ("connect", "lock running", "edit-config", "validate", "commit"):
            assert f" {switch}: {request} took " in told
    assert "sending the new gate control lists\n" in told  # the steps, as on a terminal
    assert "edit-config>" not in told


def test_vv_shows_the_messages_and_no_key(operator: Operator, new: Plan):
    told = operator.push(new, "-vv").stderr
    assert "edit-config>" in told
    assert "rpc-reply" in told
    key = operator.identity.read_text().splitlines()[1:-1]
    assert not [line for line in key if line in told]


def test_v_counts_before_the_command_as_well(operator: Operator):
    planned = operator.cnc("-v", "status")
    assert " s1: get took " in planned.stderr


def test_what_programs_get_of_the_switches_is_documented(operator: Operator, new: Plan):
    assert documented("push", operator.push(new, "--dry-run", "--json").stdout)["dry_run"]
    assert documented("push", operator.push(new, "--json").stdout)["changes"]
    assert not documented("push", operator.push(new, "--json").stdout)["changed"]
    assert {
        port["agrees"] for port in documented("status", operator.cnc("status", "--json").stdout)
    } == {True}
    findings = documented("doctor", operator.cnc("doctor", "--json").stdout)["findings"]
    assert {finding["switch"] for finding in findings} == {None, "s1", "s2"}
    assert documented("rollback", operator.cnc("rollback", "--json").stdout)["changes"]
    where = new.intent.network.bridges["s1"].management
    assert where is not None
    draft = operator.cnc(
        "discover", f"{where.address}:{where.port}", "--user", where.user or "", "--json"
    )
    assert draft.stdout, draft.stderr
    assert documented("discover", draft.stdout)["intent"]
    rollouts = documented("history", operator.cnc("history", "--json").stdout)
    assert documented(
        "history", operator.cnc("history", "--json", str(rollouts[0]["number"])).stdout
    )


@pytest.fixture
def edited(operator: Operator, former: Plan) -> dict[str, Any]:
    """What the operator's plan was made from, in a file of its own, to be edited.

    Its streams run where a plan from the beginning would not place them.
    """
    document = former.intent.document
    alone = {**document, "streams": {"head-h1": document["streams"]["head-h1"]}}
    running = compute(former.intent, keep=compute(from_document(alone, "alone")))
    assert moves(running, compute(former.intent))
    assert operator.push(running).returncode == 0
    return copy.deepcopy(dict(document))


def test_a_push_of_an_edited_intent_moves_no_other_stream(
    operator: Operator, edited: dict[str, Any]
):
    edited["streams"]["h2-h1"]["payload"] = "300B"
    dry = operator.push_intent(edited, "--dry-run")
    assert dry.returncode == 0, dry.stderr
    assert "would move" in dry.stdout
    assert "its payload changed" in dry.stdout
    others = len(edited["streams"]) - 1
    assert f"{others} other streams keep path and offsets" in dry.stdout
    assert "would change; -v lists them" in dry.stdout
    listed = operator.push_intent(edited, "--dry-run", "-v")
    assert "the gate control list changes" in listed.stdout
    pushed = documented("push", operator.push_intent(edited, "--json").stdout)
    assert [move["stream"] for move in pushed["moved"]] == ["h2-h1"]
    assert pushed["changed"]
    # What it compares with is planned as the push has planned.
    assert operator.cnc("status").returncode == 0
    again = operator.push_intent(edited)
    assert "no change" in again.stdout


def test_the_history_says_what_came_and_went_and_why(operator: Operator, edited: dict[str, Any]):
    before = len(edited["streams"])
    edited["streams"]["more"] = {**edited["streams"]["h2-h1"], "payload": "64B"}
    operator.push_intent(edited, "-m", "one more sensor")
    del edited["streams"]["more"], edited["streams"]["h2-h1"]
    operator.push_intent(edited)
    newest, middle, first = json.loads(operator.cnc("history", "-n", "3", "--json").stdout)[:3]
    assert newest["what"].endswith(": -2 streams")
    assert middle["what"].endswith(": one more sensor (+1 stream)")
    assert first["what"].endswith(f": +{before} streams") or "stream" not in first["what"]


@pytest.mark.parametrize("message", ["two\nlines", "x" * 201])
def test_a_message_is_a_line(operator: Operator, edited: dict[str, Any], message: str):
    refused = operator.push_intent(edited, "-m", message)
    assert refused.returncode == 2
    assert "in one line" in refused.stderr


def test_streams_that_run_move_when_the_operator_asks_for_all_anew(
    operator: Operator, edited: dict[str, Any], former: Plan
):
    kept = documented("push", operator.push_intent(edited, "--dry-run", "--json").stdout)
    assert (kept["moved"], kept["changes"]) == ([], [])
    anew = documented("push", operator.push_intent(edited, "--reoptimise", "--json").stdout)
    assert {move["reason"] for move in anew["moved"]} == {"planned again"}
    fresh = compute(former.intent).streams
    assert {move["stream"]: tuple(move["offsets_ns"]) for move in anew["moved"]} == {
        move["stream"]: fresh[move["stream"]].talker_offsets_ns for move in anew["moved"]
    }


def test_a_stream_without_a_place_around_those_that_run_is_refused_with_the_way_out(
    operator: Operator, edited: dict[str, Any]
):
    with History(operator.state_dir / FILE_NAME) as history:
        running = history.plan_of(history.rollouts()[0].number)
    assert running is not None
    (at_ns,) = running.streams["head-h1"].talker_offsets_ns
    new = {"window": {"earliest": f"{at_ns}ns", "latest": f"{at_ns}ns"}}
    edited["streams"]["new"] = edited["streams"]["head-h1"] | new
    refused = operator.push_intent(edited)
    assert refused.returncode == 1
    assert "new: no free slot" in refused.stderr
    assert "cnc push --reoptimise" in refused.stderr


def test_an_error_of_a_push_is_documented_and_on_the_error_stream(operator: Operator, new: Plan):
    operator.environment["CNC_KNOWN_HOSTS"] = "/dev/null"
    refused = operator.push(new, "--json")
    assert (refused.returncode, refused.stdout) == (1, "")
    error = documented("error", refused.stderr)
    assert "has no host key" in error["error"]
    assert "ssh-keyscan" in error["hint"]
    assert error["exit_code"] == 1


def test_uncommitted_edits_of_somebody_are_told_as_such_with_what_to_do(
    operator: Operator, former: Plan, new: Plan, simulation: Simulation, seen: Inspector
):
    edit = etree.Element(f"{{{NETCONF}}}config")
    edit.append(rollout_id_element(RolloutId.of_this_controller()))
    with Device(new.intent.network.bridges["s2"], simulation.connect) as somebody:
        somebody.edit(edit)
    try:
        refused = operator.push(new)
        examined = operator.cnc("doctor")
    finally:
        with Device(new.intent.network.bridges["s2"], simulation.connect) as somebody:
            somebody.discard_changes()
    assert refused.returncode == 1
    assert "no switch was changed" in refused.stderr
    for told in (refused.stderr, examined.stdout):
        assert "hint: no lock is held: candidate on s2 has uncommitted edits of another" in told
        assert "discard-changes" in told
        assert "another operator" not in told
    assert seen.lists() == former.gates
    assert operator.push(new).returncode == 0
