"""Simulated switches: real agents and NETCONF servers on loopback, with kernels in files.

Each switch has a sysrepo of its own and a unique address in 127.0.0.0/8.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path

from cnc.model import Intent, Management
from cnc.switch import ConnectOptions
from cnc.testbed.lab.rehearsal import NETCONF_PORT, loopback_network
from cnc.testbed.lab.switch import make_template, write_key_pair
from tests.scale.chassis import Chassis
from tests.scale.kernel_on_disk import Recorded
from tests.scale.line import line
from tests.scale.orders import PROGRAMS, End, Start

CHECKOUT = Path(__file__).parents[2]
OPERATOR = "operator"
PEER_TIMEOUT_S = 10  # the server's default


@dataclass
class Switch:
    """One simulated switch, and the hands to make trouble with it."""

    chassis: Chassis
    _nursery: Connection
    _pids: dict[str, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.chassis.name

    @property
    def kernel(self) -> Recorded:
        """What its kernel has on its ports, and what was done to them."""
        return Recorded.read(self.chassis.kernel)

    @property
    def pids(self) -> Mapping[str, int]:
        """The programs that run."""
        return self._pids

    def log(self, program: str) -> str:
        return self.chassis.log(program).read_text()

    def start(self, program: str) -> None:
        """Start a program that was ended; returns when it says that it is ready."""
        start([(self, program)], self._nursery)

    def end(self, program: str, number: signal.Signals = signal.SIGKILL) -> None:
        """End a program, and return when it is gone."""
        self._nursery.send(End(self._pids.pop(program), number))
        self._nursery.recv()

    def reboot(self) -> None:
        """Forget all that is not on the disk, in the middle of whatever it did, and start again."""
        for program in list(self._pids):
            self.end(program)
        self.chassis.repository.forget_shared_memory()
        self.chassis.kernel.unlink()
        start([(self, program) for program in PROGRAMS], self._nursery)

    def freeze(self, program: str) -> None:
        """Let a program do nothing; its connections stay, nobody is told."""
        os.killpg(self._pids[program], signal.SIGSTOP)

    def thaw(self, program: str) -> None:
        os.killpg(self._pids[program], signal.SIGCONT)


@dataclass(frozen=True)
class Simulation:
    """A line of switches that run, and how a controller reaches them."""

    switches: Mapping[str, Switch]
    connect: ConnectOptions

    def intent(
        self, payload_octets: int = 200, without: Collection[str] = (), period: str = "1ms"
    ) -> Intent:
        """What the line must carry: see `line`."""
        addresses = {name: each.chassis.management.address for name, each in self.switches.items()}
        return line(
            addresses,
            port=NETCONF_PORT,
            user=OPERATOR,
            payload_octets=payload_octets,
            without=without,
            period=period,
        )


def start(programs: list[tuple[Switch, str]], nursery: Connection) -> None:
    """Start programs of switches, a few at a time.

    Raises RuntimeError with the log of one that says nothing or ends.
    """
    nursery.send(Start(tuple((switch.chassis, program) for switch, program in programs)))
    started = nursery.recv()
    if isinstance(started, str):
        raise RuntimeError(f"a simulated switch does not start:\n{started}")
    for (switch, program), pid in zip(programs, started, strict=True):
        switch._pids[program] = pid


@contextmanager
def simulated_switches(count: int, peer_timeout_s: int = PEER_TIMEOUT_S) -> Iterator[Simulation]:
    """The switches s1, s2, …; all of them end with the block, or with this process. They end the
    sessions of a client that has not been heard for `peer_timeout_s`."""
    directory = Path(tempfile.mkdtemp(prefix="tsn-scale-"))
    shm_prefix = f"tsnscale{os.getpid()}."
    with loopback_network() as claim, _nursery(directory, shm_prefix) as nursery:
        template = make_template(directory, f"scale{os.getpid()}", [OPERATOR])
        identity = directory / "identity"
        write_key_pair(identity)
        switches = {}
        known_hosts = directory / "known_hosts"
        with known_hosts.open("w") as lines:
            for number in range(1, count + 1):
                name = f"s{number}"
                where = Management(str(claim.network + number), NETCONF_PORT, OPERATOR)
                chassis = Chassis(name, directory / name, shm_prefix, where, peer_timeout_s)
                lines.write(chassis.build(template))
                switches[name] = Switch(chassis, nursery)
        start([(s, program) for s in switches.values() for program in PROGRAMS], nursery)
        yield Simulation(switches, ConnectOptions(identity, known_hosts))


@contextmanager
def _nursery(directory: Path, shm_prefix: str) -> Iterator[Connection]:
    ours, its = socket.socketpair()
    with ours:
        with its:
            process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "tests.scale.nursery"),
                    *(str(its.fileno()), directory, shm_prefix),
                ],
                cwd=CHECKOUT,
                pass_fds=[its.fileno()],
                start_new_session=True,  # Ctrl-C is for us; it learns of our end by the socket
            )
        connection = Connection(ours.detach())
        try:
            yield connection
        finally:
            connection.close()
            process.wait()
