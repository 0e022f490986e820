"""A script that builds its Mininet network by itself is read, and never run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cnc.errors import InputError
from cnc.model import Forwarding, PortRef
from cnc.testbed.lab import mininet

Script = Callable[[str], Path]


@pytest.fixture
def script(tmp_path: Path) -> Script:
    def write(text: str) -> Path:
        file = tmp_path / "net.py"
        file.write_text(text)
        return file

    return write


def built(*lines: str) -> str:
    """A script whose function builds a network by these lines."""
    body = "".join(f"    {line}\n" for line in lines)
    return (
        f"from mininet.net import Mininet\ndef net_of_mine():\n    net = Mininet()\n{body}"
        "    net.start()\nif __name__ == '__main__':\n    net_of_mine()\n"
    )


def test_nodes_and_links_of_a_script_become_an_intent_and_nothing_is_run(
    script: Script, tmp_path: Path
):
    ran = tmp_path / "ran"
    file = script(
        f"import os\nopen({str(ran)!r}, 'w')\n"
        + built(
            "fast = {'bw': 100}",
            "for i in range(1, 3):",
            "    switch = net.addSwitch(f's{i}', failMode='standalone')",
            "    host = net.addHost('h%d' % i, ip='10.0.0.%d/8' % i)",
            "    net.addLink(host, switch, delay='1ms', **fast)",
            "net.addController('c0')",
            "net.addLink('s1', 's2')",
            "net.get('h1').cmd('touch it')",
        )
    )
    imported = mininet.read(file)
    network = imported.intent.network
    assert [*network.bridges] == ["s1", "s2"]
    assert [*network.end_stations] == ["h1", "h2"]
    cable = network.links[PortRef("h1", "h1-eth0")]
    assert (cable.rate_bps, cable.propagation_ns) == (100_000_000, 1_000_000)
    assert PortRef("s1", "s1-eth2") in network.links
    assert any("option ip is ignored" in line for line in imported.ignored)
    assert any("option failMode is ignored" in line for line in imported.ignored)
    assert not ran.exists()


def test_nodes_in_lists_and_dictionaries_and_functions_of_the_script_are_followed(script: Script):
    file = script(
        "NAMES = ('a', 'b')\n"
        "def host(net, name, number=7):\n    return net.addHost(f'{name}{number:02}')\n"
        + built(
            "hosts = [host(net, each) for each in NAMES]",
            "switches = {}",
            "for key in NAMES:",
            "    switches[key] = net.addSwitch('s' + key.upper())",
            "first, second = hosts",
            "net.addLink(first, switches['a'], port2=5)",
            "net.addLink(second, switches['a'])",
            "if len(hosts) == 2:",
            "    net.addLink(switches['a'], switches['b'])",
        )
    )
    links = mininet.read(file).intent.network.links
    assert {str(port) for port in links if port.node == "sA"} == {
        "sA/sA-eth5",
        "sA/sA-eth6",
        "sA/sA-eth7",
    }
    assert PortRef("a07", "a07-eth0") in links


def test_a_script_without_functions_is_read_with_what_its_main_part_does(script: Script):
    file = script(
        "from mininet.net import Mininet\n"
        "if __name__ == '__main__':\n"
        "    net = Mininet(switch=None)\n"
        "    net.addLink(net.addHost('h1'), net.addSwitch('s1'))\n"
        "    net.start()\n"
        "    net.addHost('h2')\n"
    )
    assert [*mininet.read(file).intent.network.end_stations] == ["h1"]


def test_the_routers_of_ipmininet_route(script: Script):
    file = script(
        "from ipmininet.iptopo import IPTopo\n"
        "from ipmininet.ipnet import IPNet\n"
        "class Mine(IPTopo):\n"
        "    def build(self, *args, **kwargs):\n"
        "        r1, r2 = self.addRouters('r1', 'r2', use_v6=False)\n"
        "        h1 = self.addHost('h1')\n"
        "        self.addLinks((h1, r1), (r1, r2))\n"
        "        link = self.addLink(self.addHost('h2'), r2)\n"
        "        link[r2].addParams(ip='10.0.0.1/30')\n"
        "        super().build(*args, **kwargs)\n"
        "IPNet(topo=Mine()).start()\n"
    )
    intent = mininet.read(file).intent
    assert intent.network.forwarding is Forwarding.ROUTED
    assert [*intent.network.bridges] == ["r1", "r2"]
    assert intent.document["classes"]["cyclic"]["dscp"] == 48


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("net.addHost(sys.argv[1])", r"net\.py:4: addHost of a name that is known only when"),
        ("net.addLink(net.addHost('h0'), 'h9')", r"net\.py:4: a link of a node h9"),
        ("net.addHost('h1'); net.addSwitch('h1')", r"net\.py:4: a second node h1"),
        ("net.addStation('sta1')", r"net\.py:4: addStation: a lab has cables"),
    ],
)
def test_what_only_a_run_could_tell_is_refused_with_its_line(script: Script, line: str, told: str):
    with pytest.raises(InputError, match=told) as refusal:
        mininet.read(script(built(line)))
    assert refusal.value.hint


@pytest.mark.parametrize(
    ("first", "told"),
    [
        ("for i in range(int(sys.argv[1])):", "a loop over range"),
        ("while len(hosts) < 3:", "in a `while` loop"),
        ("if os.path.exists('x'):", "known only when the script runs"),
    ],
)
def test_a_loop_or_condition_that_only_a_run_could_tell_is_refused(
    script: Script, first: str, told: str
):
    file = script(built(first, "    net.addHost('h1')"))
    with pytest.raises(InputError, match=told):
        mininet.read(file)


@pytest.mark.parametrize(
    "line",
    [
        "name = 'x' * 10**9",
        "name = 'x' * 99999 * 99999",
        "name = '%0999999999d' % 1",
        "name = f'{1:0999999999}'",
        "name = '{:0999999999}'.format(1)",
        "name = list(range(10**12))",
        "name = [j for i in range(99999) for j in range(99999)]",
    ],
)
def test_a_short_script_does_not_make_a_long_text(script: Script, line: str):
    file = script(built(line, "net.addHost(name)"))
    with pytest.raises(InputError, match="known only when the script runs"):
        mininet.read(file)


def test_calls_without_an_end_are_refused(script: Script):
    file = script("def f(net):\n    f(net)\n" + built("f(net)", "net.addHost('h1')"))
    with pytest.raises(InputError, match=r"net\.py:2: calls 20 deep"):
        mininet.read(file)


def test_of_several_networks_one_is_chosen(script: Script):
    more = "def other():\n    net = Mininet()\n    net.addHost('lonely')\n"
    file = script(built("net.addLink(net.addHost('h1'), net.addSwitch('s1'))") + more)
    with pytest.raises(InputError, match="several networks") as refusal:
        mininet.read(file)
    assert refusal.value.hint == "choose with --topo: net_of_mine, other"
    assert [*mininet.read(file, "net_of_mine").intent.network.bridges] == ["s1"]
