"""A Mininet Topo becomes an intent; what the lab does not emulate is named."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from cnc import intent as intents
from cnc.errors import InputError
from cnc.model import Forwarding, Link, PortRef
from cnc.testbed.lab import mininet

SCHEDULES = Path(__file__).parents[2] / "schedules"
LINE = SCHEDULES / "mininet-line.py"

Write = Callable[..., Path]


@pytest.fixture
def topo(tmp_path: Path) -> Write:
    """Writes a file whose one Topo is built by the lines given, which may use `a` and `k`."""

    def write(*build: str, more: str = "", name: str = "net.py") -> Path:
        body = "".join(f"        {line}\n" for line in build or ("pass",))
        file = tmp_path / name
        file.write_text(
            "from mininet.topo import Topo\n"
            f"class Net(Topo):\n    def build(self, *a, **k):\n{body}{more}"
        )
        return file

    return write


def between(file: Path, *, options: str) -> str:
    """A file with two hosts and one link with these options."""
    file.write_text(
        "from mininet.topo import Topo\n"
        "class Net(Topo):\n"
        "    def build(self):\n"
        f"        self.addLink(self.addHost('h1'), self.addHost('h2'), {options})\n"
    )
    return str(file)


def one_link(file: Path, options: str) -> Link:
    between(file, options=options)
    return mininet.read(file).intent.network.links[PortRef("h1", "h1-eth0")]


def test_switches_hosts_and_links_are_taken_over_with_their_names_rates_and_delays():
    imported = mininet.read(LINE)
    network = imported.intent.network
    assert imported.intent.name == "mininet-line"
    assert [*network.bridges] == ["s1", "s2"]
    assert [*network.end_stations] == ["h1", "h2", "h3", "h4"]
    assert {
        f"{link.source} {link.target}": (link.rate_bps, link.propagation_ns)
        for link in network.links.values()
        if link.source < link.target
    } == {
        "h1/h1-eth0 s1/s1-eth1": (100_000_000, 100),
        "h2/h2-eth0 s1/s1-eth2": (100_000_000, 100),
        "h3/h3-eth0 s2/s2-eth1": (100_000_000, 100),
        "h4/h4-eth0 s2/s2-eth2": (100_000_000, 100),
        "s1/s1-eth3 s2/s2-eth3": (10_000_000, 2_000_000),
    }
    assert imported.shaped
    assert imported.ignored == []
    assert imported.intent.streams == {}


def test_nodes_whose_names_an_intent_does_not_take_get_others(topo: Write):
    imported = mininet.read(
        topo(
            "one, dotted = self.addSwitch('1'), self.addHost('h.10')",
            "self.addLink(one, dotted); self.addLink(self.addHost('h-10'), one)",
        )
    )
    network = imported.intent.network
    assert ([*network.bridges], [*network.end_stations]) == (["n1"], ["h-10", "h-10x"])
    assert {port.node for port in network.links} == {"n1", "h-10x", "h-10"}
    assert [line.partition(": ")[2] for line in imported.ignored] == [
        "node 1 is renamed to n1: a name here begins with a letter, without dots",
        "node h.10 is renamed to h-10x: a name here begins with a letter, without dots",
    ]


def test_switches_get_management_addresses_in_mininets_order():
    bridges = mininet.read(LINE, "line,11").intent.network.bridges
    reached = {name: bridge.management.address for name, bridge in bridges.items()}
    assert reached == {f"s{number}": f"10.99.0.{number}" for number in range(1, 12)}


def test_what_a_topo_does_not_say_is_as_in_the_example_of_three_switches():
    example = yaml.safe_load((SCHEDULES / "line3.yaml").read_text())
    document = mininet.read(LINE).intent.document
    assert document["defaults"] == example["defaults"]
    assert document["classes"] == {
        name: {key: value for key, value in its.items() if key != "dscp"}
        for name, its in example["classes"].items()
    }


def test_switches_bridge_as_those_of_mininet_do():
    assert mininet.read(LINE).intent.network.forwarding is Forwarding.BRIDGED


def test_the_yaml_says_the_same_network(tmp_path: Path):
    imported = mininet.read(LINE)
    file = tmp_path / "line.yaml"
    file.write_text(imported.text(LINE))
    assert intents.load(file) == imported.intent


def test_a_link_that_says_nothing_has_the_default_rate_and_asks_for_no_timed_wires(topo: Write):
    imported = mininet.read(topo("self.addLink(self.addHost('h1'), self.addSwitch('s1'))"))
    link = imported.intent.network.links[PortRef("s1", "s1-eth1")]
    assert (link.rate_bps, link.propagation_ns) == (1_000_000_000, 100)
    assert not imported.shaped


@pytest.mark.parametrize(
    ("options", "rate_bps", "propagation_ns"),
    [
        ("bw=10", 10_000_000, 100),
        ("bw=0.064", 64_000, 100),
        ("bw=40000", 40_000_000_000, 100),
        ("delay='5ms'", 1_000_000_000, 5_000_000),
        ("delay='0.5ms'", 1_000_000_000, 500_000),
        ("delay='10us'", 1_000_000_000, 10_000),
        ("delay='1 sec'", 1_000_000_000, 1_000_000_000),
        ("delay='250'", 1_000_000_000, 250_000),  # as tc: microseconds
        ("delay=250", 1_000_000_000, 250_000),
        ("delay='0ms'", 1_000_000_000, 0),
        ("bw=None, delay=None", 1_000_000_000, 100),
    ],
)
def test_bw_is_in_megabits_and_delay_as_tc_reads_it(
    tmp_path: Path, options: str, rate_bps: int, propagation_ns: int
):
    link = one_link(tmp_path / "net.py", options)
    assert (link.rate_bps, link.propagation_ns) == (rate_bps, propagation_ns)


@pytest.mark.parametrize(
    "options", ["bw=0", "bw=-1", "bw='10m'", "bw=True", "bw=float('nan')", "delay='-1ms'",
                "delay='5 parsecs'", "delay='fast'", "delay=''"],
)  # fmt: skip
def test_a_rate_or_delay_that_is_none_is_refused_with_its_link(tmp_path: Path, options: str):
    with pytest.raises(InputError, match=r"net\.py: link h1-h2: (bw|delay): found .*, expected"):
        one_link(tmp_path / "net.py", options)


def test_what_is_not_emulated_is_named_once_for_all_who_have_it(topo: Write):
    file = topo(
        "s = self.addSwitch('s1', dpid='1', protocols=None)",
        "for n in range(5):",
        "    h = self.addHost(f'h{n}', ip=f'10.0.0.{n}')",
        "    self.addLink(h, s, loss=1, jitter=0, params1={'ip': '10.1.0.1/8'})",
    )
    hosts = "h0, h1, h2 and 2 more"
    links = "h0-s1, h1-s1, h2-s1 and 2 more"
    assert mininet.read(file).ignored == [
        f"{file}: link option loss is ignored (not emulated): {links}",
        f"{file}: link option params1 is ignored (not emulated): {links}",
        f"{file}: switch option dpid is ignored (not emulated): s1",
        f"{file}: host option ip is ignored (the lab gives addresses of its own): {hosts}",
    ]


def test_a_tc_link_is_what_the_lab_has_and_another_class_is_named(topo: Write):
    file = topo(
        "from mininet.link import TCLink",
        "h, s = self.addHost('h1'), self.addSwitch('s1')",
        "self.addLink(h, s, cls=TCLink)",
        "self.addLink(h, s, cls=type('Radio', (), {}))",
    )
    assert mininet.read(file).ignored == [
        f"{file}: link option cls is ignored (not emulated): h1-s1"
    ]


def test_interfaces_may_be_named_and_numbered_by_the_topo(topo: Write):
    file = topo(
        "h, s = self.addHost('h1'), self.addSwitch('s1')",
        "self.addLink(h, s, intfName1='nic', port2=7)",
    )
    assert set(mininet.read(file).intent.network.links) == {
        PortRef("h1", "nic"),
        PortRef("s1", "s1-eth7"),
    }


def test_an_interface_name_too_long_for_linux_is_shortened_and_told(topo: Write):
    file = topo("self.addLink(self.addHost('headquarters'), self.addSwitch('s1'))")
    imported = mininet.read(file)
    assert PortRef("headquarters", "eth0") in imported.intent.network.links
    assert "headquarters-eth0 is renamed to eth0" in imported.ignored[0]


def test_the_judge_of_intents_refuses_what_no_intent_can_say(topo: Write):
    named = "self.addLink(self.addHost('h1'), self.addSwitch('s1'), intfName1='a/b')"
    with pytest.raises(InputError, match="expected a port written node/port"):
        mininet.read(topo(named))
    with pytest.raises(InputError, match=r"h1 without a link"):
        mininet.read(topo("self.addHost('h1')"))


def test_more_switches_than_management_addresses_are_refused(topo: Write):
    file = topo("[self.addSwitch(f's{n}') for n in range(1, 255)]")
    with pytest.raises(InputError, match="it has 254 switches"):
        mininet.read(file)


@pytest.mark.parametrize(
    ("file_name", "lab"),
    [("My net_1.py", "My-net_1"), ("3-tier.py", "topo-3-tier"), (f"{'n' * 80}.py", "n" * 63)],
)
def test_the_lab_is_named_after_the_file(topo: Write, file_name: str, lab: str):
    assert mininet.read(topo(name=file_name)).intent.name == lab


def test_arguments_are_those_of_mininets_own_option():
    assert len(mininet.read(LINE, "line,3,hosts=1").intent.network.end_stations) == 3


def test_topos_come_before_classes_and_a_topo_that_is_made_before_them(topo: Write):
    two = "class Other(Topo):\n    pass\n"
    assert mininet.read(topo(more=two + "topos = {'net': lambda n=1: Net()}\n"), "net,4")
    assert mininet.read(topo(more=two + "it = Net()\n"))


def test_a_choice_is_left_to_the_operator(topo: Write):
    file = topo(more="class Other(Topo):\n    pass\n")
    with pytest.raises(InputError, match="several topologies") as refused:
        mininet.read(file)
    assert refused.value.hint == "choose with --topo: Net, Other"
    assert mininet.read(file, "Other").intent.network.bridges == {}


@pytest.mark.parametrize(
    ("more", "chosen", "message"),
    [
        ("", "line", "no topology line"),
        ("it = Net()\n", "it,1", "takes no arguments"),
        ("topos = {'it': dict}\n", None, "it returned a dict"),
        ("Net = None\n", None, "defines no Mininet topology"),
        ("from mininet.topo import LinearTopo\nNet = None\n", None, "defines no Mininet topology"),
        ("import no_such_module\n", None, r"net\.py:5: ModuleNotFoundError.*no_such_module"),
        ("def broken(:\n", None, r"net\.py:5: SyntaxError"),
        ("raise SystemExit(3)\n", None, r"net\.py:5: SystemExit: 3"),
        ("import os\nos._exit(3)\n", None, "ended with 3 and without a topology"),
    ],
)
def test_a_file_that_gives_no_topology_is_refused_with_the_reason(
    topo: Write, more: str, chosen: str | None, message: str
):
    with pytest.raises(InputError, match=message) as refused:
        mininet.read(topo(more=more), chosen)
    assert refused.value.exit_code == 2


def test_a_build_that_fails_is_told_with_its_line_and_how_to_give_arguments(topo: Write):
    file = topo("self.addSwitch(f's{a[0]}')")
    with pytest.raises(InputError, match=r"net\.py:4: IndexError") as refused:
        mininet.read(file)
    assert refused.value.hint == "arguments are given with --topo: Net,ARG,KEY=VALUE"
    assert [*mininet.read(file, "Net,8").intent.network.bridges] == ["s8"]


def test_the_file_is_neither_started_as_a_script_nor_confused_by_what_it_prints(
    topo: Write, capfd: pytest.CaptureFixture[str]
):
    file = topo(more="print('hello', __name__)\nif __name__ == '__main__':\n    exit(1)\n")
    assert mininet.read(file)
    assert capfd.readouterr() == ("", "hello custom\n")


def test_a_script_that_builds_its_network_itself_is_refused_before_it_starts_anything(
    topo: Write, tmp_path: Path
):
    started = tmp_path / "started"
    file = topo(
        more="from mininet.net import Mininet\n"
        "net = Mininet(topo=Net(), build=False)\n"
        f"open('{started}', 'w')\n"
        "net.start()\n"
    )
    with pytest.raises(
        InputError, match=r"net\.py:6: it builds a Mininet network itself, which was not started"
    ) as refused:
        mininet.read(file)
    assert "a class derived from mininet.topo.Topo" in str(refused.value.hint)
    assert not started.exists()


def test_the_files_code_runs_in_a_process_of_its_own(topo: Write, tmp_path: Path):
    file = topo(more=f"import os\nopen('{tmp_path}/pid', 'w').write(str(os.getpid()))\n")
    mininet.read(file)
    assert (tmp_path / "pid").read_text() not in {"", str(os.getpid())}


def test_modules_beside_the_file_are_found(topo: Write, tmp_path: Path):
    (tmp_path / "sites.py").write_text("NAME = 's7'\n")
    file = topo("from sites import NAME", "self.addSwitch(NAME)")
    assert [*mininet.read(file).intent.network.bridges] == ["s7"]


def test_without_mininet_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(mininet, "PYTHON", sys.executable)  # this project's own has no Mininet
    with pytest.raises(InputError, match="without Mininet") as refused:
        mininet.read(LINE)
    assert "apt install mininet" in str(refused.value.hint)
