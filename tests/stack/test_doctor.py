"""`cnc doctor` and one switch: a real agent, NETCONF server and client, on a kernel that obeys."""

from __future__ import annotations

import dataclasses
import json
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from agent.datastore.subscriptions import Datastore
from agent.mechanisms.gates.model import GateState
from agent.model import PtpPortState, PtpStatus
from cnc import cli
from cnc import intent as intents
from cnc.testbed.lab import Lab
from tests.stack.front_end import BASE
from tests.stack.recording_kernel import port
from tests.stack.sysrepo_client import BRIDGE_PORT, GATES, entry, gated

INTENT = """
name: small
defaults:
  rate: 1Gbps
  propagation: 100ns
  processing: {{min: 1us, max: 5us}}
  clock-error: 1us
  gate-margin: 0ns
  user: {user}
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
  set-points:
    talker: talker
    listeners: [listener]
    class: cyclic
    period: 1ms
    payload: 100B
    max-latency: {latency}
"""


@pytest.fixture
def agent(server, kernel):
    kernel.time_ns = None
    running = Datastore(kernel)
    yield running
    running.close()


@pytest.fixture
def server(server, sysrepo_template):
    """Ours alone: the agent is behind it."""
    return server


@pytest.fixture
def doctor(server, tmp_path: Path, monkeypatch):
    """The command, or another one, with everything it needs to log in as `user`."""
    known_hosts = tmp_path / "known_hosts"
    key = server.host_key.with_suffix(".pub").read_text()
    known_hosts.write_text(f"[127.0.0.1]:{server.port} {key}")
    monkeypatch.setenv("CNC_STATE_DIR", str(tmp_path / "state"))
    keys = {"CNC_IDENTITY": str(server.client_key), "CNC_KNOWN_HOSTS": str(known_hosts)}

    def run(*options, command="doctor", user="operator", latency="500us", **changed_keys):
        file = tmp_path / "small.yaml"
        file.write_text(INTENT.format(user=user, port=server.port, latency=latency))
        return CliRunner().invoke(cli.cnc, [command, str(file), *options], env=keys | changed_keys)

    return run


def failures(ran):
    """Check → text and hint, of a run with --json."""
    told = json.loads(ran.stdout)
    failed = [finding for finding in told["findings"] if finding["verdict"] == "failed"]
    assert ran.exit_code == (1 if failed else 0)
    return {finding["check"]: f"{finding['text']} | {finding['hint']}" for finding in failed}


def test_a_sound_switch_passes_every_check_and_is_not_changed(agent, server, doctor, kernel):
    ran = doctor()
    assert ran.exit_code == 0, ran.output
    assert "failed" not in ran.output
    assert ran.output.endswith("a push can go ahead\n")
    for check in ("YANG modules", "locks", "right to write", "limits of gates"):
        assert f" {check} " in ran.output
    assert kernel.log == []
    with server.connect() as client:
        client.lock("running")
        client.lock("candidate")


def test_what_a_switch_has_stored_and_cannot_apply_is_named_and_stops_no_push(
    client, server, kernel, doctor
):
    client.replace(gated("p2", **{"admin-base-time": {"seconds": str(2**64 - 1)}}))
    kernel.time_ns = None
    with closing(Datastore(kernel)):
        ran = doctor("--json")
        client.replace(gated("p1"), gated("p2", **{"admin-base-time": {"seconds": str(2**64 - 1)}}))
    (found,) = (
        each
        for each in json.loads(ran.stdout)["findings"]
        if each["check"] == "stored configuration"
    )
    assert (found["switch"], found["port"], found["verdict"]) == ("s1", "p2", "warning")
    assert "cannot be applied: base time 18446744073709551615000000000 ns is not" in found["text"]
    assert kernel.states["p1"][GateState].taprio is not None


def interfaces(*configured):
    return {"ietf-interfaces:interfaces": {"interface": list(configured)}}


@pytest.mark.parametrize("is_draft", [False, True])
def test_a_list_that_another_client_set_where_none_is_planned_is_told_and_goes_with_a_push(
    agent, client, doctor, kernel, is_draft
):
    """As most clients set it: without a traffic-class-table."""
    assert doctor(command="push").exit_code == 0
    foreign = gated("p1", entries=[entry(0, 0x7F, 1_000_000)], base_time_s=0)
    del foreign[BRIDGE_PORT]["traffic-class"]
    client.merge(interfaces(foreign))
    if is_draft:
        foreign[BRIDGE_PORT][GATES]["config-change"] = False
        client.merge(interfaces(foreign))
    told = doctor(command="status").output
    assert "a gate control list is still there" in told
    assert "restart tsn-agent" not in told

    assert "s1/p1" in doctor(command="push").output

    assert kernel.states["p1"][GateState].taprio is None
    assert "no change" in doctor(command="push").output


def test_a_startup_that_was_lost_is_told_until_it_is_written_again(
    agent, server, doctor, sysrepo_repository
):
    def told():
        findings = json.loads(doctor("--json").stdout)["findings"]
        return [each for each in findings if each["check"] == "stored configuration"]

    assert told() == []
    # Where the switch keeps what it could not read at its start.
    (sysrepo_repository.path / "data" / "ietf-interfaces.startup.damaged").touch()
    (found,) = told()
    assert (found["switch"], found["port"], found["verdict"]) == ("s1", None, "warning")
    assert "startup configuration was unreadable in ietf-interfaces" in found["text"]
    assert "push the plan" in found["hint"]
    assert doctor(command="push").exit_code == 0
    assert told() == []


def test_a_lock_is_named_with_its_holder(agent, server, doctor):
    with server.connect() as client:
        client.lock("running")
        words = failures(doctor("--json"))["locks"]
        assert f"running is locked by session {client.session_id}: operator from 127.0.0.1" in words
    assert failures(doctor("--json")) == {}


def test_a_commit_that_nobody_has_confirmed_is_seen(agent, server, doctor):
    with server.connect() as client:
        client.edit_config(
            target="candidate",
            config=f'<config xmlns="{BASE}"><interfaces '
            'xmlns="urn:ietf:params:xml:ns:yang:ietf-interfaces"><interface><name>p1</name>'
            '<type xmlns:i="urn:ietf:params:xml:ns:yang:iana-if-type">i:ethernetCsmacd</type>'
            "</interface></interfaces></config>",
        )
        client.commit(confirmed=True, timeout="600", persist="left-behind")
    assert "confirmed commit" in failures(doctor("--json"))["locks"]
    with server.connect() as client:
        client.cancel_commit(persist_id="left-behind")
    assert failures(doctor("--json")) == {}


def test_work_that_somebody_left_in_the_candidate_is_seen(agent, server, doctor):
    with server.connect() as client:
        client.edit_config(
            target="candidate",
            config=f'<config xmlns="{BASE}"><rollout '
            'xmlns="urn:tsn-control-plane:yang:tsn-linux"><controller>eve</controller></rollout>'
            "</config>",
        )
        assert "candidate" in failures(doctor("--json"))["locks"]


def test_an_observer_is_told_what_would_let_him_write(agent, server, doctor):
    words = failures(doctor("--json", user="observer"))["locks"]
    assert "user observer may not lock" in words
    assert "group tsn-operator" in words


def test_an_agent_that_does_not_run_is_the_one_failure(server, doctor):
    assert "systemctl start tsn-agent" in failures(doctor("--json"))["agent"]


def test_a_kernel_without_taprio_is_quoted(agent, doctor, kernel):
    kernel.gates_refused = "this kernel has no sch_taprio: modprobe it"
    failed = failures(doctor("--json"))["kernel"]
    assert failed.startswith(kernel.gates_refused)
    assert "scripts/vm" in failed


def test_a_lab_knows_why_its_kernel_has_no_gates(agent, server, kernel, tmp_path):
    file = tmp_path / "small.yaml"
    file.write_text(INTENT.format(user="operator", port=server.port, latency="500us"))
    lab = Lab(intents.load(file), tmp_path)
    lab.identity.symlink_to(server.client_key)
    key = server.host_key.with_suffix(".pub").read_text()
    lab.known_hosts.write_text(f"[127.0.0.1]:{server.port} {key}")
    assert lab.gates_refused() is None
    kernel.gates_refused = "this kernel has no sch_taprio"
    assert lab.gates_refused() == kernel.gates_refused


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"tx_queues": 2}, ("transmit queues", "needs 7 TX queues, has 2")),
        ({"mtu_octets": 99}, ("MTU", "its MTU is 99 octets, stream set-points has packets of 100")),
        ({"foreign_qdisc": "prio 5:"}, ("root qdisc", "prio 5:")),
        ({"link_speed_bps": 100_000_000}, ("link speed", "100 Mb/s; the intent says 1 Gb/s")),
        ({"oper_status": "down", "link_speed_bps": None}, ("link speed", "assumes 10 Mb/s")),
    ],
)
def test_a_port_that_cannot_take_its_list_is_named(agent, doctor, kernel, changes, found):
    check, words = found
    kernel.states["p2"] = dataclasses.replace(port("p2", 3), **changes)
    ran = doctor("--json")
    assert words in failures(ran)[check]
    (finding,) = [f for f in json.loads(ran.stdout)["findings"] if f["verdict"] == "failed"]
    assert (finding["switch"], finding["port"]) == ("s1", "p2")


def test_a_port_that_is_not_there_is_named(agent, doctor, kernel):
    del kernel.states["p2"]
    assert "no such port" in failures(doctor("--json"))["ports exist"]


@pytest.mark.parametrize(
    ("ports", "is_locked"),
    [({1: PtpPortState.SLAVE}, True), ({1: PtpPortState.UNCALIBRATED}, False)],
)
def test_the_ptp_daemon_must_be_locked(agent, doctor, kernel, ports, is_locked):
    kernel.ptp = PtpStatus(
        "001122.fffe.667788", "001122.fffe.334455", "001122.fffe.334455", False, -40, ports
    )
    ran = doctor("--json")
    assert failures(ran).keys() == (set() if is_locked else {"PTP"})
    text = next(f["text"] for f in json.loads(ran.stdout)["findings"] if f["check"] == "PTP")
    assert ("locked to 001122.fffe.334455, -40 ns off" in text) is is_locked


def test_a_switch_that_shows_another_host_key_is_not_trusted(agent, server, doctor, tmp_path):
    imposter = server.authorized_keys.read_text()
    (tmp_path / "known_hosts").write_text(f"[127.0.0.1]:{server.port} {imposter}")
    ran = doctor("--json")
    assert "differs from the one in" in failures(ran)["host key"]
    assert len([each for each in json.loads(ran.stdout)["findings"] if each["switch"]]) == 1


def test_an_unknown_host_key_comes_with_the_way_to_learn_it(agent, server, doctor, tmp_path):
    (tmp_path / "known_hosts").write_text("")
    assert f"ssh-keyscan -p {server.port} 127.0.0.1" in failures(doctor("--json"))["host key"]


def test_a_key_that_the_switch_does_not_accept_is_a_matter_of_login(agent, server, doctor):
    words = failures(doctor("--json", CNC_IDENTITY=str(server.host_key)))["login"]
    assert "authorized keys" in words


def test_a_switch_that_is_down_is_out_of_reach(netconfd, doctor):
    netconfd.stop()
    assert "cannot reach the NETCONF server" in failures(doctor("--json"))["reachable"]


def test_an_intent_without_a_plan_is_a_failed_check_and_its_switch_is_examined_all_the_same(
    agent, doctor
):
    ran = doctor(latency="5us")
    assert ran.exit_code == 1, ran.output
    assert "failed: plan: the network: cannot schedule every stream:\n  set-points: " in ran.output
    assert ran.output.endswith("checks failed: a push would be refused\n")
    told = json.loads(doctor("--json", latency="5us").stdout)
    (failed,) = [each for each in told["findings"] if each["verdict"] == "failed"]
    assert (failed["switch"], failed["port"], failed["check"]) == (None, None, "plan")
    assert told["no_plan"] == failed["text"]
    others = [each for each in told["findings"] if each is not failed]
    assert {each["switch"] for each in others if each["check"] != "cabling"} == {"s1"}
