"""The controller and a switch with small limits: a real agent, NETCONF server and client."""

from __future__ import annotations

import dataclasses
import json
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from agent.datastore.subscriptions import Datastore
from agent.mechanisms.gates.limits import limits_by_mode
from agent.mechanisms.gates.model import GateLimits, GateState
from agent.model import OperStatus
from cnc import cli
from cnc.model import PortRef
from cnc.plans import file as planfile
from tests.stack.recording_kernel import RecordingKernel, altered, port

EGRESS = PortRef("s1", "p2")
SHORT = GateLimits(list_max=8, cycle_max_ns=10**9, interval_max_ns=600_000, tick_tenth_ns=80)

INTENT = """
name: small
defaults:
  rate: 1Gbps
  propagation: 100ns
  processing: {{min: 1us, max: 5us}}
  clock-error: 1us
  gate-margin: 0ns
  user: operator
  netconf-port: {port}
classes:
  cyclic: {{traffic-class: 6, priority: 6, dscp: 46, role: scheduled}}
  best-effort: {{traffic-class: 0, priority: 0, dscp: 0, role: best-effort}}
switches:
  s1: {{ports: [p1, p2], management: 127.0.0.1}}
end-stations: [talker, listener]
links:
  - [talker/eth0, s1/p1]
  - [s1/p2, listener/eth0]
streams:
"""
STREAM = """
  f{number}:
    talker: talker
    listeners: [listener]
    period: 1ms
    payload: 100B
    max-latency: 500us
    window: {{earliest: {start}us, latest: {start}us}}
"""


@pytest.fixture
def kernel():
    """A switch whose second port has short lists, short intervals and a coarse tick."""
    limited = altered(port("p2", 3), limits=SHORT)
    return RecordingKernel(port("p1", 2), limited)


@pytest.fixture
def cnc(shared_netconfd, kernel, tmp_path):
    """The `cnc` command with the keys of the switch."""
    server = shared_netconfd
    with closing(Datastore(kernel)):
        (tmp_path / "small.yaml").write_text(
            INTENT.format(port=server.port)
            + "".join(STREAM.format(number=n, start=60 * n) for n in range(4))
        )
        known_hosts = tmp_path / "known_hosts"
        key = server.host_key.with_suffix(".pub").read_text()
        known_hosts.write_text(f"[127.0.0.1]:{server.port} {key}")
        keys = {"CNC_IDENTITY": str(server.client_key), "CNC_KNOWN_HOSTS": str(known_hosts)}

        def run(*argv: object):
            return CliRunner().invoke(cli.cnc, [*map(str, argv)], env=keys)

        yield run


def test_a_plan_asks_for_limits_keeps_them_and_can_be_pushed(cnc, kernel, tmp_path: Path):
    written = tmp_path / "plan.json"
    planned = cnc("plan", tmp_path / "small.yaml", "--ask-switches", "-o", written)
    assert planned.exit_code == 0, planned.exception
    assert "  8 entries, intervals up to 600 µs, cycles up to 1 s, a tick of 8 ns: s1/p2\n" in (
        planned.output
    )
    gates = planfile.load(written).gates[EGRESS]
    assert len(gates.entries) <= 8
    assert all(e.interval_ns <= 600_000 and e.interval_ns % 8 == 0 for e in gates.entries)
    pushed = cnc("push", written)
    assert pushed.exit_code == 0, pushed.exception
    running = kernel.states["p2"][GateState].taprio.schedule
    assert [(e.gate_states, e.interval_ns) for e in running.entries] == [
        (e.gate_states, e.interval_ns) for e in gates.entries
    ]


def test_a_pushed_intent_is_planned_within_the_limits_and_status_agrees(cnc, kernel, tmp_path):
    intent = tmp_path / "small.yaml"
    pushed = cnc("push", intent)
    assert pushed.exit_code == 0, pushed.exception
    assert 0 < len(kernel.states["p2"][GateState].taprio.schedule.entries) <= 8
    assert cnc("status", intent).exit_code == 0
    assert cnc("push", intent).stdout.startswith("no change")


def test_a_port_without_a_link_that_streams_take_is_a_problem_though_it_runs_its_list(
    cnc, kernel, tmp_path
):
    intent = tmp_path / "small.yaml"
    assert cnc("push", intent).exit_code == 0
    kernel.changed(dataclasses.replace(kernel.states["p2"], oper_status=OperStatus.DOWN))
    told = cnc("status", intent, "--problems", "--json")
    assert told.exit_code == 1
    (port,) = json.loads(told.stdout)
    assert port["port"] == str(EGRESS)
    assert port["verdict"] in {"pending; the link is down", "running; the link is down"}
    shown = cnc("status", intent, "--problems")
    assert f"1 of 2 ports on 1 switch not as planned: {EGRESS}\n" in shown.stdout
    assert "hint: check the cable and the far end; ip link set p2 up\n" in shown.stdout


def test_a_finished_plan_beyond_the_limits_is_refused_before_anything_is_sent(
    cnc, kernel, tmp_path: Path
):
    written = tmp_path / "plan.json"
    assert cnc("plan", tmp_path / "small.yaml", "-o", written).exit_code == 0
    count = len(planfile.load(written).gates[EGRESS].entries)
    assert count > 8
    refused = cnc("push", written)
    assert refused.exit_code == 1
    assert (
        f"s1/p2: the plan exceeds the limits that the switch reports: "
        f"{count} entries, the port holds 8" in (str(refused.exception))
    )
    assert "no switch was changed" in str(refused.exception)
    assert "cnc plan --ask-switches" in refused.exception.hint
    assert kernel.log == []


def test_what_a_driver_takes_is_planned_for_and_told_before_any_list_runs(cnc, kernel, tmp_path):
    limits = limits_by_mode("sja1105")
    kernel.changed(altered(kernel.states["p2"], driver="sja1105", limits_by_mode=limits))
    intent = tmp_path / "small.yaml"
    intent.write_text(intent.read_text().replace("defaults:", "defaults:\n  gates: full-offload"))
    planned = cnc("plan", intent, "--ask-switches", "-o", tmp_path / "plan.json")
    assert planned.exit_code == 0, planned.exception
    assert (
        "1024 entries, intervals from 200 ns up to 52.429 ms, a tick of 200 ns: s1/p2\n"
    ) in planned.output
    found = json.loads(cnc("doctor", intent, "--json").stdout)["findings"]
    (hardware,) = [f["text"] for f in found if (f["check"], f["port"]) == ("hardware", "p2")]
    assert hardware.startswith("driver sja1105 takes gates (1024 entries, ")
    assert "a list that comes or goes resets the switch" in hardware
    assert cnc("push", tmp_path / "plan.json").exit_code == 0
