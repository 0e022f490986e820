"""The agent and net.core.dev_weight_tx_bias, which a kernel has once and shows in its first network
namespace alone."""

# ruff: noqa: F811  (fixtures of another file come by import)

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

from agent.composition import Contribution
from agent.kernel.ports import KernelPorts
from agent.mechanisms import mechanisms
from agent.mechanisms.gates.dev_weight import DevWeight
from agent.mechanisms.gates.model import GateState
from agent.mechanisms.gates.transmit_quota import TRANSMIT_QUOTA
from agent.switch import Switch
from tests.kernel.agent_notifications import subscribed
from tests.kernel.conftest import QUEUES, inside, new_namespace
from tests.kernel.test_agent import kernel_says, start  # noqa: F401
from tests.stack.recording_kernel import configured
from tests.stack.sysrepo_client import gated

BIAS = Path("/proc/sys/net/core/dev_weight_tx_bias")
RAISED = "16"
NOBODY = 65534
NAMESPACE = "tsn-quota"


def run(*command: str) -> None:
    subprocess.run(command, check=True)


def bias() -> str:
    return BIAS.read_text(encoding="ascii").strip()


def set_bias(value: int) -> None:
    BIAS.write_text(f"{value}\n", encoding="ascii")


@pytest.fixture
def ports(tmp_path):
    """p1 and p2, up, in the first network namespace, whose sysctl is what it was afterwards."""
    before = int(bias())
    with ExitStack() as cleanup:
        cleanup.callback(set_bias, before)
        for number in (1, 2):
            queues = ("numtxqueues", str(QUEUES), "numrxqueues", str(QUEUES))
            veth = ("ip", "link", "add", f"p{number}", *queues, "type", "veth")
            run(*veth, "peer", "name", f"q{number}", *queues)
            cleanup.callback(run, "ip", "link", "delete", f"p{number}")
            for end in ("p", "q"):
                run("ip", "link", "set", f"{end}{number}", "up")
        cleanup.callback(withdraw, tmp_path / "agent")
        yield "p1", "p2"


def withdraw(state_dir):
    run(sys.executable, "-m", "agent.main", "--withdraw", "--state-dir", str(state_dir))


def record(tmp_path):
    return tmp_path / "transmit-quota.json"


@pytest.fixture
def switch(ports, tmp_path):
    with closing(KernelPorts(mechanisms(tmp_path))) as opened:
        yield Switch(opened)
        Switch(opened).apply({})


def quota(client, name):
    return kernel_says(client, name).get("transmit-quota")


def test_the_quota_is_the_agents_from_the_first_gates_to_the_last(start, client):
    assert bias() == "1"
    start()
    assert (bias(), quota(client, "p1")) == ("1", 1024)
    client.replace(gated("p1"), gated("p2"))
    assert (bias(), quota(client, "p1"), quota(client, "p2")) == (RAISED, 1024, 1024)
    client.replace(gated("p2"))
    assert bias() == RAISED
    client.replace()
    assert bias() == "1"


def test_a_restarted_agent_takes_back_what_the_killed_one_has_raised(start, client):
    agent = start()
    client.replace(gated("p1"))
    agent.kill()
    agent.wait()
    start()
    assert bias() == RAISED
    client.replace()
    assert bias() == "1"


def test_a_withdrawn_agent_leaves_the_kernel_as_it_was(start, client, tmp_path):
    agent = start()
    client.replace(gated("p1"))
    agent.terminate()
    assert agent.wait() == 0
    assert bias() == RAISED
    withdraw(tmp_path / "agent")
    assert bias() == "1"


def test_a_greater_quota_of_an_administrator_stays_and_is_stated(start, client):
    set_bias(40)
    start()
    client.replace(gated("p1"))
    assert (bias(), quota(client, "p1")) == ("40", 2560)
    client.replace()
    assert bias() == "40"


def test_a_quota_that_somebody_reduced_is_reported_and_raised_by_the_next_change(start, client):
    start()
    client.replace(gated("p1"))
    with subscribed() as told:
        set_bias(1)
        told.wait_for(
            "port-drift",
            interface="p1",
            difference="the kernel sends 64 and not 1024 frames in one run of a queue "
            "(net.core.dev_weight_tx_bias)",
        )
        assert (bias(), quota(client, "p1")) == ("1", 64)
        client.replace(gated("p1"), gated("p2"))
        assert (bias(), quota(client, "p1")) == (RAISED, 1024)
        told.wait_for("port-restored", interface="p1")


def test_a_change_that_is_undone_leaves_the_quota_as_it_was(switch, two_classes):
    gates = two_classes((1, 500_000), (2, 500_000))
    applied = switch.apply({name: configured(name, gates) for name in ("p1", "p2")})
    assert bias() == RAISED
    applied.undo()
    assert bias() == "1"


def test_what_an_agent_left_that_was_killed_before_its_gates_is_taken_back(switch, tmp_path):
    DevWeight(record(tmp_path)).replace(TRANSMIT_QUOTA, (), [Contribution("gates", "p1", 0, 1024)])
    assert bias() == RAISED
    switch.apply({})
    assert bias() == "1"


@contextmanager
def read_only():
    """As /proc/sys is in a container."""
    run("mount", "--bind", str(BIAS), str(BIAS))
    try:
        run("mount", "-o", "remount,bind,ro", str(BIAS))
        yield
    finally:
        run("umount", str(BIAS))


def test_where_the_sysctl_is_read_only_gates_run_with_the_quota_that_is_there(start, client):
    with read_only():
        start()
        assert quota(client, "p1") == 64
        client.replace(gated("p1"))
        assert (bias(), quota(client, "p1")) == ("1", 64)
        client.replace()


def test_an_agent_that_may_not_take_the_quota_back_is_stopped_by_nothing(start, client):
    """As one whose sandbox was made stricter while its gates ran."""
    agent = start()
    client.replace(gated("p1"))
    agent.kill()
    agent.wait()
    with read_only():
        start()
        client.replace(gated("p1"), gated("p2"))
        client.replace()
        assert (bias(), quota(client, "p1")) == (RAISED, 1024)
    client.replace(gated("p1"))
    client.replace()
    assert bias() == "1"


def test_in_another_network_namespace_the_kernel_does_not_show_it(tmp_path):
    with new_namespace(NAMESPACE), inside(NAMESPACE):
        run("ip", "link", "add", "p1", "type", "dummy")
        with closing(KernelPorts(mechanisms(tmp_path))) as ports:
            gates = ports.read()["p1"][GateState]
    assert gates.transmit_quota is None
    assert gates.transmit_quota_frames is None


def test_a_user_with_the_capability_of_the_service_may_set_it(ports):
    """tsn-agent is no root: it has CAP_NET_ADMIN, which the kernel asks for here."""
    program = f"open({str(BIAS)!r}, 'w').write('16')"
    user = ("--reuid", str(NOBODY), "--clear-groups", "--inh-caps", "-all,+net_admin")
    set_by = ("setpriv", *user, "--ambient-caps", "-all,+net_admin", sys.executable, "-c", program)
    run(*set_by)
    assert bias() == RAISED
