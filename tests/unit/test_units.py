"""The systemd units: valid, shut in, and in step with the programs that they start."""

from __future__ import annotations

import configparser
import json
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from agent.netconfd.system_calls import SystemCallFilter, Unavailable
from cnc.cli.serve import serve
from cnc.talker import DEFAULT_PATH
from cnc.talker.lateness import DIRECTORY

CHECKOUT = Path(__file__).parents[2]
UNITS = CHECKOUT / "scripts" / "systemd"
# Keeps the system calls that the first argument names, and becomes the program of the others.
FILTERED = """
import ctypes, os, sys

library = ctypes.CDLL("libseccomp.so.2")
library.seccomp_init.restype = ctypes.c_void_p
filter_ = ctypes.c_void_p(library.seccomp_init(0x0005_0001))  # EPERM (linux/seccomp.h)
for name in sys.argv[1].split():
    number = library.seccomp_syscall_resolve_name(name.encode())
    library.seccomp_rule_add_array(filter_, ctypes.c_uint32(0x7FFF_0000), number, 0, None)
ctypes.CDLL(None).prctl(38, *[ctypes.c_ulong(each) for each in (1, 0, 0, 0)])
assert library.seccomp_load(filter_) == 0
os.execv(sys.executable, [sys.executable, *sys.argv[2:]])
"""
SERVICES = sorted(unit.name for unit in UNITS.glob("*.service"))
DAEMONS = [name for name in SERVICES if name != "tsn-sysrepo.service"]
AGENT, BROKER, SERVER = "tsn-agent.service", "tsn-netconf-broker.service", "tsn-netconfd.service"
CLOCK = "tsn-clock.service"
CONTROLLER, WORKER = "tsn-cnc.service", "tsn-cnc-web@.service"
WORKERS_PORT = "tsn-cnc-web.socket"
DAEMONS_OF_A_SWITCH = [AGENT, BROKER, SERVER]


class Unit(configparser.RawConfigParser):
    """A unit file; of a key that is given more than once, the last value."""

    def __init__(self, path: Path) -> None:
        super().__init__(strict=False)
        self.read(path, encoding="utf-8")

    def optionxform(self, optionstr: str) -> str:
        return optionstr


def unit(name: str) -> Unit:
    return Unit(UNITS / name)


def check_units(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [CHECKOUT / "scripts" / "check-units", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )


def test_each_unit_is_exposed_by_3_at_most(tmp_path, capsys):
    result = check_units("--json", tmp_path / "exposure.json")

    with capsys.disabled():
        print(f"\n{result.stdout}", end="")
    assert result.returncode == 0, result.stdout + result.stderr
    measured = json.loads((tmp_path / "exposure.json").read_text())
    assert sorted(measured) == SERVICES
    assert max(measured.values()) <= 3.0


def test_a_unit_without_a_sandbox_is_refused(tmp_path):
    open_to_all = tmp_path / "open.service"
    open_to_all.write_text("[Service]\nExecStart=/bin/true\n")

    result = check_units(open_to_all)

    assert result.returncode == 1
    assert "above 3.0" in result.stdout


def test_a_unit_that_cannot_be_measured_is_no_success(tmp_path):
    result = check_units(tmp_path / "absent.service")

    assert result.returncode == 2
    assert "not measured: absent.service" in result.stderr


@pytest.mark.parametrize("name", DAEMONS)
def test_a_daemon_says_when_it_is_ready_and_that_it_lives_and_comes_back_when_killed(name):
    service = unit(name)["Service"]

    assert service["Type"] == "notify"
    assert service["WatchdogSec"] == "30"
    assert service["Restart"] == "always"
    assert service["RestartSec"] == "200ms"


@pytest.mark.parametrize("name", [CLOCK, *DAEMONS_OF_A_SWITCH])
def test_a_daemon_of_a_switch_is_started_again_however_often_it_failed(name):
    daemon = unit(name)

    assert daemon["Unit"]["StartLimitIntervalSec"] == "0"
    assert "StartLimitBurst" not in daemon["Unit"]
    # a pending confirmed commit goes back at the next start, so that must not be far off
    assert daemon["Service"]["RestartMaxDelaySec"] == "5s"


@pytest.mark.parametrize("name", SERVICES)
def test_no_service_takes_all_memory_or_all_processes(name):
    service = unit(name)["Service"]

    assert service["MemoryMax"].endswith(("M", "G"))
    assert int(service["TasksMax"]) > 0


@pytest.mark.parametrize("name", [BROKER, SERVER])
def test_there_may_be_a_task_and_three_descriptors_for_each_session_that_the_limits_allow(name):
    limits = (CHECKOUT / "yang" / "tsn-netconf-server.yang").read_text()
    most = re.search(r'leaf max-sessions \{.*?range "1\.\.(\d+)"', limits, re.DOTALL)

    service = unit(name)["Service"]
    assert int(service["TasksMax"]) > int(most[1])
    assert int(service["LimitNOFILE"]) > 3 * int(most[1])


@pytest.mark.parametrize("name", DAEMONS)
def test_a_daemon_is_nobody_else_and_cannot_become_root(name):
    service = unit(name)["Service"]

    of_controller = {"cnc-watch.service": "cnc", CONTROLLER: "cnc", WORKER: "cnc-web"}
    assert service["User"] == of_controller.get(name, name.partition(".")[0])
    assert service["NoNewPrivileges"] == "yes"


def test_the_agent_may_change_the_network_load_bpf_programs_and_nothing_else():
    service = unit(AGENT)["Service"]

    assert service["CapabilityBoundingSet"] == "CAP_NET_ADMIN CAP_BPF"
    assert service["AmbientCapabilities"] == service["CapabilityBoundingSet"]


def test_root_follows_no_link_that_an_agent_has_left_in_place_of_its_bpf_directory(tmp_path):
    (script,) = re.findall(r"ExecStartPre=.*/bin/sh -c '(.*)'", (UNITS / AGENT).read_text())
    directory, victim, log = tmp_path / "bpf", tmp_path / "victim", tmp_path / "log"
    victim.mkdir()
    directory.symlink_to(victim)
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("mount", "chown"):
        program = programs / name
        program.write_text(f'#!/bin/sh\nshift $(($# - 1))\necho {name} $(realpath "$1") >>{log}\n')
        program.chmod(0o755)
    subprocess.run(
        ["sh", "-c", script.replace("/run/tsn-agent/bpf", str(directory))],
        env={"PATH": f"{programs}:/usr/sbin:/usr/bin:/sbin:/bin"},
        check=True,
    )
    assert log.read_text() == f"mount {directory}\nchown {directory}\n"
    assert victim.is_dir()


def test_one_program_alone_may_set_the_clock_and_it_starts_before_those_that_count_on_it():
    may = {name: unit(name)["Service"].get("CapabilityBoundingSet", "") for name in SERVICES}

    assert [name for name, held in may.items() if "CAP_SYS_TIME" in held.split()] == [CLOCK]
    assert AGENT in unit(CLOCK)["Unit"]["Before"].split()


def test_talkers_of_one_group_may_tell_the_agent_how_late_they_are():
    agent = unit(AGENT)["Service"]
    directories = (CHECKOUT / "scripts" / "debian" / "tsn-switch.tmpfiles").read_text()
    users = (CHECKOUT / "scripts" / "systemd" / "tsn-switch.sysusers").read_text()

    assert f"d {DEFAULT_PATH.parent}/{DIRECTORY} 1775 {agent['User']} tsn-talker\n" in directories
    assert "g tsn-talker\n" in users


def test_the_agent_reaches_the_sockets_of_ptp_daemons():
    clock, agent = unit(CLOCK)["Service"], unit(AGENT)["Service"]

    assert agent["SupplementaryGroups"] == clock["User"]
    directories = (CHECKOUT / "scripts" / "debian" / "tsn-switch.tmpfiles").read_text()
    assert f"d {clock['ReadWritePaths']} 0770 {agent['User']} {clock['User']}\n" in directories


def test_the_agent_keeps_what_outlives_a_reboot_where_it_may_write_and_starts_without():
    agent = unit(AGENT)["Service"]
    directory = re.search(r"--durable-dir (\S+)", agent["ExecStart"])[1]

    assert f"-{directory}" in agent["ReadWritePaths"].split()
    assert "StateDirectory" not in agent
    directories = (CHECKOUT / "scripts" / "debian" / "tsn-switch.tmpfiles").read_text()
    assert f"d {directory} 0700 {agent['User']} {agent['Group']}\n" in directories


def test_what_parses_strangers_input_reaches_sysrepo_in_no_way_and_writes_one_directory():
    service = unit(SERVER)["Service"]

    assert "Group" not in service
    assert "SupplementaryGroups" not in service
    assert "ReadWritePaths" not in service
    assert service["ProtectSystem"] == "strict"
    assert service["StateDirectory"] == "tsn-netconfd"
    assert {"-/etc/sysrepo", "-/dev/shm", "-/var/lib/tsn-netconf-broker"} <= set(
        service["InaccessiblePaths"].split()
    )
    assert service["CapabilityBoundingSet"] == "CAP_NET_BIND_SERVICE"


def test_what_holds_sysrepo_reaches_no_network():
    service = unit(BROKER)["Service"]

    assert service["RestrictAddressFamilies"] == "AF_UNIX"
    assert service["PrivateNetwork"] == "yes"


def test_the_server_connects_where_the_broker_listens_for_its_user():
    broker, server = unit(BROKER)["Service"], unit(SERVER)["Service"]
    places = [
        re.search(r"%t/(\S+)/socket", service["ExecStart"])[1] for service in (broker, server)
    ]

    assert places == [broker["RuntimeDirectory"]] * 2
    assert f"--front-user {server['User']}" in broker["ExecStart"]
    assert broker["SupplementaryGroups"] == server["User"]


def test_when_memory_runs_out_the_server_ends_before_the_broker_then_the_clock_and_the_agent_last():
    adjust = {
        name: int(unit(name)["Service"].get("OOMScoreAdjust", 0))
        for name in [CLOCK, *DAEMONS_OF_A_SWITCH]
    }

    assert sorted(adjust, key=adjust.__getitem__) == [AGENT, CLOCK, BROKER, SERVER]
    assert unit(SERVER)["Service"]["OOMPolicy"] == "continue"


def test_a_stop_of_the_server_leaves_the_broker_and_a_restart_of_the_broker_restarts_the_server():
    broker, server = unit(BROKER)["Unit"], unit(SERVER)["Unit"]

    assert server["PartOf"] == BROKER
    # one that fails at first would cancel the server's start for good
    assert server["Wants"] == BROKER
    assert BROKER not in server["Requires"].split()
    assert SERVER not in " ".join(broker.values()).split()


def test_sysrepo_is_set_up_before_the_agent_and_that_before_the_broker_and_that_before_netconf():
    agent, broker, server = (unit(name)["Unit"] for name in DAEMONS_OF_A_SWITCH)

    assert "tsn-sysrepo.service" in agent["After"].split()
    assert AGENT in broker["After"].split()
    assert BROKER in server["After"].split()


def test_the_agent_serves_before_an_interface_comes_up_and_after_rules_are_flushed():
    agent = unit("tsn-agent.service")["Unit"]

    assert agent["Before"] == agent["Wants"] == "network-pre.target"
    assert "nftables.service" in agent["After"].split()


@pytest.mark.parametrize("name", [AGENT, BROKER])
def test_sysrepos_shared_memory_outlives_each_of_its_users(name):
    service = unit(name)["Service"]

    assert service["RemoveIPC"] == "no"
    assert service["Group"] == "sysrepo"
    assert service["UMask"] == "0007"


def test_the_modules_are_given_to_the_user_that_writes_them():
    start = unit("tsn-sysrepo.service")["Service"]["ExecStart"]

    assert f"--owner {unit(BROKER)['Service']['User']}" in start


def test_a_web_worker_reaches_neither_the_switches_nor_their_key_nor_the_database():
    service = unit(WORKER)["Service"]
    controller = unit(CONTROLLER)["Service"]

    assert service["PrivateNetwork"] == "yes"
    assert service["RestrictAddressFamilies"] == "AF_UNIX"
    assert service["User"] != controller["User"]
    assert not {"Group", "SupplementaryGroups", "ReadWritePaths"} & set(service)
    assert service["CapabilityBoundingSet"] == ""
    hidden = set(service["InaccessiblePaths"].split())
    assert hidden == {"-/etc/cnc", f"-/var/lib/{controller['StateDirectory']}"}
    assert "/etc/cnc/id_ed25519" in controller["Environment"]


def test_what_holds_the_key_of_the_switches_listens_on_no_port():
    service = unit(CONTROLLER)["Service"]

    assert service["SocketBindDeny"] == "any"
    assert service["CapabilityBoundingSet"] == ""
    assert "--workers 0" in service["ExecStart"]


def test_a_web_worker_connects_where_the_controller_listens_for_its_group():
    controller, worker = unit(CONTROLLER)["Service"], unit(WORKER)["Service"]
    listens = re.search(r"--worker-socket %t/(\S+)/socket", controller["ExecStart"])[1]
    connects = re.search(r"--core %t/(\S+)/socket", worker["ExecStart"])[1]

    assert listens == connects == controller["RuntimeDirectory"]
    assert f"--worker-group {worker['User']} " in controller["ExecStart"]
    assert controller["SupplementaryGroups"] == worker["User"]


def test_workers_share_a_port_that_systemd_holds_and_end_with_the_controller_alone():
    controller, worker, port = (unit(name)["Unit"] for name in (CONTROLLER, WORKER, WORKERS_PORT))

    assert unit(WORKER)["Service"]["Sockets"] == WORKERS_PORT
    assert controller["Wants"].split() == ["tsn-cnc-web@1.service", "tsn-cnc-web@2.service"]
    assert worker["PartOf"] == port["PartOf"] == CONTROLLER
    # systemd opens no port for workers that run already: it closes with them, or not at all
    assert not {"Requires", "BindsTo", "StopPropagatedFrom"} & {*worker, *port}


@pytest.mark.parametrize("name", [CONTROLLER, WORKER, WORKERS_PORT])
def test_without_an_intent_nothing_of_the_controller_starts(name):
    intent = unit(CONTROLLER)["Service"]["ExecStart"].split()[2]

    assert unit(name)["Unit"]["ConditionPathExists"] == intent == "/etc/cnc/network.yaml"


def test_a_controller_is_started_again_however_often_it_failed_unless_its_intent_is_wrong():
    for name in (CONTROLLER, WORKER):
        assert unit(name)["Unit"]["StartLimitIntervalSec"] == "0"
        assert unit(name)["Service"]["RestartMaxDelaySec"] == "5s"
    assert unit(CONTROLLER)["Service"]["RestartPreventExitStatus"] == "2"


def test_the_controller_is_started_with_options_that_it_has():
    program, command, *words = unit(CONTROLLER)["Service"]["ExecStart"].split()
    assert (program, command) == ("/usr/bin/cnc", serve.name)

    given, _, _ = serve.make_parser(click.Context(serve)).parse_args(words[:-1])

    assert words[-1] == "$TSN_CNC_OPTIONS"
    assert set(given) == {"file", "workers", "worker_socket", "worker_group"}
    assert given["file"] == unit(CONTROLLER)["Unit"]["ConditionPathExists"]


def test_every_user_of_a_unit_is_made_by_sysusers():
    made = {
        fields[1]
        for file in UNITS.glob("*.sysusers")
        for line in file.read_text().splitlines()
        if (fields := line.split())[:1] == ["u"]
    }

    assert {unit(name)["Service"]["User"] for name in DAEMONS} <= made


def system_calls(group: str) -> set[str]:
    """Those of one of systemd's groups, or the one of this name."""
    if not group.startswith("@"):
        return {group}
    command = ["systemd-analyze", "syscall-filter", "--no-pager", group]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    names = [line.strip() for line in listed.splitlines()[1:]]
    return {call for name in names if name and name[0] != "#" for call in system_calls(name)}


def permitted_system_calls(name: str) -> set[str]:
    """What the lines of SystemCallFilter in a unit add up to (systemd.exec(5))."""
    permitted: set[str] = set()
    for value in re.findall(r"^SystemCallFilter=(.*)$", (UNITS / name).read_text(), re.MULTILINE):
        calls = {call for group in value.strip("~").split() for call in system_calls(group)}
        permitted = permitted - calls if value.startswith("~") else permitted | calls
    return permitted


@pytest.mark.parametrize("scenario", ["polite", "confined"])
def test_the_server_starts_sessions_with_the_system_calls_of_its_unit(scenario):
    try:
        SystemCallFilter()
    except Unavailable as missing:
        pytest.skip(str(missing))
    calls = " ".join(sorted(permitted_system_calls(SERVER)))
    done = subprocess.run(
        [sys.executable, "-c", FILTERED, calls, "-m", "tests.unit.toy_scenarios", scenario],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert "Error" not in done.stderr, done.stderr
