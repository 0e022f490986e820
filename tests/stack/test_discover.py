"""`cnc discover` asks a real agent and NETCONF server; lldpd's client is a script."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import jsonschema
import pytest
import yaml
from click.testing import CliRunner

from agent.datastore.subscriptions import Datastore
from agent.mechanisms import MECHANISMS
from agent.memory_ports import MemoryPorts, rehearsal_ports
from agent.switch import Switch
from cnc import cli, intent
from cnc.model import Forwarding, PortRef
from cnc.planner import plan
from tests.stack.lldp_client import neighbor

PORTS = """ports: {p1: {}, p2: {gate-control-list: {cycle: 500us, entries: [
    {open: [control, cyclic], for: 200us}, {open: 0xa0, for: 100us}, {open: 0x81, for: 200us}]}}}"""
CYCLIC = "  cyclic:      {traffic-class: 6, priority: 6, dscp: 46, role: scheduled}\n"
PICTURES = """\
  pictures:    {traffic-class: 5, priority: 5, dscp: 34, role: scheduled,
                windows: {share: 20%, every: 1ms, after: 300us}}
"""
SCHEMA = Path(__file__).parents[2] / "docs/reference/json" / "discover.schema.json"


@pytest.fixture
def switch(shared_netconfd, kernel, lldpd, tmp_path):
    """The switch's address, once its agent and server run; the environment has its keys."""
    with closing(Datastore(kernel)):
        yield reached(shared_netconfd, tmp_path)


@pytest.fixture
def bridging(shared_netconfd, lldpd, tmp_path):
    """As `switch`, of which all ports are in a bridge."""
    ports = Switch(MemoryPorts(MECHANISMS, rehearsal_ports(("p1", "p2"), "switch0")))
    with closing(Datastore(ports)):
        yield reached(shared_netconfd, tmp_path)


def reached(server, tmp_path: Path) -> str:
    """The address of a server; `tmp_path` gets the keys that `discover` uses."""
    key = server.host_key.with_suffix(".pub").read_text()
    (tmp_path / "known_hosts").write_text(f"[127.0.0.1]:{server.port} {key}")
    (tmp_path / "client-key").symlink_to(server.client_key)
    return f"127.0.0.1:{server.port}"


@pytest.fixture
def discover(tmp_path):
    def run(*argv: object):
        keys = ["--identity", tmp_path / "client-key", "--known-hosts", tmp_path / "known_hosts"]
        words = [*map(str, ("discover", "--user", "operator", *keys, *argv))]
        return CliRunner().invoke(cli.cnc, words)

    return run


def test_a_draft_of_a_switch_and_whom_it_hears_is_an_intent(switch, lldpd, discover, tmp_path):
    lldpd(
        neighbor("p1", "talker", "02:00:00:00:01:00"),
        neighbor("p2", "listener", "02:00:00:00:02:00"),
    )
    written = tmp_path / "cell.yaml"
    done = discover(switch, "-o", written)
    assert done.exit_code == 0, done.output
    assert f"wrote {written}: switches 1, end stations 2, links 2" in done.output
    found = intent.load(written)
    assert found.name == "cell"
    (name,) = found.network.bridges
    assert found.network.bridges[name].management.user == "operator"
    assert found.network.links[PortRef(name, "p1")].target == PortRef("talker", "eth0")
    assert found.network.links[PortRef(name, "p1")].rate_bps == 1_000_000_000
    checked = CliRunner().invoke(cli.cnc, ["check", str(written)])
    assert checked.exit_code == 0, checked.output


def test_a_switch_that_bridges_is_drafted_with_its_bridge(bridging, lldpd, discover, tmp_path):
    lldpd(
        neighbor("p1", "talker", "02:00:00:00:01:00"),
        neighbor("p2", "listener", "02:00:00:00:02:00"),
    )
    written = tmp_path / "cell.yaml"
    done = discover(bridging, "-o", written)
    assert done.exit_code == 0, done.output
    network = intent.load(written).network
    assert network.forwarding is Forwarding.BRIDGED
    assert [each.bridge_device for each in network.bridges.values()] == ["switch0"]
    assert "no neighbour is heard" not in written.read_text()


def test_lists_that_a_switch_runs_are_planned_by_its_draft(switch, lldpd, discover, tmp_path):
    """As they came by NETCONF, from an intent that is lost."""
    lldpd(
        neighbor("p1", "talker", "02:00:00:00:01:00"),
        neighbor("p2", "listener", "02:00:00:00:02:00"),
    )
    first, taken = tmp_path / "first.yaml", tmp_path / "taken.yaml"
    assert discover(switch, "-o", first).exit_code == 0
    text = first.read_text().replace("ports: [p1, p2]", PORTS).replace(CYCLIC, CYCLIC + PICTURES)
    lost = tmp_path / "lost.yaml"
    lost.write_text(text)
    keys = ["--identity", tmp_path / "client-key", "--known-hosts", tmp_path / "known_hosts"]
    words = ["push", lost, *keys, "--state-dir", tmp_path]
    pushed = CliRunner().invoke(cli.cnc, [*map(str, words)])
    assert pushed.exit_code == 0, f"{pushed.output}{pushed.exception}"
    done = discover(switch, "-o", taken)
    assert done.exit_code == 0, done.output
    assert plan(intent.load(taken)).gates == plan(intent.load(lost)).gates
    words = ["push", taken, "--dry-run", *keys, "--state-dir", tmp_path]
    assert "no change" in CliRunner().invoke(cli.cnc, [*map(str, words)]).output


def test_what_a_neighbour_sends_hides_no_other_neighbour(switch, lldpd, discover):
    lldpd(
        neighbor("p1", "\x00\x1b[2J\n- evil: ]]>]]>\ud800</data>\ufffe", "02:00:00:00:01:00"),
        neighbor("p2", "listener", "02:00:00:00:02:00"),
    )
    done = discover(switch)
    assert done.exit_code == 0, done.output
    assert set(yaml.safe_load(done.stdout)["end-stations"]) == {"J---evil-data", "listener"}


def test_a_switch_without_an_lldp_daemon_is_drafted_without_cables(switch, discover):
    done = discover(switch, "--json")
    assert done.exit_code == 0, done.output
    data = json.loads(done.stdout)
    jsonschema.validate(data, json.loads(SCHEMA.read_text()))
    ((name, remarks),) = data["remarks"].items()
    assert data["intent"]["switches"][name]["ports"] == []
    assert remarks[0] == "no LLDP daemon answers there: its neighbours are unknown"


def test_who_does_not_answer_is_named_and_the_others_are_drafted(switch, lldpd, discover, tmp_path):
    lldpd(neighbor("p1", "talker", "02:00:00:00:01:00"))
    written = tmp_path / "cell.yaml"
    with (tmp_path / "known_hosts").open("a") as file:
        file.write(f"[127.0.0.1]:1 {Path(file.name).read_text().partition(' ')[2]}")
    done = discover(switch, "127.0.0.1:1", "-o", written)
    assert done.exit_code == 1
    assert "cannot reach the NETCONF server" in str(done.exception)
    assert "it is missing in the draft" in str(done.exception)
    assert "127.0.0.1:1 did not answer" in written.read_text()
    assert set(intent.load(written).network.end_stations) == {"talker"}


def test_where_nobody_answers_nothing_is_written(discover, tmp_path):
    (tmp_path / "known_hosts").write_text("")
    done = discover("127.0.0.1:1", "-o", tmp_path / "none.yaml")
    assert done.exit_code == 1
    assert "nothing was drafted" in str(done.exception)
    assert not (tmp_path / "none.yaml").exists()
