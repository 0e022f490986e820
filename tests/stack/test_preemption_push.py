"""A plan that rests on preemption is pushed where the port says that it preempts, and only there: a
real agent, NETCONF server and client, and ports in memory."""

from __future__ import annotations

import dataclasses
import json
from contextlib import closing

import pytest
from click.testing import CliRunner

from agent.datastore.subscriptions import Datastore
from agent.mechanisms.gates.model import GateState, TaprioMode
from agent.mechanisms.preemption.model import Preemptable
from agent.model import MacMerge, VerifyStatus
from cnc import cli
from tests.stack.recording_kernel import RecordingKernel, port

VERIFIED = MacMerge(tx_enabled=True, tx_active=True, verify_status=VerifyStatus.SUCCEEDED)
# Of all priorities but that of the streams.
GIVE_WAY = Preemptable((0,), (0, 1, 2, 3, 4, 5, 7))

INTENT = """
name: small
defaults:
  {{rate: 100Mbps, propagation: 100ns, processing: {{min: 1us, max: 5us}}, clock-error: 1us,
    gates: full-offload, user: operator, netconf-port: {port}}}
classes:
  cyclic: {{traffic-class: 1, priority: 6, dscp: 46, role: scheduled}}
  best-effort: {{traffic-class: 0, priority: 0, dscp: 0, role: best-effort, max-frame: 9000B}}
switches:
  s1: {{ports: {{p1: {{}}, p2: {{preemption: {preemption}}}}}, management: 127.0.0.1}}
end-stations: {{talker: {{talker-interference: none}}, listener: {{}}}}
links:
  - [talker/eth0, s1/p1]
  - [s1/p2, listener/eth0]
streams:
  f: {{talker: talker, listeners: [listener], period: 2ms, payload: 100B, max-latency: 500us}}
"""


@pytest.fixture
def kernel():
    at_100_mbps = dataclasses.replace(port("p2", 3), link_speed_bps=100_000_000)
    return RecordingKernel(
        dataclasses.replace(port("p1", 2), link_speed_bps=100_000_000),
        dataclasses.replace(at_100_mbps, mac_merge=VERIFIED),
    )


@pytest.fixture
def cnc(shared_netconfd, kernel, tmp_path):
    """A command about the network, with or without preemption."""
    server = shared_netconfd
    with closing(Datastore(kernel)):
        known_hosts = tmp_path / "known_hosts"
        key = server.host_key.with_suffix(".pub").read_text()
        known_hosts.write_text(f"[127.0.0.1]:{server.port} {key}")
        keys = {
            "CNC_IDENTITY": str(server.client_key),
            "CNC_KNOWN_HOSTS": str(known_hosts),
            "CNC_STATE_DIR": str(tmp_path / "state"),
        }

        def run(command: str, *options: str, preemption: bool = True):
            intent = tmp_path / "small.yaml"
            word = str(preemption).lower()
            intent.write_text(INTENT.format(port=server.port, preemption=word))
            return CliRunner().invoke(cli.cnc, [command, str(intent), *options], env=keys)

        yield run


def changed(kernel, mac_merge: MacMerge | None) -> None:
    kernel.changed(dataclasses.replace(kernel.states["p2"], mac_merge=mac_merge))


def test_a_verified_port_gets_short_guard_bands_and_is_told_who_gives_way(cnc, kernel):
    pushed = cnc("push")
    assert pushed.exit_code == 0, pushed.exception
    its = kernel.states["p2"]
    assert its[Preemptable] == GIVE_WAY
    taprio = its[GateState].taprio
    assert taprio.mode is TaprioMode.FULL_OFFLOAD
    shut_ns = sum(e.interval_ns for e in taprio.schedule.entries if not e.gate_states & 1)
    assert shut_ns < 50_000
    assert kernel.states["p1"][Preemptable] == Preemptable()
    assert cnc("status").exit_code == 0
    assert cnc("push").stdout.startswith("no change")


@pytest.mark.parametrize(
    ("mac_merge", "reason", "hint"),
    [
        (None, "reports no MAC merge layer of the port", "take `preemption: true` of p2 out"),
        (MacMerge(), "its MAC merge layer is not enabled", "--set-mm p2 pmac-enabled on tx-ena"),
        (MacMerge(True, False, VerifyStatus.FAILED), "verify-status is failed, not su", "--set-mm"),
        # What may not be understood at the other end is no ground for a plan.
        (MacMerge(True, True, VerifyStatus.DISABLED), "verify-status is disabled", "--set-mm"),
        (MacMerge(True, False, VerifyStatus.SUCCEEDED), "it interrupts no frame at pr", "--set-mm"),
        (
            MacMerge(True, True, VerifyStatus.SUCCEEDED, 124),
            "it sends 124 octets of a frame at once at least, a plan reckons with 60",
            "tx-min-frag-size 60",
        ),
    ],
)
def test_a_port_that_is_not_verified_is_refused_before_anything_is_sent(
    cnc, kernel, mac_merge, reason, hint
):
    changed(kernel, mac_merge)
    refused = cnc("push")
    assert refused.exit_code == 1
    assert reason in str(refused.exception)
    assert "s1/p2" in str(refused.exception)
    assert hint in str(refused.exception) + str(refused.exception.hint)
    assert kernel.log == []
    assert cnc("push", preemption=False).exit_code == 0


def test_the_doctor_says_it_without_a_push(cnc, kernel):
    assert "verified: best effort gives way" in cnc("doctor", "--json").stdout
    changed(kernel, MacMerge())
    examined = cnc("doctor", "--json")
    found = [each for each in json.loads(examined.stdout)["findings"] if each["port"] == "p2"]
    (preemption,) = [each for each in found if each["check"] == "frame preemption"]
    assert preemption["verdict"] == "failed"


def test_a_port_that_stops_to_preempt_is_told_by_status(cnc, kernel):
    assert cnc("push").exit_code == 0
    changed(kernel, MacMerge(True, False, VerifyStatus.FAILED))
    told = cnc("status", "--problems", "--json")
    assert told.exit_code == 1
    (its,) = json.loads(told.stdout)
    assert its["port"] == "s1/p2"
    assert "best effort does not give way: the other end of its link" in its["verdict"]


def test_a_class_that_another_client_makes_express_is_repaired_by_a_push(cnc, kernel):
    assert cnc("push").exit_code == 0
    kernel.changed(kernel.states["p2"].with_part(Preemptable()))
    assert cnc("push").exit_code == 0
    assert kernel.states["p2"][Preemptable] == GIVE_WAY


def test_it_goes_with_a_plan_without_it(cnc, kernel):
    assert cnc("push").exit_code == 0
    assert cnc("push", preemption=False).exit_code == 0
    its = kernel.states["p2"]
    assert its[Preemptable] == Preemptable()
    entries = its[GateState].taprio.schedule.entries
    assert sum(e.interval_ns for e in entries if not e.gate_states & 1) > 720_000


def test_what_the_kernel_refuses_reaches_the_operator_and_nothing_stays(cnc, kernel):
    """A port that says it preempts, whose kernel takes no preemptable class."""
    assert cnc("push", preemption=False).exit_code == 0
    before = kernel.states["p2"][GateState].taprio
    kernel.refuse = "port p2: the kernel refused the schedule: Device does not support preemption"
    refused = cnc("push")
    assert refused.exit_code == 1
    assert "Device does not support preemption" in str(refused.exception)
    assert kernel.states["p2"][GateState].taprio == before
