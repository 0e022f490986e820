"""`cnc watch` over switches whose kernels run the plan: what breaks is told, and put back."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from cnc import intent as intents
from cnc.model import PortRef
from cnc.planner import plan as compute
from cnc.plans import file as planfile
from cnc.rollout import push
from cnc.rollout.history import FILE_NAME, History
from cnc.switch import ConnectOptions
from cnc.testbed.lab import Lab, lab
from cnc.testbed.lab.switch import AGENT, NETCONF_SERVER
from tests.stack.watch_process import WatchProcess

LINE3 = Path(__file__).parents[2] / "schedules" / "line3.yaml"
LOST = PortRef("s2", "s3")
# Where the kernel is emulated, all three switches and the controller share one slow processor.
REPLY_TIMEOUT_S = 20


@dataclass(frozen=True)
class Pushed:
    """A lab whose switches run the plan in `file`."""

    lab: Lab
    file: Path
    environment: dict[str, str]

    def on(self, node: str, *argv: str) -> str:
        done = subprocess.run(
            self.lab.command(node, argv), check=True, capture_output=True, text=True, timeout=60
        )
        return done.stdout

    def gates(self) -> str:
        return self.on(LOST.node, "tc", "qdisc", "show", "dev", LOST.port, "root")


@pytest.fixture(scope="module")
def pushed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pushed]:
    directory = tmp_path_factory.mktemp("watch")
    intent = intents.load(LINE3)
    plan = compute(intent)
    planfile.dump(plan, directory / "plan.json")
    with lab(intent) as running, History(directory / FILE_NAME) as history:
        connect = ConnectOptions(running.identity, running.known_hosts, REPLY_TIMEOUT_S)
        push(plan, connect=connect, history=history)
        environment = {
            "CNC_IDENTITY": str(running.identity),
            "CNC_KNOWN_HOSTS": str(running.known_hosts),
            "CNC_STATE_DIR": str(directory),
            "CNC_TIMEOUT": str(REPLY_TIMEOUT_S),
        }
        yield Pushed(running, directory / "plan.json", environment)


@pytest.fixture
def watch(pushed: Pushed, tmp_path: Path) -> Iterator[Callable[..., WatchProcess]]:
    started = []

    def start(*argv: object) -> WatchProcess:
        process = WatchProcess(tmp_path, pushed.file, *argv, environment=pushed.environment)
        started.append(process)
        process.ready()
        return process

    yield start
    assert [process.stop() for process in started] == [0] * len(started)


def test_a_deleted_schedule_is_reported_by_the_agent_and_put_back(pushed: Pushed, watch) -> None:
    process = watch("--heal", "--interval", "3600")  # the agent reports it
    assert "taprio" in pushed.gates()
    pushed.on(LOST.node, "tc", "qdisc", "del", "dev", LOST.port, "root")
    process.wait_for("began", "drift", switch=LOST.node, port=LOST.port)
    assert process.wait_for("noted", "heal")["text"] == f"restoring {LOST}"
    assert process.wait_for("noted", "heal")["text"] == f"restored {LOST}"
    process.wait_for("ended", "drift", switch=LOST.node, port=LOST.port)
    assert "taprio" in pushed.gates()


def test_without_heal_a_deleted_schedule_stays_deleted(pushed: Pushed, watch) -> None:
    process = watch("--interval", "2")
    pushed.on(LOST.node, "tc", "qdisc", "del", "dev", LOST.port, "root")
    process.wait_for("began", "drift", switch=LOST.node, port=LOST.port)
    assert process.stop() == 0
    assert "taprio" not in pushed.gates()
    healer = watch("--interval", "2", "--heal")
    healer.wait_for("ended", "drift", switch=LOST.node, port=LOST.port)


def test_a_link_that_goes_down_is_told_at_both_ends(pushed: Pushed, watch) -> None:
    process = watch("--interval", "2")
    pushed.on("s1", "ip", "link", "set", "s2", "down")
    told = {
        (event["switch"], event["port"])
        for event in (process.wait_for("began", "link-down") for _ in range(2))
    }
    assert told == {("s1", "s2"), ("s2", "s1")}
    pushed.on("s1", "ip", "link", "set", "s2", "up")
    for _ in range(2):
        process.wait_for("ended", "link-down")


def test_a_killed_agent_is_told_and_so_is_its_successor(pushed: Pushed, watch) -> None:
    process = watch("--interval", "2")
    pushed.lab.kill("s3", AGENT)
    process.wait_for("began", "agent-down", switch="s3")
    pushed.lab.start("s3", AGENT)
    process.wait_for("ended", "agent-down", switch="s3")


def test_a_killed_server_is_told_before_the_next_look(pushed: Pushed, watch) -> None:
    process = watch("--interval", "3600")
    pushed.lab.kill("s3", NETCONF_SERVER)
    process.wait_for("began", "unreachable", switch="s3")
    pushed.lab.start("s3", NETCONF_SERVER)
    process.wait_for("ended", "unreachable", switch="s3")


def test_a_switch_whose_packets_vanish_is_told_and_found_again(pushed: Pushed, watch) -> None:
    process = watch("--interval", "2")
    pushed.lab.link_down("s1")
    process.wait_for("began", "unreachable", switch="s1")
    pushed.lab.link_up("s1")
    process.wait_for("ended", "unreachable", switch="s1")
