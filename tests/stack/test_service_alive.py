"""What agent and server tell a service manager while they run: that they live, if they do."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading

import pytest

from agent import main
from agent.datastore.subscriptions import Datastore

START_TIMEOUT_S = 60
WATCHDOG = {"WATCHDOG_USEC": "600000"}
AGENT = ("agent.main", "--rehearse", "p1")
SERVER = (
    *("agent.netconfd", "--listen", "127.0.0.1:0"),
    *("--host-key", "{directory}/key", "--authorized-keys", "{directory}/keys"),
)
BROKER = ("agent.netconfd.broker", "--socket", "{directory}/broker", "--front-user", "root")


@pytest.fixture
def manager(tmp_path):
    """A service manager's socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "notify"))
        listening.settimeout(START_TIMEOUT_S)
        yield listening


@pytest.fixture
def start(manager, tmp_path):
    started = []

    def start_one(module: str, *options: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", module, "--state-dir", str(tmp_path / "state"), *options]
        environment = os.environ | WATCHDOG | {"NOTIFY_SOCKET": manager.getsockname()}
        started.append(subprocess.Popen(command, env=environment))
        assert manager.recv(100) == b"READY=1"
        return started[-1]

    yield start_one
    for process in started:
        process.kill()
        process.wait()


@pytest.mark.usefixtures("sysrepo_repository")
@pytest.mark.parametrize("daemon", [AGENT, SERVER, BROKER], ids=["agent", "server", "broker"])
def test_a_daemon_says_that_it_lives_until_it_stops(start, manager, tmp_path, daemon):
    running = start(*(word.format(directory=tmp_path) for word in daemon))

    assert [manager.recv(100) for _ in range(3)] == [b"WATCHDOG=1"] * 3
    running.send_signal(signal.SIGTERM)
    while (said := manager.recv(100)) == b"WATCHDOG=1":
        pass
    assert said == b"STOPPING=1"
    assert running.wait(START_TIMEOUT_S) == 0


@pytest.mark.usefixtures("sysrepo_repository")
def test_an_agent_whose_switch_does_not_answer_is_not_alive(kernel):
    datastore = Datastore(kernel)
    try:
        assert datastore.answers()
        # As if a change hung in the kernel.
        with datastore._changes.lock:
            assert not datastore.answers()
        assert datastore.answers()
    finally:
        datastore.close()


class SilentDatastore:
    """Answers nobody; the signal to stop comes when it was asked twice."""

    def __init__(self) -> None:
        self.asked = 0

    def answers(self) -> bool:
        self.asked += 1
        if self.asked > 1:
            # To this thread, which waits for it: the process may have others, left by other tests.
            signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
        return False


def test_the_watchdog_hears_nothing_from_an_agent_that_answers_nobody(manager, monkeypatch):
    monkeypatch.setenv("NOTIFY_SOCKET", manager.getsockname())
    monkeypatch.setenv("WATCHDOG_USEC", "30000")
    datastore = SilentDatastore()
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, main.STOP_SIGNALS)
    try:
        received = main._wait_for_stop(datastore)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)

    assert received == signal.SIGTERM
    assert datastore.asked > 1
    manager.setblocking(False)
    with pytest.raises(BlockingIOError):
        manager.recv(100)
