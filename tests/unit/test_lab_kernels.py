"""A lab whose nodes are kernels: what each is given, what is refused, and how its end is told."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from cnc import intent as intents
from cnc.errors import CncError, InputError
from cnc.testbed.cli.lab import lab
from cnc.testbed.intent.lab_model import Clock, Clocks, Emulation, LabKernels
from cnc.testbed.lab import Lab, down, execute, inventory, lifecycle, status
from cnc.testbed.lab.kernels import beside, layout
from cnc.testbed.lab.kernels.layout import HOME, MARK
from cnc.testbed.lab.kernels.start import start
from cnc.testbed.lab.kernels.supervisor import main as supervise
from cnc.testbed.lab.supported import check_kernels
from cnc.testbed.lab.vm import runner
from cnc.testbed.remote import client
from cnc.testbed.remote.frames import Frame, Kind

PATH = os.environ["PATH"]
SCHEDULES = Path(__file__).parents[2] / "schedules"
LINE3 = intents.load(SCHEDULES / "line3.yaml")


def test_every_node_is_a_kernel_and_so_is_the_controller():
    kernels = layout.kernels(LINE3)
    assert [*kernels] == ["controller", *LINE3.network.bridges, *LINE3.network.end_stations]
    assert [kernel.number for kernel in kernels.values()] == [*range(len(kernels))]


def test_a_kernel_has_a_card_for_each_port_of_its_node_and_one_for_management():
    kernels = layout.kernels(LINE3)
    for port in LINE3.network.links:
        assert port.port in {card.port for card in kernels[port.node].ports}
    macs = [card.mac for each in kernels.values() for card in (*each.ports, each.management)]
    assert len(set(macs)) == len(macs)
    assert not kernels["controller"].ports


def test_the_clock_of_a_node_is_its_kernels():
    off = Clock(-7_000_000, 25_000)
    kernels = layout.kernels(LINE3.having(Clocks({"s2": off})))
    assert {node: each.clock for node, each in kernels.items() if each.clock != Clock()} == {
        "s2": off
    }


def test_a_node_is_reached_by_the_address_that_its_management_card_gives_itself():
    kernel = layout.kernels(LINE3)["s1"]
    assert kernel.management.mac == "02:02:00:01:00:01"
    assert str(kernel.link_local) == "fe80::2:ff:fe01:1"


def test_a_cable_holds_a_frame_until_the_next_switch_may_have_processed_it():
    network = LINE3.network
    for line in layout.cable_lines(LINE3):
        _, one, other, rate, propagation, back = line.split()
        (link,) = (each for each in network.links.values() if str(each.source) == one)
        assert str(link.target) == other
        assert rate == f"rate={link.rate_bps}"
        for end, delay in ((link.target, propagation), (link.source, back)):
            bridge = network.bridges.get(end.node)
            least_ns = bridge.processing_min_ns if bridge else 0
            assert delay.endswith(f"={link.propagation_ns + least_ns}")


def test_a_node_with_the_name_of_the_controller_is_refused():
    stations = {**LINE3.network.end_stations, "controller": LINE3.network.end_stations["t1"]}
    network = dataclasses.replace(LINE3.network, end_stations=stations)
    with pytest.raises(InputError, match=r"end station controller: .* switches are managed"):
        check_kernels(dataclasses.replace(LINE3, network=network))
    check_kernels(LINE3)


def test_packets_longer_than_ethernets_are_refused():
    streams = {
        name: dataclasses.replace(stream, payload_octets=1501)
        for name, stream in LINE3.streams.items()
    }
    with pytest.raises(InputError, match="packets of 1501 octets are longer than the 1500"):
        check_kernels(dataclasses.replace(LINE3, streams=streams))


def test_cables_between_kernels_cannot_be_instant():
    file = str(SCHEDULES / "line3.yaml")
    done = CliRunner().invoke(lab, ["up", file, "--kernels", "own", "--wires", "instant"])
    assert done.exit_code == 2
    assert "cables between kernels of their own take time" in done.output


def supervised(tmp_path: Path, *events: str, time: str = "virtual") -> str:
    """What the supervisor leaves of a lab whose network says these lines, one for each order."""
    network = tmp_path / "network.py"
    network.write_text(
        "import sys\n"
        f"for event in {list(events)!r}:\n"
        "    print(event, flush=True)\n"
        "    if event not in ('ready',):\n"
        "        sys.stdin.readline()\n"
    )
    specification = {
        "network": [sys.executable, str(network)],
        "controller": "controller",
        "time": time,
        "kernels": {"controller": ["sleep", "1000"], "s1": ["sh", "-c", "echo panic; sleep 1000"]},
    }
    (tmp_path / "kernels.json").write_text(json.dumps(specification))
    for number in range(2):
        (tmp_path / f"node{number}").mkdir()
    assert supervise(tmp_path) == 1
    return (tmp_path / "ended").read_text()


def test_a_kernel_that_dies_ends_the_lab_with_its_name_and_a_reason(tmp_path: Path):
    ended = supervised(tmp_path, "ready", "started 5", "dead s1 70 has closed its socket")
    assert ended.startswith("kernel of s1: has closed its socket, at 70 ns\n")


def test_kernels_of_which_none_will_ever_do_anything_end_the_lab(tmp_path: Path):
    ended = supervised(tmp_path, "ready", "started 5", "asleep 90")
    assert "nothing is left to happen, at 90 ns" in ended


def test_a_network_that_ends_before_the_kernels_are_there_ends_the_lab(tmp_path: Path):
    assert supervised(tmp_path, "ready").startswith("virtual-network ended with ")


def test_a_console_with_something_else_on_it_ends_the_lab(tmp_path: Path):
    ended = supervised(tmp_path, "ready", "started 5", f"octets controller 60 {'ff' * 7}")
    assert (
        ended == "kernel of controller: not a frame on its console: kind 255, 4294967295 octets\n"
    )


def test_the_time_of_a_lab_passes_with_the_clock_of_the_machine_if_it_is_to_be_real(tmp_path: Path):
    up = f"octets controller 60 {Frame(Kind.READY, 0).encoded().hex()}"
    begun_s = time.monotonic()
    ended = supervised(
        tmp_path,
        "ready",
        "started 5",
        up,
        "reached 60",
        "reached 80000060",
        "asleep 90",
        time="real",
    )
    assert "nothing is left to happen" in ended
    # What was at 80 ms may go on only after that time, and one slice more.
    assert time.monotonic() - begun_s >= 0.08


def of_kernels(tmp_path: Path) -> tuple[Path, Path]:
    """The directory of a lab of kernels, as far as one has it that has ended, and their home."""
    directory, home = tmp_path / "labs" / "line3", tmp_path / "home"
    directory.mkdir(parents=True)
    (home / "shared").mkdir(parents=True)
    (directory / HOME).symlink_to(home)
    inventory.write(directory, inventory.of_intent(LINE3))
    beside.write(home / "shared", layout.kernels(LINE3))
    return directory, home


def test_a_command_on_a_node_goes_by_the_controller(tmp_path: Path):
    directory, home = of_kernels(tmp_path)
    nodes = Lab(LINE3, directory).nodes
    where = [sys.executable, "-I", client.__file__]
    first = [*where, str(home / "control"), "--"]
    assert nodes.command("controller", ["true"]) == [*first, "true"]
    assert nodes.command("s1", ["true"]) == [
        *first,
        *(*where, "[fe80::2:ff:fe01:1%mgmt]:4000", "--"),
        "true",
    ]


def test_a_lab_that_has_ended_says_why_and_runs_nothing(tmp_path: Path):
    directory, home = of_kernels(tmp_path)
    (home / "ended").write_text("kernel of s1: has ended, at 70 ns\n")
    with pytest.raises(CncError, match="line3 has ended: kernel of s1: has ended, at 70 ns"):
        execute("line3", "s1", ["true"], state_root=directory.parent)
    nodes = status("line3", state_root=directory.parent)
    assert [node.node for node in nodes] == [*layout.kernels(LINE3)]
    assert not any(node.present for node in nodes)


def test_each_line_of_a_shell_is_a_command_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    directory, _ = of_kernels(tmp_path)
    ran: list[list[str]] = []

    def execute(name: str, node: str, argv: list[str], *, state_root: Path) -> int:
        assert (name, node, state_root) == ("line3", "s1", directory.parent)
        ran.append(argv)
        return len(ran)

    monkeypatch.setattr(lifecycle, "execute", execute)
    monkeypatch.setenv("SHELL", "/bin/bash")
    monkeypatch.setattr("sys.stdin", io.StringIO("cd /tmp; ls\n\ntc qdisc\nexit\nnever\n"))
    assert lifecycle.shell("line3", "s1", state_root=directory.parent) == 2
    assert ran == [["/bin/bash", "-c", "cd /tmp; ls"], ["/bin/bash", "-c", "tc qdisc"]]
    with pytest.raises(InputError, match="line3 has no node s9"):
        lifecycle.shell("line3", "s9", state_root=directory.parent)


def test_going_down_ends_what_belongs_to_the_lab_and_nothing_else(tmp_path: Path):
    directory, home = of_kernels(tmp_path)
    with (
        subprocess.Popen(["sleep", "1000"], env={MARK: str(directory), "PATH": PATH}) as its,
        subprocess.Popen(["sleep", "1000"], env={MARK: f"{directory}2", "PATH": PATH}) as other,
    ):
        down("line3", state_root=directory.parent)
        assert its.wait() == -signal.SIGTERM
        assert other.poll() is None
        other.kill()
    assert not directory.exists()
    assert not home.exists()


def test_without_a_kernel_for_the_nodes_it_is_told_how_to_make_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def build(_: str) -> Path:
        raise runner.VmError("the uml kernel could not be built (see above)")

    monkeypatch.setattr(runner, "artefact", lambda _: None)
    monkeypatch.setattr(runner, "build", build)
    with pytest.raises(CncError, match="no kernel for the nodes: the uml kernel") as refused:
        start(LINE3, tmp_path, Emulation(LabKernels.OWN))
    assert "scripts/vm --uml --build" in str(refused.value.hint)
    assert list(tmp_path.iterdir()) == []


def test_a_node_that_cannot_be_asked_is_named_with_the_command(tmp_path: Path):
    beside.write(tmp_path, layout.kernels(LINE3))
    with pytest.raises(CncError, match=r"node t1 of the lab could not run cat /x: \S+"):
        beside.ask(tmp_path, "t1", ["cat", "/x"])
