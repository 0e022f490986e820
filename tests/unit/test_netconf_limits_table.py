"""docs/SECURITY.md has all limits of the NETCONF server in one table, as they are."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from agent.netconfd import errors
from agent.netconfd.broker import server, sessions
from agent.netconfd.broker.events import config, log
from agent.netconfd.front import logins, ssh, trusted_hosts
from agent.netconfd.limits import Limits
from agent.netconfd.session import edit_config, filters, messages
from tests.unit.netconf_limits import default_container, limits, server_module

PAGE = Path(__file__).parents[2] / "docs" / "SECURITY.md"
SECTION = "## Limits of the NETCONF server\n"
UNITS = {
    None: "",
    "octets": "",
    "seconds": " s",
    "percent": " %",
    "mebibytes": " MiB",
    "centiseconds": " cs",
}
MIB = 2**20
# The ones that are not configurable, and where they are.
FIXED = {
    "channels of a connection": f"{ssh.MAX_CHANNELS}",
    "wrong passwords of a connection": f"{ssh.MAX_WRONG_PASSWORDS}",
    "passwords checked at once": f"{logins.MAX_PASSWORD_CHECKS}",
    "time for a wrong password": f"{logins.WRONG_PASSWORD_DELAY_S:g} s",
    "a file of keys": f"{logins.MAX_KEY_FILE_OCTETS // 1024} KiB",
    "tags and attributes in a request": f"{messages.MAX_MARKUP:,}",
    "attributes of an element, namespaces in scope": f"{messages.MAX_ATTRIBUTES}",
    "XPath that a filter is translated to": f"{filters.MAX_XPATH_OCTETS // MIB} MiB",
    "operators in an XPath filter": f"{filters.MAX_OPERATORS:,}",
    "namespaces that the nodes of an edit repeat": (
        f"{edit_config.MAX_REPEATED_OCTETS // MIB} MiB"
    ),
    "text of an error": f"{errors.MAX_TEXT_OCTETS // 1024} KiB",
    "edits that a notification of a configuration change names": f"{config.MAX_EDITS}",
    "log of notifications": f"{log.MAX_OCTETS // MIB} MiB",
    "nice value of a session's process": (
        f"{server.MAX_NICE}; of users who may commit {server.NICE_PER_SESSION} for each session "
        "that the user has already"
    ),
    "requests processed in sysrepo at a time": f"{sessions.MAX_CALLS} for each",
    "hosts without penalties after a login": (
        f"{trusted_hosts.MAX_TRUSTED_HOSTS}, {trusted_hosts.TRUST_S // 3600} h"
    ),
}


def rows():
    """Of the table: the name to the other cells."""
    section = PAGE.read_text().partition(SECTION)[2].partition("\n## ")[0]
    cells = [
        [cell.strip() for cell in line.strip("|").split(" |")]
        for line in section.splitlines()
        if line.startswith("| ")
    ]
    return {name: others for name, *others in cells[1:]}


def leaves(node, path=""):
    """The leaves and leaf-lists below a container, by their path."""
    for child in node.children():
        if child.keyword() == "container":
            yield from leaves(child, f"{path}{child.name()}/")
        else:
            yield path + child.name(), child


def configurable():
    (server,) = (each for each in server_module().children() if each.name() == "netconf-server")
    (limits,) = (child for child in server.children() if child.name() == "limits")
    return dict(leaves(limits))


def shown_default(leaf):
    if leaf.keyword() == "leaf-list":
        return ", ".join(leaf.defaults())
    default = int(leaf.default())
    if leaf.units() == "octets" and default % MIB == 0:
        return f"{default // MIB} MiB"
    return f"{default}{UNITS[leaf.units()]}"


def test_the_table_has_each_leaf_with_its_default():
    in_table = {
        name.strip("`"): default for name, (default, *_) in rows().items() if name.startswith("`")
    }
    assert in_table == {path: shown_default(leaf) for path, leaf in configurable().items()}


def test_each_limit_has_a_reason():
    table = rows()
    assert all(len(others) == 3 for others in table.values())
    assert [name for name, (_, reason, _) in table.items() if not reason] == []


def test_the_table_has_the_fixed_limits_as_they_are():
    fixed = {name: value for name, (value, *_) in rows().items() if not name.startswith("`")}
    assert fixed == FIXED


class Read(dict):
    """A container that keeps which of its members were read."""

    def __init__(self, container, read, path=""):
        super().__init__(container)
        self._read, self._path = read, path

    def __getitem__(self, name):
        value = super().__getitem__(name)
        if isinstance(value, Mapping):
            return Read(value, self._read, f"{self._path}{name}/")
        self._read.append(self._path + name)
        return value


def test_the_server_reads_each_leaf_into_a_field_of_its_own():
    read = []
    taken = Limits.from_json(Read(default_container(), read))
    assert sorted(read) == sorted(configurable())
    fields = vars(taken) | vars(taken.penalties)
    assert len(fields) - 1 == len(read)


def test_each_field_has_the_value_of_its_leaf():
    """No two leaves may be taken for each other, so each has a number of its own."""
    container = default_container()
    numbers = iter(range(1, 100))
    for part in (container, container["penalties"]):
        for name, value in part.items():
            if isinstance(value, int):
                part[name] = next(numbers)
    taken = Limits.from_json(container)
    for part, fields in ((container, taken), (container["penalties"], taken.penalties)):
        for name, value in part.items():
            if isinstance(value, int):
                (field,) = (each for each, number in vars(fields).items() if number == value)
                words = re.sub("-(timeout|percent|rate|share|penalty)$", "", name).split("-")
                assert [word for word in words if word not in field.split("_")] in (
                    [],
                    ["messages"],
                ), (name, field)


@pytest.mark.parametrize(
    ("memory_mib", "share", "sessions", "of_one_user"),
    [
        (64, 50, 16, 8),
        (512, 50, 32, 16),
        (512, 75, 48, 24),
        (1024, 50, 64, 32),
        (4096, 50, 256, 128),
        (65_536, 50, 256, 128),
    ],
)
def test_a_machine_with_little_memory_has_fewer_sessions(memory_mib, share, sessions, of_one_user):
    there = limits(sessions_memory_percent=share).on_a_machine_of(memory_mib * MIB)
    assert (there.max_sessions, there.max_sessions_per_user) == (sessions, of_one_user)


def test_numbers_of_sessions_that_the_memory_holds_are_as_configured():
    few = limits(max_sessions=3, max_sessions_per_user=2)
    assert few.on_a_machine_of(64 * MIB) == few
