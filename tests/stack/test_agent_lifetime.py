"""The agent starts, stops, dies and comes back; the ports keep doing what they are asked to do."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
import sysrepo

from agent.datastore.memory import MemoryFile
from agent.datastore.subscriptions import GATES_ON_INTERFACES, Datastore, DatastoreError
from agent.mechanisms.gates.model import GateState
from tests.stack.recording_kernel import port
from tests.stack.repository import Repository
from tests.stack.sysrepo_client import BASE_TIME_S, GATES, INTERFACE_GATES, Client, gated

START_TIMEOUT_S = 30

# The command itself, on a switch without a kernel.
AGENT_PROCESS = """
import sys
from agent import main
from tests.stack.recording_kernel import RecordingKernel, port
main.KernelPorts = lambda _mechanisms, _emulated: RecordingKernel(port("p1")).ports
sys.exit(main.main(["--state-dir", sys.argv[1]]))
"""
# The same, killed in the middle of its first change.
DYING_AGENT_PROCESS = """
import os, signal
from agent.datastore.subscriptions import Datastore
from tests.stack.recording_kernel import RecordingKernel, port
kernel = RecordingKernel(port("p1"))
agent = Datastore(kernel)
kernel.apply = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
print("ready", flush=True)
signal.pause()
"""
# As long as a commit of the NETCONF server waits, and longer than sysrepo for a subscription.
COMMIT_WAITS_S = 20


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
            process = subprocess.Popen([sys.executable, "-c", AGENT_PROCESS, tmp_path / "state"])
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


def test_what_a_list_change_left_survives_the_agent(client, kernel, tmp_path):
    file = MemoryFile(tmp_path / "memory.json")
    with closing(Datastore(kernel, memory_file=file)):
        client.replace(gated("p1"))
        client.replace(gated("p1", base_time_s=BASE_TIME_S + 1))
        gates = client.port("p1")[GATES]
        last_change = client.read("/tsn-linux:agent")["tsn-linux:agent"]["last-change"]
    assert gates["config-change-error"] == "1"
    assert gates["config-pending"] is True
    with closing(Datastore(kernel, memory_file=file)):
        assert client.port("p1")[GATES] == gates
        successor = client.read("/tsn-linux:agent")["tsn-linux:agent"]
        assert successor["last-change"] == last_change


def test_what_is_remembered_of_a_list_the_kernel_no_longer_has_is_not_believed(
    client, kernel, tmp_path
):
    file = MemoryFile(tmp_path / "memory.json")
    with closing(Datastore(kernel, memory_file=file)):
        client.replace(gated("p1"))
        client.replace(gated("p1", base_time_s=BASE_TIME_S + 1))
    kernel.states["p1"] = port("p1", 2)
    with closing(Datastore(kernel, memory_file=file)):
        assert client.port("p1")[GATES]["config-change-error"] == "0"


def test_gates_nobody_configures_any_more_are_removed_at_start(client, kernel):
    with closing(Datastore(kernel)):
        client.replace(gated("p1"))
    client.replace()
    with closing(Datastore(kernel)):
        assert kernel.states["p1"][GateState].taprio is None


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


def test_the_process_keeps_what_must_survive_it_where_it_is_told_to(client, start, tmp_path):
    start()
    client.replace(gated("p1"))
    assert MemoryFile(tmp_path / "state" / "memory.json").read().history["p1"].schedule


def test_an_agent_takes_over_from_one_that_was_killed(client, start):
    killed = start()
    killed.kill()
    killed.wait()
    successor = start()
    client.replace(gated("p1"))
    assert client.read("/tsn-linux:agent")["tsn-linux:agent"]["pid"] == successor.pid
    assert client.port("p1")["tsn-linux:taprio"]["kernel"]["root-qdisc"] == "taprio"


def test_an_agent_waits_for_a_commit_that_still_waits_for_the_one_that_was_killed(
    client, kernel, caplog
):
    killed = subprocess.Popen(
        [sys.executable, "-c", DYING_AGENT_PROCESS], stdout=subprocess.PIPE, text=True
    )
    assert killed.stdout.readline() == "ready\n"
    with ThreadPoolExecutor() as executor:
        commit = executor.submit(client.replace, gated("p1"), timeout_ms=COMMIT_WAITS_S * 1000)
        killed.wait(START_TIMEOUT_S)
        with closing(Datastore(kernel)):
            assert isinstance(commit.exception(), sysrepo.SysrepoTimeOutError)
            assert "waits for an agent that has ended" in caplog.text
            client.replace(gated("p1"))
            assert kernel.log == ["apply p1"]


def test_a_switch_without_gates_on_interfaces_is_served_without(client, kernel):
    with sysrepo.SysrepoConnection() as connection:
        # Without the deviations, which name both modules, IEEE's constraints permit no interface.
        connection.remove_module("tsn-linux-deviations")
        connection.remove_module(GATES_ON_INTERFACES)
    with closing(Datastore(kernel)):
        assert client.port("p1")[GATES]["gate-enabled"] is False
        assert INTERFACE_GATES not in client.interface("p1")


def test_a_port_that_the_switch_lacks_is_refused_when_asked_for_and_logged_at_start(
    client, kernel, caplog
):
    client.replace(gated("p9"))
    kernel.refuse = "port p9: no such interface; this switch has p1, p2"
    with closing(Datastore(kernel)):
        assert kernel.refuse in caplog.text
        with pytest.raises(sysrepo.SysrepoError, match="port p9: no such interface"):
            client.replace(gated("p9", base_time_s=BASE_TIME_S + 1))


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


def test_after_a_reboot_the_startup_configuration_is_in_force_before_the_agent_is_ready(
    sysrepo_repository, start, capfd
):
    killed = start()
    with sysrepo.SysrepoConnection() as connection:
        Client(connection).replace(gated("p1"))
        with connection.start_session("startup") as session:
            session.copy_config("running", "ietf-interfaces")
        Client(connection).replace()
    killed.kill()
    killed.wait()
    sysrepo_repository.forget_shared_memory()
    capfd.readouterr()
    start()
    said = capfd.readouterr().err
    assert -1 < said.find("port p1: set the schedule") < said.find("ready")
