"""The controller's package on a Debian: what runs with an intent and without, apart from what.

The tests follow one machine through its life, in this order.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.boot.container import Container
from tests.boot.machine import Machine
from tests.boot.switch import until

CHECKOUT = Path(__file__).parents[2]
CORE, SOCKET_UNIT = "tsn-cnc.service", "tsn-cnc-web.socket"
WORKERS = ("tsn-cnc-web@1.service", "tsn-cnc-web@2.service")
UNITS = (CORE, *WORKERS)
EXPOSURE_LIMIT = 3.0
PORT = 8443
# Without switches, as none can be reached here: a controller asks them before its first plan.
INTENT = """
name: pair
defaults: {rate: 1Gbps, propagation: 100ns, processing: {min: 1us, max: 5us}, clock-error: 1us,
           gate-margin: 0ns, talker-interference: none, gates: software, user: tsn}
classes:
  control:     {traffic-class: 7, priority: 7, dscp: 48, role: control, max-frame: 128B, burst: 1}
  cyclic:      {traffic-class: 6, priority: 6, dscp: 46, role: scheduled}
  best-effort: {traffic-class: 0, priority: 0, dscp: 0, role: best-effort, max-frame: 1522B}
switches: {}
end-stations: [t1, l1]
links: [[t1/eth0, l1/eth0]]
streams:
  one: {talker: t1, listeners: [l1], class: cyclic, period: 1ms, payload: 100B, max-latency: 1ms}
"""
# Who is refused for an unknown token has reached the core.
REACHES_CORE = """
import asyncio
from pathlib import Path
from cnc.service.channel import connected
from cnc.service.refused import CallRefused
async def ask():
    async with connected(Path("/run/tsn-cnc/socket")) as channel:
        await channel.call("who", {}, token="nobody's", source="test")
try:
    asyncio.run(ask())
except CallRefused as refused:
    print(refused.code.value)
"""


class Controller:
    """The machine, and what systemd says of the units on it."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def install(self, package: Path) -> None:
        self.machine.put(package, f"/root/{package.name}")
        self.machine.run(f"DEBIAN_FRONTEND=noninteractive dpkg -i /root/{package.name}")

    def property(self, unit: str, name: str) -> str:
        return self.machine.run(f"systemctl show --value -p {name} {unit}").stdout.strip()

    def states(self) -> dict[str, str]:
        """Each unit, and whether it is active."""
        return {unit: self.property(unit, "ActiveState") for unit in (*UNITS, SOCKET_UNIT)}

    def as_user(self, unit: str, command: str) -> int:
        """What becomes of a command in the place of a unit's process: its files, network, user."""
        pid, user = self.property(unit, "MainPID"), self.property(unit, "User")
        entered = f"nsenter -t {pid} -m -n setpriv --reuid {user} --regid {user} --clear-groups"
        return self.machine.run(f"{entered} {command}", check=False).code

    def knock(self) -> str:
        """What the port answers to a TLS handshake and a request, or the error."""
        script = (
            "import ssl, urllib.request as r; c = ssl._create_unverified_context(); "
            f"print(r.urlopen('https://localhost:{PORT}/.well-known/host-meta', context=c, "
            "timeout=60).status)"
        )
        done = self.machine.run(f'python3 -c "{script}"', check=False)
        return done.stdout.strip() or done.stderr.strip().splitlines()[-1]


@pytest.fixture(scope="module")
def kind() -> type[Machine]:
    """Whatever the machines of other tests are: it needs neither gates nor clocks."""
    return Container


@pytest.fixture(scope="module")
def controller(boot: Callable[..., Machine], cnc_package: Path) -> Controller:
    """A bare Debian with the package."""
    machine = boot("controller").wait()
    machine.wait_booted()
    # It has no network, and would wait two minutes for one.
    machine.run("systemctl mask systemd-networkd-wait-online.service")
    controller = Controller(machine)
    controller.install(cnc_package)
    return controller


def test_without_an_intent_nothing_runs_and_systemd_says_which_file_is_missing(
    controller: Controller,
):
    assert set(controller.states().values()) == {"inactive"}
    status = controller.machine.run(f"systemctl status {CORE}", check=False).stdout
    assert "ConditionPathExists=/etc/cnc/network.yaml was not met" in status
    assert "README.Debian" in status
    assert controller.machine.wait_booted() == "running"


def test_cnc_is_there_for_everybody_with_its_manual_pages(controller: Controller):
    as_nobody = "setpriv --reuid nobody --regid nogroup --clear-groups"
    example = controller.machine.run(f"cd /tmp && {as_nobody} env HOME=/tmp cnc --version").stdout
    assert example.startswith("cnc")
    for page in ("cnc.1", "cnc-plan.1", "cnc-serve.1", "tsn-probe.1"):
        text = controller.machine.run(f"zcat /usr/share/man/man1/{page}.gz").stdout
        assert ".SH DESCRIPTION" in text


def test_with_an_intent_the_controller_answers(controller: Controller):
    machine = controller.machine
    machine.run("ssh-keygen -q -t ed25519 -N '' -f /etc/cnc/id_ed25519")
    machine.run("chown cnc: /etc/cnc/id_ed25519 && touch /etc/cnc/known_hosts")
    machine.write("/etc/cnc/network.yaml", INTENT.encode())
    machine.run(f"systemctl start {CORE}")
    until(lambda: set(controller.states().values()) == {"active"}, "all units")
    assert controller.knock() == "200"


def test_each_unit_is_exposed_no_more_than_promised(controller: Controller):
    controller.machine.put(CHECKOUT / "scripts" / "check-units", "/root/check-units")
    done = controller.machine.run(f"python3 /root/check-units --json /root/x {' '.join(UNITS)}")
    print(done.stdout)
    measured = controller.machine.json("cat /root/x")
    assert set(measured) == set(UNITS)
    assert max(measured.values()) <= EXPOSURE_LIMIT


@pytest.mark.parametrize("worker", WORKERS)
@pytest.mark.parametrize("secret", ["/etc/cnc/id_ed25519", "/var/lib/cnc", "/etc/cnc/network.yaml"])
def test_a_worker_sees_no_key_and_no_database(controller: Controller, worker: str, secret: str):
    assert controller.machine.run(f"ls -d {secret}").code == 0
    assert controller.as_user(worker, f"ls {secret}") != 0


def test_a_worker_has_no_network_but_the_port_that_it_was_given(controller: Controller):
    for worker in WORKERS:
        pid = controller.property(worker, "MainPID")
        interfaces = controller.machine.json(f"nsenter -t {pid} -n ip -json link show")
        assert [each["ifname"] for each in interfaces] == ["lo"]


def test_workers_reach_the_controller_and_nobody_else_does(controller: Controller):
    machine = controller.machine
    machine.write("/opt/ask.py", REACHES_CORE.encode())
    ask = "/usr/lib/tsn-cnc/bin/python -P /opt/ask.py"
    told = {
        user: machine.run(
            f"setpriv --reuid {user} --regid {group} --clear-groups {ask}", check=False
        ).stdout.strip()
        for user, group in (("cnc-web", "cnc-web"), ("nobody", "nogroup"))
    }
    assert told == {"cnc-web": "unauthenticated", "nobody": ""}


def test_what_the_controller_keeps_is_its_own(controller: Controller):
    listed = controller.machine.run(
        "find /var/lib/cnc /var/lib/tsn-cnc-web /etc/cnc -printf '%p %u:%g %m\\n'"
    ).stdout
    entries = dict(line.split(" ", 1) for line in listed.splitlines())
    assert entries["/var/lib/cnc"] == "cnc:cnc 700"
    assert entries["/var/lib/tsn-cnc-web"] == "cnc-web:cnc-web 700"
    assert entries["/etc/cnc"] == "root:cnc 750"
    assert entries["/var/lib/tsn-cnc-web/tls.key"] == "cnc-web:cnc-web 600"
    assert entries["/etc/cnc/id_ed25519"] == "cnc:cnc 600"


def test_no_token_is_in_the_journal(controller: Controller):
    token = controller.machine.run("cat /var/lib/cnc/admin.token").stdout.strip()
    assert token
    assert token not in controller.machine.run("journalctl --no-pager -b").stdout


def test_an_admin_of_the_machine_makes_tokens(controller: Controller):
    as_cnc = "setpriv --reuid cnc --regid cnc --clear-groups env CNC_STATE_DIR=/var/lib/cnc"
    made = controller.machine.run(f"{as_cnc} cnc token add eve --role viewer").stdout
    assert made.strip()
    assert "eve" in controller.machine.run(f"{as_cnc} cnc token list").stdout


@pytest.mark.parametrize("unit", UNITS)
def test_who_is_killed_is_started_again_and_workers_with_the_controller(
    controller: Controller, unit: str
):
    before = {each: controller.property(each, "MainPID") for each in UNITS}
    controller.machine.run(f"kill -KILL {before[unit]}")
    until(
        lambda: (
            controller.property(unit, "MainPID") not in {before[unit], "0"}
            and controller.property(unit, "ActiveState") == "active"
        ),
        f"another process of {unit}",
    )
    until(lambda: set(controller.states().values()) == {"active"}, "all units")
    after = {each: controller.property(each, "MainPID") for each in UNITS}
    another = {each for each in UNITS if before[each] != after[each]}
    assert another == ({*UNITS} if unit == CORE else {unit})
    assert controller.knock() == "200"


def test_an_intent_that_is_wrong_is_told_once_and_not_tried_again(controller: Controller):
    machine = controller.machine
    machine.write("/etc/cnc/network.yaml", b"name: [\n")
    machine.run(f"systemctl restart {CORE}", check=False)
    assert controller.property(CORE, "ActiveState") == "failed"
    told = machine.run(f"journalctl --no-pager -b -u {CORE} -n 20").stdout
    assert "/etc/cnc/network.yaml" in told
    machine.write("/etc/cnc/network.yaml", INTENT.encode())
    machine.run(f"systemctl start {CORE}")
    until(lambda: set(controller.states().values()) == {"active"}, "all units")


def test_who_stops_the_controller_stops_its_workers_and_nobody_wakes_them(controller: Controller):
    controller.machine.run(f"systemctl stop {CORE}")
    assert set(controller.states().values()) == {"inactive"}
    assert "refused" in controller.knock()
    assert set(controller.states().values()) == {"inactive"}
    controller.machine.run(f"systemctl start {CORE}")
    until(lambda: set(controller.states().values()) == {"active"}, "all units")


def test_after_another_installation_new_processes_run_with_the_state_of_before(
    controller: Controller, cnc_package: Path
):
    before = {each: controller.property(each, "MainPID") for each in UNITS}
    token = controller.machine.run("cat /var/lib/cnc/admin.token").stdout
    controller.install(cnc_package)
    until(lambda: set(controller.states().values()) == {"active"}, "all units")
    assert not set(before.values()) & {controller.property(each, "MainPID") for each in UNITS}
    assert controller.machine.run("cat /var/lib/cnc/admin.token").stdout == token
    assert controller.knock() == "200"


def test_removal_keeps_what_an_operator_has_made_and_purging_does_not(controller: Controller):
    machine = controller.machine
    machine.run("DEBIAN_FRONTEND=noninteractive dpkg --remove tsn-cnc")
    assert machine.run("ls /var/lib/cnc/admin.token /etc/cnc/network.yaml").code == 0
    assert machine.run("command -v cnc", check=False).code != 0
    assert "refused" in controller.knock()
    machine.run("DEBIAN_FRONTEND=noninteractive dpkg --purge tsn-cnc")
    gone = "/var/lib/cnc /var/lib/tsn-cnc-web /run/tsn-cnc /etc/cnc /etc/default/tsn-cnc"
    assert machine.run(f"ls -d {gone} 2>/dev/null", check=False).stdout == ""


def test_purging_leaves_what_a_watcher_of_the_playbooks_uses(tmp_path: Path):
    script = (CHECKOUT / "scripts/debian/tsn-cnc.postrm").read_text(encoding="utf-8")
    root = tmp_path / "root"
    for path in ("etc/cnc", "var/lib/cnc", "var/lib/tsn-cnc-web", "etc/systemd/system"):
        (root / path).mkdir(parents=True)
    (root / "etc/systemd/system/cnc-watch.service").touch()
    for place in ("/etc/", "/var/", "/run/"):
        script = script.replace(f" {place}", f" {root}{place}").replace(
            f"={place}", f"={root}{place}"
        )
    ran = subprocess.run(
        ["sh", "-s", "purge"], input=script, capture_output=True, text=True, check=True
    )
    assert "cnc-watch.service" in ran.stderr
    left = {path.name for path in (root / "etc", root / "var/lib") for path in path.iterdir()}
    assert left == {"cnc", "systemd"}
