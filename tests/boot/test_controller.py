"""The controller's package on a Debian: what runs with an intent and without, apart from what.

The tests follow one machine through its life, in this order.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.boot.container import Container
from tests.boot.controller import (
    ASKED,
    CORE,
    FILES,
    INTENT,
    STREAM,
    UNITS,
    WORKERS,
    Answer,
    Controller,
)
from tests.boot.machine import Machine
from tests.boot.switch import AGENT, SERVER, until

CHECKOUT = Path(__file__).parents[2]
COULDNT_CONNECT = 7  # CURLE_COULDNT_CONNECT
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


@pytest.fixture(scope="module")
def kind() -> type[Machine]:
    """Whatever the machines of other tests are: it needs neither gates nor clocks."""
    return Container


@pytest.fixture(scope="module")
def controller(
    boot: Callable[..., Container],
    package: Path,
    cnc_package: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Controller:
    """A bare Debian with the packages of controller and switch."""
    machine = boot("controller", files=FILES).wait()
    machine.wait_booted()
    controller = Controller(machine, tmp_path_factory.mktemp("operator"))
    controller.install(package)
    controller.install(cnc_package)
    until(lambda: controller.property(SERVER, "ActiveState") == "active", SERVER)
    return controller


@pytest.fixture(scope="module")
def cuc(controller: Controller) -> str:
    """The token of the CUC plc."""
    return controller.token("add", "plc-1", "--role", "cuc", "--cuc", "plc")


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


def test_with_an_intent_the_controller_answers_over_tls(controller: Controller):
    controller.enrol()
    controller.machine.run(f"systemctl start {CORE}")
    controller.until_active()
    controller.trust()
    assert controller.ask(controller.first_token(), "/api/v1/streams").status == 200


def test_a_stream_that_is_asked_for_by_curl_runs_on_the_switch(controller: Controller, cuc: str):
    put = controller.ask(cuc, STREAM, ASKED)
    assert put.status == 201, put.document
    until(lambda: controller.status_of(cuc, STREAM) == "configured", "its rollout")
    assert "s1/p2" in controller.running_ports()  # where its frames leave to the listener


def test_each_unit_is_exposed_no_more_than_the_agent(controller: Controller):
    controller.machine.put(CHECKOUT / "scripts" / "check-units", "/root/check-units")
    units = " ".join((*UNITS, AGENT))
    print(controller.machine.run(f"python3 /root/check-units --json /root/x {units}").stdout)
    measured = controller.machine.json("cat /root/x")
    of_agent = measured.pop(AGENT)
    assert set(measured) == set(UNITS)
    assert max(measured.values()) <= of_agent


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
    assert told == {"cnc-web": "unauthenticated", "nobody": "unavailable"}


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


def test_no_token_is_in_the_journal(controller: Controller, cuc: str):
    journal = controller.machine.run("journalctl --no-pager -b").stdout
    assert controller.first_token() not in journal
    assert cuc not in journal


@pytest.mark.parametrize("unit", UNITS)
def test_who_is_killed_is_started_again_and_workers_with_the_controller(
    controller: Controller, unit: str, cuc: str
):
    before = controller.processes()
    controller.machine.run(f"kill -KILL {before[unit]}")
    until(
        lambda: (
            controller.property(unit, "MainPID") not in {before[unit], "0"}
            and controller.property(unit, "ActiveState") == "active"
        ),
        f"another process of {unit}",
    )
    controller.until_active()
    after = controller.processes()
    another = {each for each in UNITS if before[each] != after[each]}
    assert another == ({*UNITS} if unit == CORE else {unit})
    assert controller.status_of(cuc, STREAM) == "configured"


def test_an_intent_that_is_wrong_is_told_once_and_not_tried_again(controller: Controller):
    machine = controller.machine
    machine.write("/etc/cnc/network.yaml", b"name: [\n")
    machine.run(f"systemctl restart {CORE}", check=False)
    assert controller.property(CORE, "ActiveState") == "failed"
    told = machine.run(f"journalctl --no-pager -b -u {CORE} -n 20").stdout
    assert "/etc/cnc/network.yaml" in told
    machine.write("/etc/cnc/network.yaml", INTENT.encode())
    machine.run(f"systemctl start {CORE}")
    controller.until_active()


def test_who_stops_the_controller_stops_its_workers_and_nobody_wakes_them(controller: Controller):
    controller.machine.run(f"systemctl stop {CORE}")
    assert set(controller.states().values()) == {"inactive"}
    assert controller.curl("/").returncode == COULDNT_CONNECT
    assert set(controller.states().values()) == {"inactive"}
    controller.machine.run(f"systemctl start {CORE}")
    controller.until_active()


@pytest.mark.parametrize("by", ["restart", "upgrade"])
def test_new_processes_run_with_the_state_of_before(
    controller: Controller, by: str, cuc: str, cnc_package: Path
):
    before, kept = controller.processes(), controller.ask(cuc, STREAM).document
    if by == "restart":
        controller.machine.run(f"systemctl restart {CORE}")
    else:
        controller.install(cnc_package)
    controller.until_active()
    assert not set(before.values()) & set(controller.processes().values())
    assert controller.ask(cuc, STREAM) == Answer(200, kept)


def test_removal_keeps_what_an_operator_has_made(controller: Controller):
    machine = controller.machine
    machine.run("DEBIAN_FRONTEND=noninteractive dpkg --remove tsn-cnc")
    assert machine.run("ls /var/lib/cnc/service.sqlite /etc/cnc/network.yaml").code == 0
    assert machine.run("command -v cnc", check=False).code != 0
    assert controller.curl("/").returncode == COULDNT_CONNECT


def test_purging_leaves_what_a_watcher_of_the_playbooks_uses_and_else_nothing(
    controller: Controller,
):
    machine, watcher = controller.machine, "/etc/systemd/system/cnc-watch.service"
    machine.run(f"touch {watcher}")
    said = machine.run("sh /var/lib/dpkg/info/tsn-cnc.postrm purge").stderr
    assert f"/etc/cnc and /var/lib/cnc stay, because others use them: {watcher}" in said
    assert machine.run("ls /var/lib/cnc/service.sqlite /etc/cnc/network.yaml").code == 0
    machine.run(f"rm {watcher} && DEBIAN_FRONTEND=noninteractive dpkg --purge tsn-cnc")
    gone = "/var/lib/cnc /var/lib/tsn-cnc-web /run/tsn-cnc /etc/cnc /etc/default/tsn-cnc*"
    assert machine.run(f"ls -d {gone} 2>/dev/null", check=False).stdout == ""
    assert controller.property(AGENT, "ActiveState") == "active"
