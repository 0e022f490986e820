"""`yang/install`: what it brings to an empty sysrepo, and to one that has modules already.

A switch may have IEEE's own module of gate control lists already, whose limits no unconfigured port
keeps, or that of version 0.1, which had other limits under the same revision.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from agent.datastore.subscriptions import Datastore
from agent.mechanisms.gates.model import GateEntry, GateSchedule, GateState
from tests.stack.repository import SHARED_MEMORY
from tests.stack.sysrepo_client import (
    BASE_TIME_S,
    BRIDGE_PORT,
    GATES,
    HALF_AND_HALF,
    INTERFACES,
    Client,
    gated,
)
from tests.stack.yang_modules import (
    DEVIATIONS,
    STANDARD,
    UNSUPPORTED,
    YANG,
    as_of_first_version,
    listed_modules,
    wanted_modules,
)


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """An empty sysrepo repository for this process and its children."""
    prefix = f"tsnyang{os.getpid()}x"
    monkeypatch.setenv("SYSREPO_REPOSITORY_PATH", str(tmp_path / "repository"))
    monkeypatch.setenv("SYSREPO_SHM_PREFIX", prefix)
    yield tmp_path / "repository"
    for segment in SHARED_MEMORY.glob(f"{prefix}*"):
        segment.unlink()


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False)


def installed() -> dict[str, tuple[str, str]]:
    """Module to revision and features, for what sysrepo has installed."""
    rows = [
        [cell.strip() for cell in line.split("|")]
        for line in run("sysrepoctl", "--list").stdout.splitlines()
        if line.count("|") > 5
    ]
    return {row[0]: (row[1], row[6]) for row in rows if "I" in row[2]}


def files_of(repository: Path) -> dict[Path, int]:
    """The schema files sysrepo keeps, and when each was written."""
    return {f: f.stat().st_mtime_ns for f in (repository / "yang").iterdir()}


@pytest.mark.usefixtures("repository")
def test_install_brings_every_module_and_its_features():
    result = run(YANG / "install")

    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    now = installed()
    assert {name: now[name][1].split() for name in wanted_modules()} == wanted_modules()


def test_a_second_install_changes_nothing(repository):
    run(YANG / "install")
    before = files_of(repository)

    assert run(YANG / "install").returncode == 0

    assert files_of(repository) == before


def copy_with_revision(tmp_path: Path, revision: str) -> Path:
    """A copy of `yang/` whose `tsn-linux` has another revision."""
    copy = shutil.copytree(YANG, tmp_path / "yang")
    module = copy / "tsn-linux.yang"
    module.write_text(re.sub(r"  revision [\d-]+ ", f"  revision {revision} ", module.read_text()))
    return copy


@pytest.mark.usefixtures("repository")
def test_install_replaces_an_older_revision(tmp_path):
    run(copy_with_revision(tmp_path, "2020-01-01") / "install")
    assert installed()["tsn-linux"][0] == "2020-01-01"

    assert run(YANG / "install").returncode == 0

    assert installed()["tsn-linux"][0] > "2020-01-01"


@pytest.mark.usefixtures("repository")
def test_install_leaves_a_newer_revision_in_place(tmp_path):
    run(copy_with_revision(tmp_path, "2999-01-01") / "install")

    assert run(YANG / "install").returncode == 0

    assert installed()["tsn-linux"][0] == "2999-01-01"


def bridge_port_with(tmp_path: Path, *, enabled: bool) -> subprocess.CompletedProcess[str]:
    """Configure a port with two nodes of the standard, the first of which the agent applies."""
    bridge_port = {
        "traffic-class": {"traffic-class-table": {"number-of-traffic-classes": 2}},
        "use-dei": True,
    }
    return configure(tmp_path, UNCONFIGURED | {"enabled": enabled, BRIDGE_PORT: bridge_port})


@pytest.mark.usefixtures("sysrepo_repository")
def test_an_update_drops_stored_configuration_that_never_had_an_effect(tmp_path):
    assert run("sysrepoctl", "--uninstall", UNSUPPORTED).returncode == 0
    stored = bridge_port_with(tmp_path, enabled=True)
    assert (stored.returncode, stored.stderr) == (0, "")

    result = run(YANG / "install")

    assert result.returncode == 0
    assert "removed from running, because the agent does not apply it" in result.stderr
    assert "<use-dei>true</use-dei>" in result.stderr
    (port,) = running_interfaces()
    assert port[BRIDGE_PORT] == {
        "traffic-class": {"traffic-class-table": {"number-of-traffic-classes": 2}}
    }


@pytest.mark.usefixtures("sysrepo_repository")
def test_an_update_removes_that_a_port_is_down_and_says_so(tmp_path):
    assert run("sysrepoctl", "--uninstall", UNSUPPORTED).returncode == 0
    assert bridge_port_with(tmp_path, enabled=False).returncode == 0

    result = run(YANG / "install")

    assert result.returncode == 0, result.stderr
    assert "removed from running, because the agent does not apply it" in result.stderr
    assert "<enabled>false</enabled>" in result.stderr
    (interface,) = running_interfaces()
    assert interface["name"] == UNCONFIGURED["name"]
    assert "enabled" not in interface


def running_interfaces() -> list[dict]:
    shown = run("sysrepocfg", "--export", "--format", "json", "--module", "ietf-interfaces")
    return json.loads(shown.stdout)["ietf-interfaces:interfaces"]["interface"]


@pytest.mark.usefixtures("repository")
def test_install_enables_a_feature_somebody_disabled():
    run(YANG / "install")
    run("sysrepoctl", "--change", "ieee802-dot1q-sched", "--disable-feature", "scheduled-traffic")

    assert run(YANG / "install").returncode == 0

    assert installed()["ieee802-dot1q-sched"][1] == "scheduled-traffic"


@pytest.mark.usefixtures("repository")
def test_a_failed_install_says_so_and_leaves_nothing_behind(tmp_path):
    copy = shutil.copytree(YANG, tmp_path / "yang")
    (copy / "tsn-linux.yang").write_text("module tsn-linux { nonsense; }")

    result = run(copy / "install")

    assert result.returncode == 1
    assert "tsn-linux" in result.stderr
    assert "install failed" in result.stderr
    assert not set(listed_modules()) & set(installed())


def test_install_refuses_arguments_it_does_not_know():
    result = run(YANG / "install", "--serach", "x")

    assert result.returncode == 2
    assert "usage: yang/install [--search DIR]" in result.stderr


# What a vendor's bridge has for gate control lists, in the order of their imports.
VENDOR_MODULES = {
    "ietf-interfaces": [],
    "iana-if-type": [],
    "ieee802-types": [],
    "ieee802-dot1q-types": [],
    "ieee802-dot1q-bridge": [],
    "ieee802-dot1q-sched": ["scheduled-traffic"],
    "ieee802-dot1q-sched-bridge": [],
}
INTERFACE_GATES = "ieee802-dot1dc-sched-if:gate-parameter-table"
UNCONFIGURED = {"name": "p2", "type": "iana-if-type:ethernetCsmacd"}
PLAIN_LIST = {
    "admin-control-list": {"gate-control-entry": list(HALF_AND_HALF)},
    "admin-cycle-time": {"numerator": 1, "denominator": 1000},
}


def install_as_vendor(directory: Path) -> None:
    """Install the published modules of `directory`, and none of ours."""
    arguments: list[str | Path] = []
    for module, features in VENDOR_MODULES.items():
        arguments += ["--install", directory / f"{module}.yang"]
        arguments += [word for feature in features for word in ("--enable-feature", feature)]
    result = run("sysrepoctl", *arguments, "--search-dirs", directory)
    assert result.returncode == 0, result.stderr


@pytest.fixture
def empty_repository(sysrepo_repository):
    """A switch without any of the modules of `modules.txt`."""
    sysrepo_repository.forget_shared_memory()
    shutil.rmtree(sysrepo_repository.path)
    return sysrepo_repository


@pytest.fixture
def vendor_repository(empty_repository):
    """A switch that had IEEE's own modules before ours came."""
    install_as_vendor(STANDARD)
    return empty_repository


def configure(tmp_path: Path, *interfaces: dict) -> subprocess.CompletedProcess[str]:
    """Make these interfaces the whole running configuration, with sysrepo's own tool."""
    file = tmp_path / "interfaces.json"
    file.write_text(json.dumps({"ietf-interfaces:interfaces": {"interface": interfaces}}))
    return run("sysrepocfg", f"--import={file}", "--format", "json", "--datastore", "running")


BRIDGE_PORT_WITH_LIST = UNCONFIGURED | {BRIDGE_PORT: {GATES: PLAIN_LIST}}
INTERFACE_WITH_LIST = UNCONFIGURED | {INTERFACE_GATES: PLAIN_LIST}


@pytest.mark.usefixtures("vendor_repository")
def test_published_limits_refuse_every_port_until_install_repairs_them(tmp_path):
    for port in (UNCONFIGURED, BRIDGE_PORT_WITH_LIST):
        refused = configure(tmp_path, port)
        assert refused.returncode != 0
        assert "gate-parameter-table" in refused.stderr

    result = run(YANG / "install")

    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert DEVIATIONS in installed()
    for port in (UNCONFIGURED, BRIDGE_PORT_WITH_LIST, INTERFACE_WITH_LIST):
        accepted = configure(tmp_path, port)
        assert (accepted.returncode, accepted.stderr) == (0, "")


LIMITS = [
    ({"supported-list-max": 1}, "more gate control entries than supported-list-max"),
    ({"supported-interval-max": 499_999}, "time interval longer than supported-interval-max"),
    (
        {"supported-cycle-max": {"numerator": 1, "denominator": 1001}},
        "cycle time longer than supported-cycle-max",
    ),
]


@pytest.mark.usefixtures("vendor_repository")
def test_limits_that_a_port_states_hold_as_before(tmp_path):
    assert run(YANG / "install").returncode == 0

    for limit, reason in LIMITS:
        table = PLAIN_LIST | limit
        for port in ({BRIDGE_PORT: {GATES: table}}, {INTERFACE_GATES: table}):
            refused = configure(tmp_path, UNCONFIGURED | port)
            assert refused.returncode != 0
            assert reason in refused.stderr


def test_a_second_install_beside_published_modules_changes_nothing(vendor_repository):
    run(YANG / "install")
    before = files_of(vendor_repository.path), installed()

    assert run(YANG / "install").returncode == 0

    assert (files_of(vendor_repository.path), installed()) == before


def test_the_published_module_stays_in_place(vendor_repository):
    schema = vendor_repository.path / "yang" / "ieee802-dot1q-sched@2023-10-22.yang"
    before = schema.read_bytes()

    run(YANG / "install")

    assert schema.read_bytes() == before


@pytest.mark.usefixtures("vendor_repository")
def test_the_agent_brings_gates_to_a_port_of_published_modules(kernel):
    sysrepo = pytest.importorskip("sysrepo")
    assert run(YANG / "install").returncode == 0

    with sysrepo.SysrepoConnection() as connection, closing(Datastore(kernel)):
        client = Client(connection)
        client.replace(gated("p1"), UNCONFIGURED)

        assert kernel.states["p1"][GateState].taprio.schedule == GateSchedule(
            BASE_TIME_S * 10**9, 1_000_000, (GateEntry(2, 500_000), GateEntry(1, 500_000))
        )
        assert client.port("p1")[GATES]["oper-gate-states"] == 0b10
        assert client.read(INTERFACES, "running")


@pytest.mark.usefixtures("empty_repository")
def test_an_older_published_module_is_replaced_and_its_limits_with_it(tmp_path):
    vendor = shutil.copytree(STANDARD, tmp_path / "vendor")
    sched = vendor / "ieee802-dot1q-sched.yang"
    # It has no limit on the number of entries that could be replaced.
    text = sched.read_text().replace("revision 2023-10-22", "revision 2022-01-01")
    sched.write_text(text.replace("<= ../supported-list-max", "< ../supported-list-max"))
    install_as_vendor(vendor)

    result = run(YANG / "install")

    assert (result.returncode, result.stderr) == (0, "")
    now = installed()
    assert now["ieee802-dot1q-sched"][0] == "2023-10-22"
    assert DEVIATIONS in now
    assert configure(tmp_path, UNCONFIGURED).returncode == 0


def test_the_module_that_version_0_1_had_changed_stays_without_deviations(
    tmp_path, empty_repository
):
    install_as_vendor(as_of_first_version(tmp_path / "first-version"))
    schema = empty_repository.path / "yang" / "ieee802-dot1q-sched@2023-10-22.yang"
    before = schema.read_bytes()

    for _ in range(2):
        result = run(YANG / "install")
        assert (result.returncode, result.stdout, result.stderr) == (0, "", "")

    assert DEVIATIONS not in installed()
    assert schema.read_bytes() == before
    assert configure(tmp_path, BRIDGE_PORT_WITH_LIST).returncode == 0


@pytest.mark.usefixtures("sysrepo_repository")
def test_the_yang_library_names_the_deviations():
    shown = run(
        *("sysrepocfg", "--export", "--format", "json", "--datastore", "operational"),
        *("--xpath", "/ietf-yang-library:yang-library"),
    )

    (modules,) = json.loads(shown.stdout)["ietf-yang-library:yang-library"]["module-set"]
    deviations = {each["name"]: set(each.get("deviation", ())) for each in modules["module"]}
    # libyang lists them at the module of the tree's root, not at those of the deviated nodes.
    assert deviations["ietf-interfaces"] == {DEVIATIONS, UNSUPPORTED}
