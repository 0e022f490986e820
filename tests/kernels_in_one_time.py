"""User-mode kernels that share one virtual time, each with a script, and what came of it."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from cnc.testbed.lab.virtual_network import program
from cnc.testbed.lab.vm import runner

EPOCH_NS = runner.VIRTUAL_EPOCH_NS


@dataclass(frozen=True)
class Node:
    """A kernel: its script in bash, and how wrong its clock is."""

    script: str
    offset_ns: int = 0
    oscillator: str = "oscillator-ppb=0"
    may_end: bool = True


@dataclass
class Run:
    """A run: what each node printed, the events, and the directory of captures and offsets."""

    directory: Path
    printed: dict[str, str] = field(default_factory=dict)
    events: list[str] = field(default_factory=list)
    kernels: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def offsets(self) -> list[tuple[int, str, int, int]]:
        """(instant, node, offset of its CLOCK_REALTIME, TAI - UTC in s) in the order of time."""
        lines = (self.directory / "offsets.csv").read_text().splitlines()[1:]
        words = [line.split(",") for line in lines]
        return [(int(at), node, int(offset), int(tai)) for at, node, offset, tai in words]


def run(
    directory: Path,
    nodes: Mapping[str, Node],
    cables: Mapping[tuple[str, str], str],
    *more: str,
    queues: int = 1,
) -> Run:
    """Let all go until each has ended.

    `cables`: two ports (NODE/PORT) and the options of the cable between them; the ports of a node
    are its eth0, eth1, … in this order. `more`: further lines of the description.
    """
    with started(directory, nodes, cables, *more, queues=queues) as (network, result):
        assert network.stdin
        assert network.stdout
        network.stdin.write("go\n")
        network.stdin.flush()
        result.events += [line.rstrip() for line in network.stdout]
        for name in nodes:
            result.printed[name] = (directory / name / "1").read_text()
    return result


@contextmanager
def started(
    directory: Path,
    nodes: Mapping[str, Node],
    cables: Mapping[tuple[str, str], str],
    *more: str,
    queues: int = 1,
) -> Iterator[tuple[subprocess.Popen[str], Run]]:
    """The network with all its kernels connected, at the beginning of time."""
    directory.mkdir()
    lines = [f"clock {EPOCH_NS}", f"time {directory}/time answer-timeout=300"]
    for number, (name, node) in enumerate(nodes.items()):
        ending = " may-end" if node.may_end else ""
        lines.append(f"kernel {number} {name} {node.oscillator}{ending}")
    sockets: dict[str, list[str]] = {name: [] for name in nodes}
    for port in (port for cable in cables for port in cable):
        name = port.partition("/")[0]
        socket = f"{directory}/{port.replace('/', '-')}"
        sockets[name].append(socket)
        mac = f"02:00:00:00:{list(nodes).index(name) + 1:02x}:{len(sockets[name]):02x}"
        lines.append(f"card {port} {mac} {socket} queues={queues}")
    lines += [f"cable {a} {b} {options}" for (a, b), options in cables.items()]
    (directory / "network").write_text("\n".join([*lines, *more]).replace("{}", str(directory)))
    result = Run(directory)
    with ExitStack() as stack:
        network = stack.enter_context(
            subprocess.Popen(
                [program(), directory / "network"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        )
        stack.callback(network.kill)
        assert network.stdout
        assert network.stdout.readline() == "ready\n"
        for number, (name, node) in enumerate(nodes.items()):
            kernel = _boot(directory, number, name, node, sockets[name])
            result.kernels[name] = kernel
            stack.callback(_end, kernel)
        assert network.stdout.readline() == "started 0\n"
        yield network, result


def _boot(
    directory: Path, number: int, name: str, node: Node, sockets: list[str]
) -> subprocess.Popen[bytes]:
    """Boot a kernel; what its script prints goes to the file 1 of its directory."""
    home = directory / name
    home.mkdir()
    (home / "command").write_text(
        f"export PATH=/usr/sbin:/usr/bin:/sbin:/bin NODE={number}\n{node.script}\n"
    )
    (home / "out").symlink_to(home)
    fds = [os.open(home / str(n), os.O_WRONLY | os.O_CREAT) for n in (1, 2, 3)]
    kernel = runner.artefact("uml") or runner.build("uml")
    with (home / "console").open("wb") as console:
        process = subprocess.Popen(
            [
                *(kernel / "linux", "mem=256M", f"uml_dir={home}/", f"umid={name}"),
                *("root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro"),
                *(f"init={runner.PARTS}/init-uml", "con=null", "con0=null,fd:1"),
                *(f"con{n}=null,fd:{fd}" for n, fd in enumerate(fds, 1)),
                *("panic=1", "quiet", f"tsn.run={home}"),
                *("bonding.max_bonds=0", "mac80211_hwsim.radios=0", node.oscillator),
                f"time-travel=ext:{number}:{directory}/time",
                f"time-travel-start={EPOCH_NS + node.offset_ns}",
                f"random-seed={number}",
                *(f"virtio_uml.device={socket}:1" for socket in sockets),
            ],
            stdin=subprocess.DEVNULL,
            stdout=console,
            stderr=console,
            pass_fds=fds,
            start_new_session=True,
        )
    for fd in fds:
        os.close(fd)
    return process


def _end(kernel: subprocess.Popen[bytes]) -> None:
    """End every process of a kernel (it has one for each address space)."""
    if kernel.poll() is None:
        os.killpg(kernel.pid, signal.SIGKILL)
    kernel.wait()
