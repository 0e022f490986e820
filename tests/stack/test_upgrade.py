"""The step from version 0.1.0 to this one, and back: real agents, NETCONF servers and histories.

    installed   by version            then
    1           0.1.0                 two rollouts; a third one that nobody confirms
    2           this one, over it     a rollback to the first rollout
    3           0.1.0, over it        a look at what it can read

The switch keeps its sysrepo and its state directories, the operator his files and his history.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.first_version import CHECKOUT, NEW, FirstVersion, Version, first_version
from tests.stack.netconfd_process import START_TIMEOUT_S, NetconfdProcess
from tests.stack.repository import Repository

IMPLIED_THEN = "recovery: none, talker-interference: none"
INTENT = """
name: small
defaults: {{rate: 1Gbps, propagation: 100ns, processing: {{min: 1us, max: 5us}}, clock-error: 1us,
            gate-margin: 0ns,
  user: operator, netconf-port: {port}}}
classes:
  cyclic: {{traffic-class: 6, priority: 6, dscp: 46, role: scheduled}}
  best-effort: {{traffic-class: 0, priority: 0, dscp: 0, role: best-effort}}
switches:
  s1: {{ports: [p1, p2], management: 127.0.0.1}}
end-stations: [talker, listener]
links: [[talker/eth0, s1/p1], [s1/p2, listener/eth0]]
streams:
  f: {{talker: talker, listeners: [listener], period: {period}, payload: 100B, max-latency: 500us}}
"""
UNCONFIRMED = """
<config xmlns="urn:ietf:params:xml:ns:netconf:base:1.0">
  <interfaces xmlns="urn:ietf:params:xml:ns:yang:ietf-interfaces"><interface>
    <name>p1</name><type xmlns:t="urn:ietf:params:xml:ns:yang:iana-if-type">t:ethernetCsmacd</type>
    <description>nobody confirms this</description>
  </interface></interfaces>
</config>
"""
DATASTORES = ("running", "startup")

pytestmark = pytest.mark.timeout(600)


class Switch:
    """A switch with the ports p1 and p2 in memory, whose version may change."""

    def __init__(self, directory: Path) -> None:
        self.repository = Repository(directory / "sysrepo", f"tsnupgrade{os.getpid()}x")
        self.server = NetconfdProcess(directory / "netconfd")
        self._directory = directory

    def install(self, version: Version) -> None:
        """What the package's services do before the daemons start."""
        version.install_modules(self.repository.environment)

    def allow_operator(self, version: Version) -> None:
        command = [version.yang / "access-control", "--operator", "operator"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    @contextmanager
    def running(self, version: Version) -> Iterator[None]:
        """The daemons of this version; they are stopped as for an upgrade."""
        agent = self._start_agent(version)
        self.server.command = [str(version.programs / "tsn-netconfd")]
        self.server.start()
        self.server.arguments = ["--listen", f"127.0.0.1:{self.server.port}"]
        try:
            yield
        finally:
            if self.server.alive:
                self.server.stop()
            agent.terminate()
            assert agent.wait(START_TIMEOUT_S) == 0

    def _start_agent(self, version: Version) -> subprocess.Popen[bytes]:
        address = f"\0{self.repository.shm_prefix}"
        with (
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager,
            (self._directory / "agent.log").open("ab") as log,
        ):
            manager.bind(address)
            command = [version.programs / "tsn-agent", "--rehearse", "p1,p2"]
            command += ["--state-dir", self._directory / "agent"]
            environment = os.environ | {"NOTIFY_SOCKET": f"@{address[1:]}"}
            process = subprocess.Popen(command, env=environment, stderr=log)
            ready, _, _ = select.select([manager], [], [], START_TIMEOUT_S)
            if not ready:
                process.kill()
                pytest.fail(Path(log.name).read_text())
        return process

    def data(self) -> dict[str, str]:
        """Everything that is configured, by datastore."""
        return {
            datastore: subprocess.run(
                ["sysrepocfg", "--export", "--datastore", datastore, "--format", "xml"],
                capture_output=True,
                text=True,
                check=True,
            ).stdout
            for datastore in DATASTORES
        }

    def revisions(self) -> dict[str, str]:
        """The revision of each implemented module."""
        listing = subprocess.run(
            ["sysrepoctl", "--list"], capture_output=True, text=True, check=True
        ).stdout
        rows = [[cell.strip() for cell in line.split("|")] for line in listing.splitlines()]
        return {row[0]: row[1] for row in rows if len(row) > 3 and "I" in row[2]}


@dataclass
class Operator:
    """Somebody with plan files and a history, who has one version of `cnc` or the other."""

    directory: Path
    environment: dict[str, str] = field(default_factory=dict)

    def run(self, version: Version, *words: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [version.programs / "cnc", *map(str, words)],
            cwd=self.directory,
            env={**os.environ, **self.environment},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def cnc(self, version: Version, *words: object) -> str:
        done = self.run(version, *words)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def learn(self, switch: Switch) -> None:
        """Take the switch's host key; write an intent for each period, `fast` and `slow`."""
        server = switch.server
        (self.directory / "known_hosts").write_text(
            f"[127.0.0.1]:{server.port} {server.host_key.with_suffix('.pub').read_text()}"
        )
        self.environment = {
            "CNC_IDENTITY": str(server.client_key),
            "CNC_KNOWN_HOSTS": str(self.directory / "known_hosts"),
            "CNC_STATE_DIR": str(self.directory / "history"),
            "XDG_CONFIG_HOME": str(self.directory),
        }
        for name, period in (("fast", "1ms"), ("slow", "2ms")):
            intent = INTENT.format(port=server.port, period=period)
            (self.directory / f"{name}.yaml").write_text(intent)


@dataclass(frozen=True)
class Machine:
    """Switch and operator after the upgrade, and what was configured before."""

    switch: Switch
    operator: Operator
    before: Mapping[str, str]


@pytest.fixture(scope="module")
def old() -> FirstVersion:
    return first_version()


@pytest.fixture(scope="module")
def upgraded(old: FirstVersion, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """Two rollouts of 0.1.0 and a commit that waits, then the modules of this version."""
    directory = tmp_path_factory.mktemp("upgrade")
    switch, operator = Switch(directory), Operator(directory)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in switch.repository.environment.items():
            patch.setenv(name, value)
        switch.install(old)
        switch.allow_operator(old)
        with switch.running(old):
            operator.learn(switch)
            for name in ("fast", "slow"):
                operator.cnc(old, "plan", f"{name}.yaml", "-o", f"{name}.json")
                operator.cnc(old, "push", f"{name}.json")
            before = switch.data()
            with switch.server.connect() as client:
                client.edit_config(target="candidate", config=UNCONFIRMED)
                client.commit(confirmed=True, timeout="600", persist="1")
            assert switch.data() != before
            # A server that is stopped undoes it; one that dies leaves that to the next.
            os.kill(switch.server.pid, signal.SIGKILL)
            switch.server.wait()
        switch.install(NEW)
        yield Machine(switch, operator, before)
        switch.repository.forget_shared_memory()


@pytest.fixture
def running(upgraded: Machine) -> Iterator[Machine]:
    """With the daemons of this version."""
    with upgraded.switch.running(NEW):
        yield upgraded


def test_a_new_controller_pushes_to_an_older_switch_on_request_alone(
    old: FirstVersion, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The agent of 0.1.0 carries out a commit however late it comes."""
    switch, operator = Switch(tmp_path), Operator(tmp_path)
    for name, value in switch.repository.environment.items():
        monkeypatch.setenv(name, value)
    switch.install(old)
    switch.allow_operator(old)
    with switch.running(old):
        operator.learn(switch)
        for words in (("doctor", "fast.yaml"), ("push", "fast.yaml")):
            done = operator.run(NEW, *words)
            assert done.returncode == 1
            told = " ".join((done.stdout + done.stderr).split())
            assert "its agent applies a commit however late it comes" in told
            assert "--without-deadline" in told
        operator.cnc(NEW, "push", "fast.yaml", "--without-deadline")
        operator.cnc(NEW, "status", "fast.yaml")
        assert "apply-before" not in str(switch.data())
    switch.repository.forget_shared_memory()


def test_the_modules_are_those_of_this_version(upgraded: Machine, old: FirstVersion):
    ours = upgraded.switch.revisions()
    for module in ("tsn-linux", "tsn-netconf-server"):
        text = (NEW.yang / f"{module}.yang").read_text()
        assert f"revision {ours[module]} " in text
        assert f"revision {ours[module]} " not in (old.yang / f"{module}.yang").read_text()
    of_subscriptions = {"ietf-subscribed-notifications", "ietf-yang-push"}
    assert {*of_subscriptions, "tsn-netconf-server-deviations"} <= ours.keys()


def test_the_new_server_undoes_what_nobody_confirmed_and_keeps_all_other_data(running: Machine):
    assert "nobody confirms this" not in str(running.before)
    assert running.switch.data() == running.before


def test_the_switch_runs_the_plan_that_was_pushed(running: Machine):
    assert "running" in running.operator.cnc(NEW, "status", "slow.json")


def test_a_switch_that_boots_after_the_upgrade_runs_the_plan_that_was_pushed(upgraded: Machine):
    upgraded.switch.repository.forget_shared_memory()
    with upgraded.switch.running(NEW):
        upgraded.operator.cnc(NEW, "status", "slow.json")


@pytest.mark.parametrize("intent", ["line3", "line5", "ring6"])
def test_intents_and_plans_of_the_first_version_are_read(
    old: FirstVersion, tmp_path: Path, intent: str
):
    operator = Operator(tmp_path)
    source = old.schedules / f"{intent}.yaml"
    operator.cnc(old, "plan", source, "-o", "plan.json")
    operator.cnc(NEW, "show", "plan.json", "--svg", "plan.svg")
    checked = json.loads(operator.run(NEW, "check", "plan.json", "--json").stdout)
    found = {(each["code"], each["where"]) for each in checked["violations"]}
    # Links were exact for the first version, and control was counted as it leaves.
    of_times = {"bound", "deadline", "precedence", "overlap", "fifo"}
    of_times |= {"gate-window", "gate-guard", "gate-exclusive"}
    operator.cnc(NEW, "check", source)
    if intent != "ring6":
        assert {code for code, _ in found} <= of_times
        return
    # It asks for preemption of ports with full offload, which nothing configured then: a push is
    # refused unless the ports preempt. The plan allows for no piece of a frame before its own.
    # Two copies of a frame started far apart: what a cut costs was in no promise.
    late = {(code, name) for code in ("deadline", "bound") for name in ("axis1-set", "axis2-set")}
    assert late | {("gate-window", "s5/s4"), ("gate-window", "s5/s6")} <= found
    assert {code for code, _ in found - late} <= of_times


def test_rollouts_of_the_first_version_are_told_and_can_be_brought_back(running: Machine):
    operator = running.operator
    rollouts = json.loads(operator.cnc(NEW, "history", "--json"))
    assert [(each["number"], each["phase"]) for each in rollouts] == [
        (2, "done"),
        (1, "done"),
    ]
    operator.cnc(NEW, "history", "1", "--json")
    operator.cnc(NEW, "rollback", "1")
    operator.cnc(NEW, "status", "fast.json")


def test_the_first_version_goes_on_where_this_one_stopped_or_says_why_not(
    upgraded: Machine, old: FirstVersion
):
    switch, operator = upgraded.switch, upgraded.operator
    # With what the first version left out, the plan is the one that it made, but for the time that
    # frames take on the slowest link: windows are a nanosecond longer.
    slow = (operator.directory / "slow.yaml").read_text()
    as_then = slow.replace("gate-margin: 0ns,", f"gate-margin: 0ns, {IMPLIED_THEN},")
    (operator.directory / "as-then.yaml").write_text(as_then)
    with switch.running(NEW):
        operator.cnc(NEW, "plan", "as-then.yaml", "-o", "new.json")
        operator.cnc(NEW, "push", "new.json")
    data, revisions = switch.data(), switch.revisions()
    switch.install(old)
    assert switch.revisions() == revisions, "an older file replaced a newer module"
    with switch.running(old):
        assert switch.data() == data
        for words in (("status", "new.json"), ("history",), ("status", "slow.json")):
            done = operator.run(old, *words)
            refused = done.returncode != 0 and ("newer" in done.stderr or "format" in done.stderr)
            is_another = words == ("status", "slow.json") and "interval_ns=1137" in done.stdout
            assert done.returncode == 0 or refused or is_another, done.stdout + done.stderr
            assert "Traceback" not in done.stderr
        # The modules know the instant, and this agent does not.
        operator.cnc(NEW, "push", "fast.yaml", "--without-deadline")
        assert "apply-before" not in str(switch.data())


def test_a_clone_without_history_says_so(tmp_path: Path):
    """As CI may have it: nothing is built, and nothing is left out in silence."""
    clone = tmp_path / "clone"
    source = f"file://{CHECKOUT}"
    subprocess.run(["git", "clone", "--quiet", "--depth", "1", source, clone], check=True)
    (clone / ".venv").mkdir()
    (clone / ".venv" / "wheels").symlink_to(tmp_path)
    done = subprocess.run(
        [clone / "scripts" / "upgrade-fixture"],
        env={**os.environ, "TSN_CACHE": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert f"git -C {clone} fetch --unshallow" in done.stderr
