"""The agent of version 0.1.0 is replaced by this one while frames pass the gates it has set."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agent.mechanisms.gates.model import GateState
from tests.first_version import NEW, Version, first_version
from tests.kernel.conftest import NS_PER_S
from tests.kernel.test_agent_watch import with_priority_1_in_class_1
from tests.kernel.test_taprio import QdiscEvents
from tests.stack.repository import Repository
from tests.stack.sysrepo_client import GATES

START_TIMEOUT_S = 60
MS = 1_000_000
CYCLE_NS = 1 * MS  # class 1 is open in the first half, class 0 in the second
FRAMES = 1000  # of each class
STEPS_S = FRAMES * CYCLE_NS / NS_PER_S / 4  # so that frames are sent before, between and after

pytestmark = pytest.mark.virtual_time


@pytest.fixture(scope="module")
def sysrepo_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with the modules of version 0.1.0."""
    template = Repository(
        tmp_path_factory.mktemp("sysrepo") / "template", f"tsntemplate{os.getpid()}x"
    )
    first_version().install_modules(template.environment)
    template.forget_shared_memory()
    return template.path


@pytest.fixture
def start(ports, client, tmp_path) -> Iterator[Callable[[Version], subprocess.Popen[bytes]]]:
    """Starts the agent of a version; returns when it is ready."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind("\0tsn-upgrade-test")
        manager.settimeout(START_TIMEOUT_S)
        started: list[subprocess.Popen[bytes]] = []

        def start_one(version: Version) -> subprocess.Popen[bytes]:
            started.append(
                subprocess.Popen(
                    [version.programs / "tsn-agent", "--state-dir", tmp_path / "agent"],
                    env=os.environ | {"NOTIFY_SOCKET": "@tsn-upgrade-test"},
                )
            )
            while manager.recv(100) != b"READY=1":
                pass  # the one before says that it is stopping
            return started[-1]

        yield start_one
        for process in started:
            process.kill()
            process.wait()


def test_no_frame_is_lost_or_leaves_outside_its_window_while_the_agent_is_replaced(
    start, client, kernel, eventually, send_both_classes
):
    agent = start(first_version())
    client.replace(with_priority_1_in_class_1("p1"))
    eventually(lambda: kernel.read()["p1"][GateState].running is not None)
    change_time = client.port("p1")[GATES]["config-change-time"]

    with QdiscEvents() as events, ThreadPoolExecutor(1) as sending:
        sent = sending.submit(send_both_classes, FRAMES, CYCLE_NS)
        time.sleep(STEPS_S)
        agent.terminate()
        assert agent.wait() == 0
        NEW.install_modules({})
        time.sleep(STEPS_S)
        start(NEW)
        time.sleep(STEPS_S)
        assert not sent.done(), "the frames were sent before the upgrade ended"
        traffic = sent.result()
        assert not events.any()

    assert len(traffic.frames) == traffic.sent == 2 * FRAMES
    base_ns = kernel.read()["p1"][GateState].running.base_time_ns
    for frame in traffic.frames:
        is_first_half = (frame.arrived_ns - base_ns) % CYCLE_NS < CYCLE_NS // 2
        assert is_first_half == (frame.class_ == 1), frame
    assert client.port("p1")[GATES]["config-change-time"] == change_time
