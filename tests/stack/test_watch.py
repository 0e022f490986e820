"""`cnc watch` as a process, with a real agent, NETCONF server and history."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import signal
import socket
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
import sysrepo
from click.testing import CliRunner, Result
from prometheus_client.parser import text_string_to_metric_families

from agent.datastore.subscriptions import Datastore
from agent.mechanisms.gates.model import GateState
from agent.model import OperStatus
from agent.wake_ups import WakeUps
from cnc import cli
from cnc.model import PortRef
from cnc.rollout.history import FILE_NAME, History
from tests.stack.front_end import BASE, INTERFACES
from tests.stack.lldp_client import neighbor
from tests.stack.netconfd_process import NetconfdProcess, running_netconfd
from tests.stack.recording_kernel import RecordingKernel, altered, port
from tests.stack.watch_process import WatchProcess

EGRESS = PortRef("s1", "p2")
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
  f: {{talker: talker, listeners: [listener], period: {period}, payload: 100B, max-latency: 500us}}
"""
# Class 7 never sends.
GATES = """
<gate-parameter-table xmlns="urn:ieee:std:802.1Q:yang:{module}">
 <gate-enabled>true</gate-enabled>
 <admin-control-list>
  <gate-control-entry>
   <index>0</index>
   <operation-name xmlns:s="urn:ieee:std:802.1Q:yang:ieee802-dot1q-sched"
    >s:set-gate-states</operation-name>
   <time-interval-value>1000000</time-interval-value>
   <gate-states-value>127</gate-states-value>
  </gate-control-entry>
 </admin-control-list>
 <admin-cycle-time><numerator>1</numerator><denominator>1000</denominator></admin-cycle-time>
 <config-change>{config_change}</config-change>
</gate-parameter-table>"""
# As most clients set it: without a traffic-class-table.
GATED_PORT = f"""
<bridge-port xmlns="urn:ieee:std:802.1Q:yang:ieee802-dot1q-bridge" nc:operation="replace">
{GATES.replace("{module}", "ieee802-dot1q-sched-bridge")}
</bridge-port>"""
GATED_INTERFACE = GATES.replace("{module}", "ieee802-dot1dc-sched-if")
CONFIG = f"""
<config xmlns="{BASE}" xmlns:nc="{BASE}">
 <interfaces xmlns="{INTERFACES}">
  <interface>
   <name>{{port}}</name>
   <type xmlns:i="urn:ietf:params:xml:ns:yang:iana-if-type">i:ethernetCsmacd</type>
   {{gates}}
  </interface>
 </interfaces>
</config>"""
DRAFT = "gates are on, but what is configured is no list in force (another client's draft?)"
ELSEWHERE = (
    "gates are configured in ieee802-dot1dc-sched-if:gate-parameter-table, which no plan uses"
)


@dataclass
class Network:
    """One switch that runs a pushed plan, and how to reach it."""

    plan: Path
    other_plan: Path
    server: NetconfdProcess
    kernel: RecordingKernel
    agent: Datastore
    environment: dict[str, str]
    state_dir: Path

    def cnc(self, *argv: object) -> Result:
        done = self.try_cnc(*argv)
        assert done.exit_code == 0, done.exception or done.output
        return done

    def try_cnc(self, *argv: object) -> Result:
        return CliRunner().invoke(cli.cnc, [*map(str, argv)], env=self.environment)

    def status(self) -> dict[str, str]:
        """The ports that are not as planned by `cnc status`, with their verdicts."""
        told = json.loads(self.try_cnc("status", "--json", self.plan).stdout)
        return {each["port"]: each["verdict"] for each in told if not each["agrees"]}

    def would_change(self) -> dict[str, str]:
        """The ports that a push would change, with the reasons."""
        told = json.loads(self.cnc("push", "--dry-run", "--json", self.plan).stdout)
        return {each["port"]: each["why"] for each in told["changes"]}

    def lose_schedule(self) -> None:
        """What `tc qdisc del` does to the egress port."""
        before = self.kernel.states[EGRESS.port]
        lost = port(before.name, before.ifindex)
        self.kernel.states[EGRESS.port] = lost


@pytest.fixture
def network(sysrepo_repository, tmp_path):
    """A switch after `cnc push`. Its clock is the machine's."""
    kernel = RecordingKernel(port("p1", 2), port("p2", 3))
    with ExitStack() as stack:
        agent = Datastore(kernel)
        stack.callback(agent.close)
        server = stack.enter_context(running_netconfd(tmp_path / "netconfd"))
        server.arguments = ["--listen", f"127.0.0.1:{server.port}"]  # also when it starts again
        known_hosts = tmp_path / "known_hosts"
        key = server.host_key.with_suffix(".pub").read_text()
        known_hosts.write_text(f"[127.0.0.1]:{server.port} {key}")
        made = Network(
            plan=tmp_path / "plan.json",
            other_plan=tmp_path / "other.json",
            server=server,
            kernel=kernel,
            agent=agent,
            environment={
                "CNC_IDENTITY": str(server.client_key),
                "CNC_KNOWN_HOSTS": str(known_hosts),
                "CNC_STATE_DIR": str(tmp_path / "history"),
                "CNC_TIMEOUT": "10",
            },
            state_dir=tmp_path / "history",
        )
        for path, period in ((made.plan, "1ms"), (made.other_plan, "2ms")):
            intent = path.with_suffix(".yaml")
            intent.write_text(INTENT.format(port=server.port, period=period))
            made.cnc("plan", intent, "-o", path)
        made.cnc("push", made.plan)
        yield made


@pytest.fixture
def watch(network, tmp_path):
    """Start `cnc watch` on the pushed plan; it must end with exit code 0."""
    started = []

    def start(*argv: object, environment: dict[str, str] | None = None) -> WatchProcess:
        process = WatchProcess(
            tmp_path,
            network.plan,
            *argv,
            environment={**network.environment, **(environment or {})},
        )
        started.append(process)
        process.ready()
        return process

    yield start
    codes = [process.stop() for process in started]
    assert codes == [0] * len(started), started[0].log


Start = Callable[..., WatchProcess]

SELDOM = ("--interval", "3600")  # so that nothing but a notification is noticed
OFTEN = ("--interval", "0.2")  # more often than a switch pushes its state by default: it is asked
PUSHED = ("--interval", "1")


@pytest.fixture(params=[OFTEN, PUSHED], ids=["polled", "pushed"])
def in_either_way(request: pytest.FixtureRequest) -> tuple[str, str]:
    """The arguments of a watch of a switch that is asked for its state, or pushes it."""
    return request.param


@pytest.mark.parametrize(
    ("interval", "datastores"), [(OFTEN, []), (PUSHED, ["operational", "running"])]
)
def test_a_switch_pushes_its_state_unless_it_is_wanted_more_often_than_it_pushes(
    network: Network, watch: Start, interval: tuple[str, str], datastores: list[str]
):
    process = watch(*interval)
    with sysrepo.SysrepoConnection() as switch, switch.start_session("operational") as session:
        subscriptions = session.get_data("/ietf-subscribed-notifications:subscriptions")
    targets = [
        each.get("ietf-yang-push:datastore", each.get("datastore", "")).rpartition(":")[2]
        for each in subscriptions["subscriptions"]["subscription"]
    ]
    # The events are a subscription in any case.
    assert sorted(filter(None, targets)) == datastores
    assert process.stop() == 0
    assert process.events == []


def test_a_network_that_runs_its_plan_is_no_news(network: Network, watch: Start):
    process = watch(*OFTEN)
    assert process.stop() == 0
    assert process.events == []
    assert "watching small: 1 switch\n" in process.log


def test_a_drift_that_the_agent_reports_is_told_without_waiting_for_the_next_look(
    network: Network, watch: Start
):
    process = watch(*SELDOM)
    with sysrepo.SysrepoConnection() as connection, connection.start_session() as session:
        session.notification_send(
            "/tsn-linux:port-drift", {"interface": "p2", "difference": "queue 7 has gone"}
        )
        event = process.wait_for("began", "drift", switch="s1", port="p2")
        assert event["text"] == "queue 7 has gone"
        session.notification_send("/tsn-linux:port-restored", {"interface": "p2"})
    assert process.wait_for("ended", "drift", switch="s1", port="p2")["since"] == event["time"]


def test_frames_that_wait_and_never_leave_are_told_by_watch_and_status_and_doctor(
    network: Network, watch: Start
):
    process = watch("--interval", "1")
    running = network.kernel.states[EGRESS.port]
    assert running[GateState].taprio
    network.kernel.states[EGRESS.port] = altered(
        running,
        running=running[GateState].taprio.schedule,
        pending=None,
        counters=tuple(
            dataclasses.replace(counted, backlog_frames=1000)
            for counted in running[GateState].counters
        ),
    )
    waits = "class 6 has 1000 frames waiting and sent none in"
    assert waits in process.wait_for("began", "starved", switch="s1", port="p2")["text"]
    for command, exit_code in (("status", 1), ("doctor", 0)):
        done = CliRunner().invoke(cli.cnc, [command, str(network.plan)], env=network.environment)
        assert (done.exit_code, f"starved: {waits} " in done.output) == (exit_code, True)
        assert "gate-margin" in done.output


def test_a_gate_that_was_later_since_the_push_is_told_and_is_no_difference_of_the_switch(
    network: Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """An intent that states no gate margin is planned with what was measured at its push."""
    monkeypatch.delenv("TSN_VIRTUAL_TIME", raising=False)
    intent = network.plan.with_name("measured.yaml")
    text = INTENT.format(port=network.server.port, period="100ms").replace("500us", "50ms")
    intent.write_text(text.replace("gate-margin: 0ns", ""))
    measured = {"late": WakeUps(300, 3_608_000, None)}
    network.kernel.ports.wake_ups = lambda: measured["late"]
    network.cnc("push", intent)
    measured["late"] = WakeUps(500, 8_000_000, None)

    def run(command: str, *options: str) -> Result:
        return CliRunner().invoke(
            cli.cnc, [command, *options, str(intent)], env=network.environment
        )

    status = run("status", "--problems")
    assert (status.exit_code, status.stdout) == (0, "2 ports on 1 switch: all as planned\n")
    told = (
        "gates of s1/p2 were measured up to 8 ms late (the latest of 500 wake-ups); the running "
        "plan allows for 5 ms"
    )
    hint = "hint: `cnc push` plans with 10 ms, which moves 1 stream\n"
    assert f"cnc: warning: {told}\n{hint}" in status.stderr
    doctor = run("doctor")
    assert doctor.exit_code == 0, doctor.output
    assert f"warning: plan: the network: {told}\n  {hint}" in doctor.stdout
    process = WatchProcess(tmp_path, intent, *OFTEN, environment=network.environment)
    event = process.wait_for("began", "gate-margin", switch="s1")
    assert event["text"] == (
        "its gates open up to 8 ms late (the latest of 500 wake-ups); the plan allows for 5 ms"
    )
    assert process.stop() == 0
    assert process.events == []


def test_push_says_what_doctor_warns_of_and_refuses_gates_that_are_late_by_far_unless_forced(
    network: Network, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("TSN_VIRTUAL_TIME", raising=False)
    intent = network.plan.with_name("late.yaml")
    text = INTENT.format(port=network.server.port, period="2ms")
    intent.write_text(text.replace("gate-margin: 0ns", "gate-margin: 20us"))
    measured = {"late": WakeUps(101, 43_000, None)}
    network.kernel.ports.wake_ups = lambda: measured["late"]

    def run(command: str, *options: str) -> Result:
        words = [command, *options, str(intent)]
        return CliRunner().invoke(cli.cnc, words, env=network.environment)

    push = partial(run, "push")
    warning = (
        "cnc: warning: gate margin: s1/p2: its gates open up to 43 µs late (the latest of 101 "
        "wake-ups); the plan allows for 20 µs\nhint: state `gate-margin: 50us`, "
    )
    assert warning in push("--dry-run").stderr
    warnings = json.loads(push("--dry-run", "--json").stdout)["warnings"]
    assert [each["text"] for each in warnings if each["check"] == "gate margin"] == [
        "its gates open up to 43 µs late (the latest of 101 wake-ups); the plan allows for 20 µs"
    ]
    measured["late"] = WakeUps(101, 200_000, None)
    refused = push()
    assert "gate-margin: found 20us, but s1/p2 opens its gates up to 200 µs" in str(
        refused.exception
    )
    plan = partial(run, "plan", "--ask-switches")
    assert str(plan().exception) == str(refused.exception)
    assert plan("--force-margin").exit_code == 0
    forced = push("--force-margin")
    assert forced.exit_code == 0, forced.output
    assert "its gates open up to 200 µs late" in forced.stderr
    back = CliRunner().invoke(cli.cnc, ["rollback", "1"], env=network.environment)
    assert "its gates open up to 200 µs late" in str(back.exception)
    network.cnc("rollback", "1", "--force-margin")


def test_status_of_an_intent_without_a_plan_shows_what_runs_and_then_the_reasons(network: Network):
    intent = network.plan.with_name("impossible.yaml")
    text = INTENT.format(port=network.server.port, period="1ms").replace("500us", "5us")
    intent.write_text(text)
    shown = CliRunner().invoke(cli.cnc, ["status", str(intent)], env=network.environment)
    assert shown.exit_code == 1
    (row,) = [line for line in shown.stdout.splitlines() if " s1/p2 " in line]
    assert re.split(r"  +", row.strip())[-1] == "not compared"
    assert "1 ms, 5 entries" in row
    assert "as planned" not in shown.output
    assert "cannot schedule every stream:" in str(shown.exception)
    machine = CliRunner().invoke(
        cli.cnc, ["status", "--json", str(intent)], env=network.environment
    )
    p1, p2 = json.loads(machine.stdout)
    assert [p1["verdict"], p2["verdict"]] == ["not compared"] * 2
    assert (p2["agrees"], p2["intended"]) == (False, None)
    assert p2["running"] or p2["pending"]


def test_what_nobody_reports_is_noticed_by_looking(
    network: Network, watch: Start, in_either_way: tuple[str, str]
):
    process = watch(*in_either_way)
    network.lose_schedule()
    assert "no gate control list" in process.wait_for("began", "drift", port="p2")["text"]
    state = network.kernel.states["p1"]
    network.kernel.states["p1"] = dataclasses.replace(state, oper_status=OperStatus.DOWN)
    assert process.wait_for("began", "link-down", port="p1")["text"] == "the link is down"
    network.kernel.states["p1"] = state
    process.wait_for("ended", "link-down", port="p1")


def test_swapped_cables_are_told_by_watch_and_doctor(
    network: Network, lldpd: Callable[..., None], watch: Start, in_either_way: tuple[str, str]
):
    lldpd(
        neighbor("p1", "listener", "02:00:00:00:02:00"),
        neighbor("p2", "talker", "02:00:00:00:01:00"),
    )
    process = watch(*in_either_way)
    talker = "LLDP hears end station listener there, the intent has talker/eth0"
    assert process.wait_for("began", "cabling", switch="s1", port="p1")["text"] == talker
    listener = "LLDP hears end station talker there, the intent has listener/eth0"
    assert process.wait_for("began", "cabling", switch="s1", port="p2")["text"] == listener
    arguments = ["doctor", str(network.plan)]
    done = CliRunner().invoke(cli.cnc, arguments, env=network.environment)
    assert f"warning: cabling: s1/p1: {talker}" in done.output
    assert process.stop() == 0
    assert process.events == []


def test_a_server_that_is_killed_is_told_once_and_so_is_its_return(
    network: Network, watch: Start, in_either_way: tuple[str, str]
):
    process = watch(*in_either_way)
    network.server.kill()
    process.wait_for("began", "unreachable", switch="s1")
    network.server.start()
    process.wait_for("ended", "unreachable", switch="s1")
    assert process.stop() == 0
    assert [e for e in process.events if e["kind"] == "unreachable"] == []


def test_a_server_that_hangs_is_told_and_does_not_keep_the_watch_from_ending(
    network: Network, watch: Start, in_either_way: tuple[str, str]
):
    process = watch(*in_either_way, environment={"CNC_TIMEOUT": "1"})
    os.kill(network.server.pid, signal.SIGSTOP)
    try:
        told = process.wait_for("began", "unreachable", switch="s1")
        assert told["text"].startswith("no answer to get")
        os.kill(network.server.pid, signal.SIGCONT)
        process.wait_for("ended", "unreachable", switch="s1")
        os.kill(network.server.pid, signal.SIGSTOP)
        assert process.stop() == 0
    finally:
        os.kill(network.server.pid, signal.SIGCONT)
    assert "Traceback" not in process.log


def test_an_agent_that_ends_is_told_and_its_successor_ends_it(
    network: Network, watch: Start, in_either_way: tuple[str, str]
):
    process = watch(*in_either_way)
    network.agent.close()
    process.wait_for("began", "agent-down", switch="s1")
    network.agent = Datastore(network.kernel)
    try:
        process.wait_for("ended", "agent-down", switch="s1")
    finally:
        process.stop()
        network.agent.close()


def test_another_plan_on_the_switch_is_told_by_whom_and_never_healed(
    network: Network, watch: Start, in_either_way: tuple[str, str], tmp_path: Path
):
    process = watch(*in_either_way, "--heal")
    elsewhere = {**network.environment, "CNC_STATE_DIR": str(tmp_path / "elsewhere")}
    done = CliRunner().invoke(
        cli.cnc, ["push", str(network.other_plan), "--take-over"], env=elsewhere
    )
    assert done.exit_code == 0, done.exception
    process.wait_for("noted", "configuration-changed", switch="s1")
    process.wait_for("began", "configuration", port="p2")
    process.wait_for("began", "foreign-change", switch="s1")
    network.lose_schedule()
    refused = process.wait_for("noted", "heal")["text"]
    assert refused.startswith("postponed by ")
    assert network.kernel.states["p2"][GateState].taprio is None


@dataclass
class Foreign:
    """Gates that another client sets, and how they are told."""

    port: str
    config_change: str
    configured: str  # by watch
    verdict: str  # of status, a part of it
    reason: str  # of a push
    gates: str = GATED_PORT

    @property
    def config(self) -> str:
        gates = self.gates.format(config_change=self.config_change)
        return CONFIG.format(port=self.port, gates=gates)


@pytest.mark.parametrize(
    "foreign",
    [
        Foreign(
            "p1",
            "true",
            "a gate control list is configured, the plan has none",
            "differs: a gate control list is still there (taprio)",
            "the gate control list is removed: none is planned or given for this port",
        ),
        Foreign(
            "p2",
            "true",
            "another gate control list is configured",
            "differs: another gate control list: 1 entry, cycle 1 ms instead of 5 entries",
            "the gate control list changes",
        ),
        Foreign("p1", "false", DRAFT, f"differs: {DRAFT}", DRAFT),
        Foreign("p2", "false", DRAFT, f"; {DRAFT}", DRAFT),
        Foreign("p1", "true", ELSEWHERE, f"(taprio); {ELSEWHERE}", ELSEWHERE, GATED_INTERFACE),
    ],
    ids=[
        "none planned",
        "another planned",
        "draft, none planned",
        "draft, one planned",
        "of the interface",
    ],
)
def test_gates_of_another_client_are_told_and_left_until_the_operator_pushes(
    network: Network, watch: Start, foreign: Foreign
):
    process = watch(*PUSHED, "--heal")
    with network.server.connect() as client:
        client.edit_config(target="candidate", config=foreign.config)
        client.commit()
    began = process.wait_for("began", "configuration", port=foreign.port)
    assert began["text"] == foreign.configured
    # A draft alone changes nothing in the kernel, which is what is healed.
    if (foreign.port, foreign.configured) != ("p1", DRAFT):
        process.wait_for("began", "drift", port=foreign.port)
        assert process.wait_for("noted", "heal")["text"] == (
            f"postponed by configuration of s1/{foreign.port}: {foreign.configured}; "
            "push again to replace it"
        )
    ((name, verdict),) = network.status().items()
    assert (name, foreign.verdict in verdict) == (f"s1/{foreign.port}", True), verdict
    assert network.would_change() == {f"s1/{foreign.port}": foreign.reason}

    network.cnc("push", network.plan)

    process.wait_for("ended", "configuration", port=foreign.port)
    assert (network.status(), network.would_change()) == ({}, {})
    assert process.stop() == 0
    assert [each for each in process.events if each["kind"] == "heal"] == []
    with History(network.state_dir / FILE_NAME) as history:
        whats = [each.what for each in history.rollouts()]
    assert whats == ["push plan.json", "push plan.json: +1 stream"]


def test_a_lost_schedule_is_put_back_and_the_history_knows(network: Network, watch: Start):
    process = watch(*OFTEN, "--heal")
    before = network.kernel.states["p2"][GateState].taprio
    network.lose_schedule()
    process.wait_for("began", "drift", port="p2")
    assert process.wait_for("noted", "heal")["text"] == "restoring s1/p2"
    assert process.wait_for("noted", "heal")["text"] == "restored s1/p2"
    after = network.kernel.states["p2"][GateState].taprio
    assert after.schedule.entries == before.schedule.entries
    with History(network.state_dir / FILE_NAME) as history:
        assert history.rollouts()[0].what == "restored by watch"


GIVEN = """{p1: {}, p2: {gate-control-list: {cycle: 1ms, entries: [
    {open: [cyclic], for: 300us}, {open: [best-effort], for: 700us}]}}}"""


def test_a_list_that_is_given_is_put_back_as_a_planned_one(network: Network, watch: Start):
    """No stream is in the intent."""
    intent = network.plan.with_suffix(".yaml")
    text = INTENT.format(port=network.server.port, period="1ms").partition("\nstreams:")[0]
    intent.write_text(text.replace("[p1, p2]", GIVEN) + "\nstreams: {}\n")
    network.cnc("plan", intent, "-o", network.plan)
    network.cnc("push", network.plan)
    before = network.kernel.states["p2"][GateState].taprio
    assert [each.gate_states for each in before.schedule.entries] == [0x40, 0x01]
    network.lose_schedule()
    assert network.status() == {"s1/p2": "differs: no gate control list (root qdisc noqueue)"}
    process = watch(*OFTEN, "--heal")
    process.wait_for("began", "drift", port="p2")
    assert process.wait_for("noted", "heal")["text"] == "restoring s1/p2"
    assert process.wait_for("noted", "heal")["text"] == "restored s1/p2"
    after = network.kernel.states["p2"][GateState].taprio
    assert after.schedule.entries == before.schedule.entries
    assert network.status() == {}


def test_while_somebody_else_holds_the_lock_nothing_is_healed(network: Network, watch: Start):
    process = watch(*OFTEN, "--heal")
    with network.server.connect() as operator:
        operator.lock("running")
        network.lose_schedule()
        process.wait_for("noted", "heal")
        failed = process.wait_for("noted", "heal")["text"]
        assert failed.startswith("failed, next attempt in 5 s at the earliest: ")
        assert network.kernel.states["p2"][GateState].taprio is None
        operator.unlock("running")
    process.wait_for("ended", "drift", port="p2")


def test_metrics_say_what_the_switch_says(
    network: Network, watch: Start, in_either_way: tuple[str, str]
):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        listen = f"127.0.0.1:{free.getsockname()[1]}"
    process = watch(*in_either_way, "--metrics", listen)

    def scraped() -> Callable[..., list[float]]:
        with urllib.request.urlopen(f"http://{listen}/metrics", timeout=10) as answer:
            text = answer.read().decode()
        samples = [s for f in text_string_to_metric_families(text) for s in f.samples]
        return lambda name, **labels: [
            s.value for s in samples if s.name == name and labels.items() <= s.labels.items()
        ]

    now = scraped()
    for name, labels, value in (
        ("tsn_switch_up", {"switch": "s1"}, 1),
        ("tsn_agent_up", {"switch": "s1"}, 1),
        ("tsn_switch_clock_offset_seconds", {"switch": "s1"}, 0),
        ("tsn_switch_tai_offset_seconds", {"switch": "s1"}, 37),
        ("tsn_port_agrees", {"switch": "s1", "port": "p2"}, 1),
        ("tsn_port_link_up", {"switch": "s1", "port": "p1"}, 1),
        ("tsn_port_config_change_errors_total", {"port": "p2"}, 0),
        ("tsn_port_overruns_total", {"port": "p2", "traffic_class": "6"}, 7),
        ("tsn_port_drops_total", {"port": "p2", "traffic_class": "6"}, 0),
        ("tsn_port_transmitted_frames_total", {"port": "p2", "traffic_class": "6"}, 6),
        ("tsn_port_backlog_frames", {"port": "p2", "traffic_class": "6"}, 0),
        ("tsn_rollout_unfinished", {}, 0),
    ):
        assert now(name, **labels) == [value], name
    assert now("tsn_condition") == []

    network.lose_schedule()
    process.wait_for("began", "drift", port="p2")
    now = scraped()
    assert now("tsn_port_agrees", port="p2") == [0]
    assert now("tsn_condition", kind="drift", switch="s1", port="p2") == [1]

    network.server.kill()
    process.wait_for("began", "unreachable", switch="s1")
    now = scraped()
    assert now("tsn_switch_up", switch="s1") == [0]
    assert now("tsn_port_agrees") == now("tsn_port_drops_total") == []
    network.server.start()


def test_a_service_manager_hears_that_it_lives_as_often_as_it_asked(network: Network, watch: Start):
    process = watch(*SELDOM, environment={"WATCHDOG_USEC": "2000000"})
    heard = [process.manager.recv(100) for _ in range(2)]
    assert heard == [b"WATCHDOG=1"] * 2


def test_a_rollout_that_nobody_ended_is_told_until_somebody_does(network: Network, watch: Start):
    with History(network.state_dir / FILE_NAME) as history:
        done = history.rollouts()[0]
        journal = history.begin(
            id="33333333-3333-4333-8333-333333333333",
            network=done.network,
            operator="ann@noc",
            what="push",
            plan=None,
            base_time_ns=0,
            confirm_by=done.confirm_by,
            switches=done.switches,
        )
        journal.decide()
        journal.close()
    process = watch(*OFTEN)
    assert "rollout 2 " in process.wait_for("began", "unfinished-rollout")["text"]
    network.cnc("push", "--resume")
    process.wait_for("ended", "unfinished-rollout")


def test_an_address_nobody_can_listen_at_is_an_input_error(network: Network, tmp_path: Path):
    done = CliRunner().invoke(
        cli.cnc,
        ["watch", str(network.plan), "--metrics", "192.0.2.1:9"],
        env=network.environment,
    )
    assert done.exit_code == 1
    assert "cannot serve metrics at 192.0.2.1:9" in str(done.exception)
    assert done.exception.exit_code == 2
