"""The agent starts, stops, dies and comes back; the ports keep doing what they are asked to do."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from contextlib import closing

import pytest

from agent.datastore.subscriptions import Datastore, DatastoreError
from tests.stack.repository import Repository
from tests.stack.sysrepo_client import BASE_TIME_S, GATES, gated

START_TIMEOUT_S = 30

# The command itself, on a switch without a kernel.
AGENT_PROCESS = """
import sys
from agent.main import serve
from tests.stack.recording_kernel import RecordingKernel, port
sys.exit(serve(RecordingKernel(port("p1"))))
"""


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Starts agent processes as systemd would; each call returns once that agent is ready."""
    address = tmp_path / "notify"
    monkeypatch.setenv("NOTIFY_SOCKET", str(address))
    started = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(address))
        manager.settimeout(START_TIMEOUT_S)

        def start_one():
            process = subprocess.Popen([sys.executable, "-c", AGENT_PROCESS])
            started.append(process)
            assert manager.recv(100) == b"READY=1"
            return process

        yield start_one
        for process in started:
            process.kill()
            process.wait()


def agent_command(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "agent.main", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=START_TIMEOUT_S,
    )


def test_configuration_written_while_no_agent_ran_is_applied_at_its_start(client, kernel):
    client.replace(gated("p1"))
    with closing(Datastore(kernel)):
        assert kernel.log == ["apply p1"]


def test_a_restarted_agent_changes_nothing_that_agrees_and_serves_it(client, kernel):
    with closing(Datastore(kernel)):
        client.replace(gated("p1"))
    kernel.log.clear()
    with closing(Datastore(kernel)):
        assert kernel.log == []
        assert client.port("p1")[GATES]["oper-gate-states"] == 0b10


def test_gates_nobody_configures_any_more_are_removed_at_start(client, kernel):
    with closing(Datastore(kernel)):
        client.replace(gated("p1"))
    client.replace()
    with closing(Datastore(kernel)):
        assert kernel.ports["p1"].taprio is None


def test_an_agent_whose_switch_cannot_do_the_configuration_says_so_and_serves(
    client, kernel, caplog
):
    client.replace(gated("p1"))
    kernel.refuse = "port p1: needs 8 TX queues, has 1"
    with closing(Datastore(kernel)):
        assert kernel.refuse in caplog.text
        assert client.read("/tsn-linux:agent")
        kernel.refuse = None
        client.replace(gated("p1", base_time_s=BASE_TIME_S + 1))
        assert kernel.log == ["apply p1"]


def test_when_the_agent_stops_it_is_gone_and_the_ports_stay(client, kernel):
    with closing(Datastore(kernel)):
        client.replace(gated("p1"))
        assert client.read("/tsn-linux:agent")
    assert client.read("/tsn-linux:agent") == {}
    assert kernel.log == ["apply p1"]


def test_a_second_agent_on_one_sysrepo_is_refused_by_the_firsts_process_id(client, kernel):
    with (
        closing(Datastore(kernel)),
        pytest.raises(DatastoreError, match=f"process {os.getpid()} already serves"),
    ):
        Datastore(kernel)
    assert client.read("/tsn-linux:agent") == {}


def test_sigterm_stops_the_process_cleanly(client, start):
    process = start()
    assert client.read("/tsn-linux:agent")["tsn-linux:agent"]["pid"] == process.pid
    process.send_signal(signal.SIGTERM)
    assert process.wait(START_TIMEOUT_S) == 0
    assert client.read("/tsn-linux:agent") == {}


def test_an_agent_takes_over_from_one_that_was_killed(client, start):
    killed = start()
    killed.kill()
    killed.wait()
    successor = start()
    client.replace(gated("p1"))
    assert client.read("/tsn-linux:agent")["tsn-linux:agent"]["pid"] == successor.pid
    assert client.port("p1")["tsn-linux:taprio"]["kernel"]["root-qdisc"] == "taprio"


def test_without_its_modules_the_command_says_what_to_run(tmp_path, monkeypatch):
    prefix = f"tsnempty{os.getpid()}x"
    monkeypatch.setenv("SYSREPO_REPOSITORY_PATH", str(tmp_path / "empty"))
    monkeypatch.setenv("SYSREPO_SHM_PREFIX", prefix)
    command = agent_command()
    Repository(tmp_path / "empty", prefix).forget_shared_memory()
    assert command.returncode == 1
    assert "sysrepo lacks the modules ietf-interfaces" in command.stderr
    assert "run yang/install first" in command.stderr


def test_a_wrong_option_is_bad_input():
    command = agent_command("--log-level", "chatty")
    assert command.returncode == 2
    assert "chatty" in command.stderr
