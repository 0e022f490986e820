"""What operators and programs are told of bridges: push, status, history, and `cnc path`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cnc import app, cli
from cnc.cli import render
from cnc.errors import CncError, InputError
from cnc.model import BridgeForwarding, Management, PortRef, StreamAddress
from cnc.rollout import FormerWays, PortStatus, Report
from cnc.rollout.compare import ForwardingStatus
from cnc.rollout.history import FILE_NAME, History, Phase, SwitchChange
from cnc.rollout.rollout import ForwardingChange, PortChange
from tests.json_documents import documented
from tests.unit.asked import asked
from tests.unit.places import stored_bridge
from tests.unit.rollout_history import begin

LINE3 = Path(__file__).parents[2] / "schedules" / "line3.yaml"
CAMERA = StreamAddress("91:e0:f0:00:fe:01", 10)
TOLD = BridgeForwarding(
    {CAMERA: ("l1", "s2")}, {10: ("l1", "s2", "t1")}, ("t1",), {CAMERA: "camera"}
)
BEFORE = replace(TOLD, entries={}, vlans={10: ()}, trusting=())
BR0 = PortRef("s1", "br0")
CHANGE = PortChange(BR0, None, None, "frames of camera change", ForwardingChange(BEFORE, TOLD))
DOCUMENT = {
    "entries": [
        {
            "stream": "camera",
            "destination_mac": "91:e0:f0:00:fe:01",
            "vlan_id": 10,
            "ports": ["l1", "s2"],
        }
    ],
    "vlans": {"10": ["l1", "s2", "t1"]},
    "trusting": ["t1"],
}


def cnc(*argv: object) -> Result:
    return CliRunner().invoke(cli.cnc, [*map(str, argv)])


def pushed() -> Report:
    return Report((CHANGE,), 1, 1_000_000_000, 1, {}, 1)


def state() -> PortStatus:
    return PortStatus(
        BR0, None, None, None, "running", agrees=True, forwarding=ForwardingStatus(TOLD, None)
    )


@pytest.fixture
def state_dir(tmp_path: Path) -> Path:
    """Of a controller with one completed rollout."""
    changes = {
        "s1": SwitchChange(
            Management("10.99.0.1"),
            before={"br0": stored_bridge(BEFORE)},
            after={"br0": asked(TOLD)},
        )
    }
    with History(tmp_path / FILE_NAME) as history, begin(history, changes) as journal:
        journal.end(Phase.DONE)
    return tmp_path


def test_a_push_says_what_a_bridge_forwarded_and_is_to(capsys: pytest.CaptureFixture[str]) -> None:
    render.push(pushed(), [], dry_run=False, as_json=False)
    (row,) = (line for line in capsys.readouterr().out.splitlines() if "s1/br0" in line)
    assert "0 filtering entries, no VLAN   1 filtering entry, VLAN 10" in row


def test_a_push_tells_of_former_ways_and_exposed_streams(
    capsys: pytest.CaptureFixture[str],
) -> None:
    ways = FormerWays(("motion", "torque"), 8)
    removed = replace(pushed(), former_ways=ways)
    render.push(removed, [], dry_run=False, as_json=False)
    told = capsys.readouterr().out
    assert "the schedule has started (TAI " in told
    assert "the previous paths of 2 streams are removed, by rollout 8" in told
    left = replace(removed, former_ways=replace(ways, removed_by=None, left="s2 is gone"))
    render.push(left, [], dry_run=False, as_json=True, exposed={"camera": "why"})
    document = documented("push", capsys.readouterr().out)
    assert document["exposed"] == [{"stream": "camera", "why": "why"}]
    assert document["former_ways"]["left"] == "s2 is gone"
    render.exposed({"camera": "no other address"})
    assert "camera" in capsys.readouterr().out


def test_status_counts_the_entries_of_a_bridge(capsys: pytest.CaptureFixture[str]) -> None:
    render.status([state()], only_problems=False, as_json=False)
    (row,) = (line for line in capsys.readouterr().out.splitlines() if "s1/br0" in line)
    assert row.split()[1:6] == ["1", "filtering", "entry,", "VLAN", "10"]
    assert row.rstrip().endswith("running")


def test_programs_get_the_tables_of_a_bridge(capsys: pytest.CaptureFixture[str]) -> None:
    render.push(pushed(), [], dry_run=False, as_json=True)
    (change,) = documented("push", capsys.readouterr().out)["changes"]
    assert change["forwarding"]["after"] == DOCUMENT
    assert change["forwarding"]["before"]["entries"] == []
    render.status([state()], only_problems=False, as_json=True)
    (port,) = documented("status", capsys.readouterr().out)
    assert port["forwarding"] == {"intended": DOCUMENT, "running": None}


def test_documents_of_networks_that_route_have_no_word_of_bridges(
    capsys: pytest.CaptureFixture[str],
) -> None:
    routed = Report((replace(CHANGE, forwarding=None),), 1, 1_000_000_000, 1, {}, 1)
    render.push(routed, [], dry_run=False, as_json=True)
    render.status([replace(state(), forwarding=None)], only_problems=False, as_json=True)
    told = capsys.readouterr().out
    assert not any(word in told for word in ("forwarding", "exposed", "former_ways"))


def test_history_keeps_what_a_bridge_was_to_forward(state_dir: Path) -> None:
    (row,) = (
        line
        for line in cnc("history", 1, "--state-dir", state_dir).output.splitlines()
        if "s1/br0" in line
    )
    assert "0 filtering entries, no VLAN   1 filtering entry, VLAN 10" in row
    shown = cnc("history", 1, "--state-dir", state_dir, "--json").output
    (switch,) = documented("history", shown)["switches"].values()
    assert switch["forwarding"]["br0"]["after"] == DOCUMENT
    listed = json.loads(cnc("history", "--state-dir", state_dir, "--json").output)
    assert "forwarding" not in listed[0]["switches"]["s1"]


def test_path_refuses_a_network_that_routes_before_it_asks_anybody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "plan_to_compare", None)
    refused = cnc("path", "motion", LINE3, "--state-dir", tmp_path)
    assert isinstance(refused.exception, InputError)
    assert refused.exception.exit_code == 2
    assert "line3 forwards by IP routes" in str(refused.exception)


def test_path_without_a_file_needs_a_rollout_that_has_the_stream(state_dir: Path) -> None:
    refused = cnc("path", "motion", "--state-dir", state_dir)
    assert isinstance(refused.exception, CncError)
    assert str(refused.exception) == "no completed rollout has a stream motion"


@pytest.mark.parametrize(
    ("compares_forwarding", "bridges"),
    [(False, ""), (True, ", and every bridge forwards as planned")],
)
def test_a_push_without_a_change_says_what_was_compared(
    capsys: pytest.CaptureFixture[str], compares_forwarding: bool, bridges: str
) -> None:
    unchanged = Report((), None, None, None, {}, 1, compares_forwarding)
    render.push(unchanged, [], dry_run=False, as_json=False)
    said = f"no change: every port already runs its gate control list{bridges}\n"
    assert capsys.readouterr().out == said
