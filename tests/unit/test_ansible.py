"""The playbooks, as far as that needs no machine: tests/boot runs them against real ones."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path
from typing import Any

import pytest
import yaml
from jinja2 import Environment, FileSystemLoader

from cnc import intent

CHECKOUT = Path(__file__).parents[2]
ANSIBLE = CHECKOUT / "scripts/ansible"
ROLES = sorted(path.name for path in (ANSIBLE / "roles").iterdir())
PLAYBOOKS = ("bring-up.yml", "push.yml", "tear-down.yml")
EXAMPLE = ANSIBLE / "inventory.example.yml"
TOOLS = Path(sys.executable).parent


def run(tool: str, *arguments: str | Path, home: Path) -> subprocess.CompletedProcess[str]:
    """An Ansible program of this Python environment, in the playbooks' folder."""
    environment = {
        **os.environ,
        "PATH": f"{TOOLS}:{os.environ['PATH']}",
        "ANSIBLE_HOME": str(home),
        "ANSIBLE_NOCOLOR": "1",
        "XDG_CACHE_HOME": str(home),
    }
    return subprocess.run(
        [TOOLS / tool, *arguments],
        cwd=ANSIBLE,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def of_role(role: str, path: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ANSIBLE / "roles" / role / path).read_text())
    return found


def options(role: str) -> dict[str, dict[str, Any]]:
    """The documented variables of all entry points of a role."""
    specs = of_role(role, "meta/argument_specs.yml")["argument_specs"]
    return {
        name: option
        for entry in specs.values()
        for name, option in entry.get("options", {}).items()
    }


def test_ansible_lint_has_nothing_to_say_at_its_production_profile(tmp_path: Path) -> None:
    lint = run("ansible-lint", "--offline", "--profile=production", home=tmp_path)
    assert lint.returncode == 0, lint.stdout + lint.stderr


@pytest.mark.parametrize("playbook", PLAYBOOKS)
def test_playbooks_are_sound_with_the_example_inventory(playbook: str, tmp_path: Path) -> None:
    check = run("ansible-playbook", f"-i{EXAMPLE}", "--syntax-check", playbook, home=tmp_path)
    assert check.returncode == 0, check.stderr
    assert "WARNING" not in check.stderr


def test_the_example_inventory_is_of_the_network_that_it_names(tmp_path: Path) -> None:
    listing = run("ansible-inventory", f"-i{EXAMPLE}", "--list", home=tmp_path)
    assert listing.returncode == 0, listing.stderr
    inventory = json.loads(listing.stdout)
    variables = inventory["_meta"]["hostvars"]
    network = intent.load(CHECKOUT / "schedules/line3.yaml").network
    assert variables["cnc"]["intent"].endswith("/schedules/line3.yaml")
    assert set(inventory["switches"]["hosts"]) == set(network.bridges)
    assert set(inventory["end_stations"]["hosts"]) == set(network.end_stations)
    for name, bridge in network.bridges.items():
        assert bridge.management is not None
        assert variables[name]["ansible_host"] == bridge.management.address
        ports = {port.port for port in network.links if port.node == name}
        assert set(variables[name]["linuxptp_interfaces"]) == ports


@pytest.mark.parametrize("role", ROLES)
def test_every_default_is_documented_and_every_documented_default_is_true(role: str) -> None:
    defaults = of_role(role, "defaults/main.yml")
    documented = {
        name: option["default"] for name, option in options(role).items() if "default" in option
    }
    told_in_words = {"switch_netconf_users"}  # its default is made of other hosts' variables
    assert {n: v for n, v in defaults.items() if n not in told_in_words} == documented


@pytest.mark.parametrize("role", ROLES)
def test_every_variable_is_in_the_manual(role: str) -> None:
    manual = (CHECKOUT / "docs/operate/ansible.md").read_text()
    assert [name for name in options(role) if f"`{name}`" not in manual] == []


PROFILES = [
    (profile, timestamping)
    for profile in of_role("linuxptp", "vars/main.yml")["linuxptp_profiles"]
    for timestamping in ("hardware", "software")
]


@pytest.fixture(scope="module")
def ptp4l_configurations(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What role linuxptp would write: PROFILE-TIMESTAMPING.conf."""
    folder = tmp_path_factory.mktemp("ptp4l")
    play = {
        "hosts": "localhost",
        "connection": "local",
        "gather_facts": False,
        "vars": {
            **of_role("linuxptp", "defaults/main.yml"),
            **of_role("linuxptp", "vars/main.yml"),
            "linuxptp_interfaces": ["no-such-port"],
            "linuxptp_profile": "{{ item[0] }}",
            "linuxptp_timestamping": "{{ item[1] }}",
        },
        "tasks": [
            {
                "ansible.builtin.template": {
                    "src": str(ANSIBLE / "roles/linuxptp/templates/ptp4l.conf.j2"),
                    "dest": f"{folder}/{{{{ item | join('-') }}}}.conf",
                },
                "loop": PROFILES,
            }
        ],
    }
    (folder / "play.yml").write_text(json.dumps([play]))
    written = run("ansible-playbook", "-ilocalhost,", folder / "play.yml", home=folder)
    assert written.returncode == 0, written.stdout
    return folder


@pytest.mark.parametrize(("profile", "timestamping"), PROFILES)
def test_ptp4l_understands_every_profile(
    profile: str, timestamping: str, ptp4l_configurations: Path
) -> None:
    configuration = ptp4l_configurations / f"{profile}-{timestamping}.conf"
    assert f"time_stamping {timestamping}" in configuration.read_text()
    ptp4l = subprocess.run(
        ["/usr/sbin/ptp4l", "-q", "-m", "-f", configuration],
        capture_output=True,
        text=True,
        check=False,
    )
    # It has read it all, and misses the port.
    assert "failed to create a clock" in ptp4l.stdout + ptp4l.stderr
    assert "configuration file" not in ptp4l.stdout + ptp4l.stderr


def memberships(users: list[dict[str, Any]], members: dict[str, list[str]]) -> str:
    """What role switch sends to NACM for these users, where the groups have these members."""
    environment = Environment(
        loader=FileSystemLoader(ANSIBLE / "roles/switch/templates"),
        trim_blocks=True,
        autoescape=False,  # noqa: S701  as Ansible renders it
    )
    groups = {"group": [{"name": name, "user-name": names} for name, names in members.items()]}
    return environment.get_template("nacm.xml.j2").render(
        switch_netconf_users=users,
        switch_nacm_groups=groups,
        switch_groups=of_role("switch", "vars/main.yml")["switch_groups"],
    )


def test_users_in_their_group_and_users_who_are_not_listed_stay_as_they_are() -> None:
    users = [{"name": "tsn", "group": "tsn-operator"}]
    sent = memberships(users, {"tsn-operator": ["operator", "tsn"], "tsn-observer": ["observer"]})
    assert "<user-name" not in sent


def test_a_user_who_changes_groups_leaves_the_old_one() -> None:
    users = [{"name": "alice"}]
    sent = memberships(users, {"tsn-operator": ["alice"], "tsn-observer": []})
    operators, observers = sent.split("<name>tsn-observer</name>")
    assert '<user-name nc:operation="remove">alice</user-name>' in operators
    assert "<user-name>alice</user-name>" in observers


def test_a_user_who_is_to_go_is_in_no_group_afterwards() -> None:
    users = [{"name": "alice", "group": "tsn-operator", "state": "absent"}]
    sent = memberships(users, {"tsn-operator": ["alice"]})
    assert sent.count("alice") == 1
    assert '<user-name nc:operation="remove">alice</user-name>' in sent


def networkd_settings(text: str) -> dict[str, dict[str, str]]:
    """The sections of a file of systemd-networkd, without comments."""
    parser = ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(text)
    return {name: dict(parser[name]) for name in parser.sections()}


def bridge_text(name: str, **variables: object) -> str:
    """What the role bridge writes into the file of this name."""
    templates = Environment(
        loader=FileSystemLoader(ANSIBLE / "roles/bridge/templates"),
        autoescape=False,  # noqa: S701  as Ansible renders it
    )
    templates.filters["bool"] = bool
    given = {**of_role("bridge", "defaults/main.yml"), "bridge_ports": ["p1", "p2"], **variables}
    return templates.get_template(f"{name}.j2").render(given)


def bridge_file(name: str, **variables: object) -> dict[str, dict[str, str]]:
    """The sections of that file."""
    return networkd_settings(bridge_text(name, **variables))


def test_ports_off_the_default_vlan_are_those_of_the_inventory() -> None:
    unit = bridge_file(
        "tsn-leave-vlan.service", bridge_ports_off_default_vlan=["s2", "s3"], bridge_default_pvid=5
    )
    assert unit["Service"]["ExecStart"] == "/usr/local/sbin/tsn-leave-vlan 5 s2 s3"


BRIDGE_FILES = sorted(path.name for path in (CHECKOUT / "scripts/debian/examples").iterdir())


@pytest.mark.parametrize("name", BRIDGE_FILES)
def test_the_example_of_the_package_is_what_the_playbook_writes(name: str) -> None:
    example = networkd_settings((CHECKOUT / "scripts/debian/examples" / name).read_text())
    if "Bridge" in example:
        example["Bridge"]["MulticastQuerier"] = "no"  # the kernel's default
    assert bridge_file(name) == example


def test_the_files_of_a_bridge_follow_the_inventory() -> None:
    netdev = bridge_file(
        "05-tsn-bridge.netdev",
        bridge_name="sw0",
        bridge_stp=True,
        bridge_default_pvid=0,
        bridge_multicast_querier=True,
    )
    assert netdev["NetDev"] == {"Name": "sw0", "Kind": "bridge"}
    assert netdev["Bridge"] == {
        "VLANFiltering": "yes",
        "MulticastSnooping": "yes",
        "MulticastQuerier": "yes",
        "STP": "yes",
        "DefaultPVID": "none",
    }
    off = bridge_text("05-tsn-bridge.netdev", bridge_ports_off_default_vlan=["p2", "p1"])
    assert "# tsn-leave-vlan: p2 p1\n" in off  # from this the next run knows of them
    ports = bridge_file("05-tsn-bridge-ports.network", bridge_mtu_octets=9000, bridge_ports=["a"])
    assert (ports["Match"]["Name"], ports["Link"]["MTUBytes"]) == ("a", "9000")
    bridge = bridge_file("05-tsn-bridge.network", bridge_addresses=["10.0.0.1/24"])
    assert bridge["Network"]["Address"] == "10.0.0.1/24"
