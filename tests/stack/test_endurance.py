"""Thousands of changes through the server to the agent: neither grows, and nothing is left behind.

TSN_ENDURANCE_CHANGES  how many; a long run (10000) takes some minutes (default: 1000)
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from pathlib import Path

import pytest

from tests.stack.netconf_client import PREFIXES
from tests.stack.netconfd_process import running_netconfd
from tests.stack.repository import SHARED_MEMORY

CHANGES = int(os.environ.get("TSN_ENDURANCE_CHANGES", "1000"))
# Until then caches fill, libraries are loaded and allocators find their size.
WARM_UP = CHANGES // 5
# This often a change is made as a rollout makes it, in a session of its own.
ROLLOUT_EVERY = 20
MAX_GROWTH = 1.10
# The event loop's own pool takes its threads one by one.
MAX_NEW_THREADS = 8
START_TIMEOUT_S = 30
REST_SAMPLES = 20
REST_S = 2

pytestmark = pytest.mark.timeout(400 + CHANGES // 5)

# The agent's command on a switch without a kernel, which writes down its last deed alone.
AGENT_PROCESS = """
import sys
from collections import deque
from agent import main
from tests.stack.recording_kernel import RecordingKernel, port
kernel = RecordingKernel(port("p1"))
kernel.log = deque(maxlen=1)
main.KernelPorts = lambda _mechanisms, _emulated: kernel.ports
sys.exit(main.main(["--log-level", "warning", "--state-dir", sys.argv[1]]))
"""


@dataclass(frozen=True)
class Footprint:
    """What a process takes of its machine."""

    rss_octets: int
    descriptors: int
    threads: int

    @classmethod
    def at_rest(cls, pids):
        """The least of each within two seconds: what is kept is there all the time.

        A process has files open for a moment, the agent also after the answer to a change.
        """
        samples = []
        for _ in range(REST_SAMPLES):
            samples.append({name: astuple(cls.of(pid)) for name, pid in pids.items()})
            time.sleep(REST_S / REST_SAMPLES)
        return {
            name: cls(*map(min, zip(*(each[name] for each in samples), strict=True)))
            for name in pids
        }

    @classmethod
    def of(cls, pid):
        process = Path(f"/proc/{pid}")
        status = (process / "status").read_text()
        return cls(
            rss_octets=int(status.partition("VmRSS:")[2].split()[0]) * 1024,
            descriptors=len(list((process / "fd").iterdir())),
            threads=len(list((process / "task").iterdir())),
        )


@contextmanager
def running_agent(state_dir, address):
    """The process id of an agent that is ready."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(address))
        manager.settimeout(START_TIMEOUT_S)
        process = subprocess.Popen(
            [sys.executable, "-c", AGENT_PROCESS, state_dir],
            env=os.environ | {"NOTIFY_SOCKET": str(address)},
        )
        try:
            assert manager.recv(100) == b"READY=1"
            yield process.pid
        finally:
            process.terminate()
            process.wait()


def edit(client, number):
    """Another rule and another list than those of the number before."""
    entries = "".join(
        f"<gate-control-entry><index>{index}</index>"
        "<operation-name>sched:set-gate-states</operation-name>"
        f"<time-interval-value>{500_000 + shift * (number % 1000)}</time-interval-value>"
        f"<gate-states-value>{states}</gate-states-value></gate-control-entry>"
        for index, (states, shift) in enumerate([(1, 1), (255, -1)] * 8)
    )
    client.edit_config(
        target="candidate",
        config=(
            f'<config xmlns="{PREFIXES["nc"]}"><interfaces xmlns="{PREFIXES["if"]}"><interface>'
            f'<name>p1</name><type xmlns:ianaift="{PREFIXES["ianaift"]}">ianaift:ethernetCsmacd'
            f'</type><bridge-port xmlns="{PREFIXES["bridge"]}">'
            f'<gate-parameter-table xmlns="{PREFIXES["gates"]}" '
            f'xmlns:sched="{PREFIXES["sched"]}"><gate-enabled>true</gate-enabled>'
            f"<admin-control-list>{entries}</admin-control-list>"
            "<admin-cycle-time><numerator>8</numerator><denominator>1000</denominator>"
            "</admin-cycle-time><config-change>true</config-change></gate-parameter-table>"
            f'<dscp-rule xmlns="{PREFIXES["tsn"]}"><dscp>46</dscp>'
            f"<priority>{number % 8}</priority></dscp-rule></bridge-port>"
            "</interface></interfaces></config>"
        ),
    )


def roll_out(server, number):
    """One change as the controller makes it; every second one is taken back."""
    with server.connect() as client:
        client.lock("running")
        client.lock("candidate")
        edit(client, number)
        client.validate("candidate")
        client.commit(confirmed=True, timeout="600", persist="rollout")
        if number // ROLLOUT_EVERY % 2:
            client.cancel_commit(persist_id="rollout")
        else:
            client.commit(persist_id="rollout")
            client.copy_config(source="running", target="startup")
        client.unlock("candidate")
        client.unlock("running")


def change(server, client, numbers):
    for number in numbers:
        if number % ROLLOUT_EVERY:
            edit(client, number)
            client.commit()
        else:
            roll_out(server, number)


def left_behind(repository, *directories):
    """Every file and shared memory segment there is."""
    segments = SHARED_MEMORY.glob(f"{repository.shm_prefix}*")
    files = (path for each in (repository.path, *directories) for path in each.rglob("*"))
    return {str(path) for path in (*segments, *files)}


def test_thousands_of_changes_leave_the_memory_flat_and_nothing_behind(
    sysrepo_repository, tmp_path
):
    agent_state = tmp_path / "agent"
    with (
        running_netconfd(tmp_path / "netconfd") as server,
        running_agent(agent_state, tmp_path / "notify") as agent_pid,
        server.connect() as client,
    ):
        (session,) = server.session_pids
        pids = {
            "front": server.pid,
            "spawner": server.spawner_pid,
            "session": session,
            "broker": server.broker_pid,
            "agent": agent_pid,
        }

        def measure():
            files = left_behind(sysrepo_repository, agent_state, server.state_dir)
            return Footprint.at_rest(pids), files

        change(server, client, range(WARM_UP))
        before, files_before = measure()
        change(server, client, range(WARM_UP, CHANGES))
        after, files_after = measure()
    for name, early in before.items():
        late = after[name]
        growth = late.rss_octets / early.rss_octets
        print(f"{name}: {early} after {WARM_UP} changes, {late} after {CHANGES}: {growth:.3f}")
        assert growth < MAX_GROWTH
        assert late.descriptors <= early.descriptors
        assert late.threads <= early.threads + MAX_NEW_THREADS
    assert files_after <= files_before
