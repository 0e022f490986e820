"""The package of this version over that of 0.1.0, on a Debian with systemd whose schedule runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.boot.emulated import Emulated
from tests.boot.switch import AGENT, BROKER, FILES, SERVER, Switch, until
from tests.first_version import first_version

VERSION = "dpkg-query -W -f '${Version}' tsn-switch"
BROKER_USER, SERVER_USER = "tsn-netconf-broker", "tsn-netconfd"
# 0.1.0 carries out a commit however late it comes.
WITHOUT_DEADLINE = "--without-deadline"
CONFIGURATION = "sysrepocfg --export --datastore startup --format xml"


@pytest.fixture(scope="module")
def switch(boot: Callable[..., Emulated], tmp_path_factory: pytest.TempPathFactory) -> Switch:
    """A switch of version 0.1.0 that runs a schedule; this version's `cnc` has pushed it."""
    old = first_version(with_package=True).package
    assert old is not None
    machine = boot("upgrade", files=FILES).wait()
    machine.wait_booted()
    switch = Switch(machine, tmp_path_factory.mktemp("controller"))
    switch.install(old)
    switch.enrol()
    switch.push("routed", WITHOUT_DEADLINE)
    until(lambda: switch.schedule().count("base-time") == 1, "the schedule's base time")
    return switch


def test_the_package_goes_over_the_first_version_and_back_and_no_port_is_touched(
    switch: Switch, package: Path
):
    old = first_version(with_package=True).package
    assert old is not None
    schedule, removed = switch.schedule(), switch.gates_removed()
    configuration = switch.machine.run(CONFIGURATION).stdout
    before = switch.machine.run(VERSION).stdout
    assert before.startswith("0.1.0+deb")
    newest = switch.machine.run(
        f"dpkg --compare-versions '{before}' lt '{debian_version(package)}'"
    )
    assert newest.code == 0
    for installed in (package, old):
        switch.install(installed)
        assert switch.machine.run(VERSION).stdout == debian_version(installed)
        for unit in (AGENT, SERVER):
            until(lambda: switch.property(unit, "ActiveState") == "active", unit)  # noqa: B023
        assert switch.schedule() == schedule
        assert switch.gates_removed() == removed
        assert switch.machine.run(CONFIGURATION).stdout == configuration
        if installed == package:
            assert owners(switch, "/var/lib/tsn-netconf-broker") == {BROKER_USER}
            assert owners(switch, "/var/lib/tsn-netconfd") == {SERVER_USER}
            assert switch.property(BROKER, "ActiveState") == "active"
        # The controller reaches it by the same host key, and finds its plan there.
        switch.push("routed", *([WITHOUT_DEADLINE] if installed == old else []))
        assert switch.gates_removed() == removed


def owners(switch: Switch, directory: str) -> set[str]:
    """Who owns the files in a directory, of which there must be some."""
    users = switch.machine.run(f"stat --format %U {directory}/*").stdout
    return set(users.split())


def debian_version(package: Path) -> str:
    """As dpkg has it, from the file's name."""
    return package.name.split("_")[1]
