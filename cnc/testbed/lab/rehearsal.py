"""Switches without a network: real agents and NETCONF servers on loopback, with ports in memory.

They need no root, no namespaces and no taprio, and carry no frames: enough to try a controller, or
to measure it. They end with the process that started them, however it ends, unless it tells their
supervisor to stay (`cnc.testbed.lab.rehearsed`).
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from getpass import getuser
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

from cnc.errors import CncError, InputError
from cnc.model import Forwarding, Intent, Management
from cnc.switch import rehearsed as redirection
from cnc.switch.options import ConnectOptions
from cnc.switch.rehearsed import Endpoint
from cnc.testbed.lab import inventory, rehearsed, supervisor
from cnc.testbed.lab.running import management_of
from cnc.testbed.lab.switch import AGENT, PROGRAMS, Switch, tools_path, write_key_pair
from cnc.testbed.lab.template import operators, template

NETCONF_PORT = 8300  # not a privileged port


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """Running switches by name: how to reach them, and the process ids of their programs."""

    managements: Mapping[str, Management]
    connect: ConnectOptions
    pids: Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class Node:
    """A switch, or an end station with an agent, that is to be rehearsed.

    `listens`: where its server is. `known_as`: the address that its host key is written down for.
    `rates_bps`: of its ports in memory, as far as links say. `bridge`: all ports are its members.
    """

    name: str
    listens: Management
    known_as: Management
    ports: Sequence[str]
    rates_bps: Mapping[str, int] = field(default_factory=dict)
    bridge: str | None = None

    @property
    def options(self) -> list[str]:
        """What an agent is told that has such ports."""
        options = ["--rehearse", ",".join(self.ports)]
        if self.rates_bps:
            rates = (f"{port}={bps}" for port, bps in self.rates_bps.items())
            options += ["--emulate", ",".join(rates)]
        if self.bridge is not None:
            options += ["--rehearse-bridge", self.bridge]
        return options


@contextmanager
def rehearsal(
    names: Sequence[str], ports: Sequence[str], *, bridge: str | None = None
) -> Iterator[Rehearsal]:
    """Switches with these names, each with these ports, for the time of a `with` block. With the
    name of a `bridge` each has that bridge, and all ports are its members.

    Raises:
        CncError: sysrepo is not installed, or a program does not start.
    """
    require_sysrepo()
    directory = Path(tempfile.mkdtemp(prefix="cnc-rehearsal-"))
    label = directory.name
    # `with` a process closes its input, and waits for its end.
    with loopback_network() as claim, supervise(directory, label, claim) as process:
        managements = claim.managements(names)
        nodes = [Node(name, at, at, ports, bridge=bridge) for name, at in managements.items()]
        pids = begin(process, directory, label, nodes, [getuser()])
        yield Rehearsal(managements, connect_options(directory), pids)


def start(intent: Intent, directory: Path) -> None:
    """Start the switches and managed end stations of an intent, with their files in `directory`.
    They outlive this process, as the lab that `cnc.testbed.lab.rehearsed` knows.

    Raises:
        InputError: a switch has no management address, or no link.
        CncError: sysrepo is missing, or a program does not start; nothing is left of any.
    """
    require_sysrepo()
    rehearsed.write(directory)
    label = rehearsed.label(directory)
    stated = {name: management_of(intent, name) for name in intent.network.managed}
    with loopback_network() as claim:
        listens = claim.managements(list(stated))
        nodes = [_node(intent, name, listens[name], stated[name]) for name in stated]
        process = supervise(directory, label, claim)
        try:
            pids = begin(process, directory, label, nodes, operators(intent))
            endpoints = {_endpoint(node.known_as): _endpoint(node.listens) for node in nodes}
            redirection.write(connect_options(directory).known_hosts, endpoints)
            addresses = {name: [f"{at.address}:{at.port}"] for name, at in listens.items()}
            inventory.write(
                directory, {name: inventory.Node(True, its) for name, its in addresses.items()}
            )
            rehearsed.write(directory, process.pid, pids)
            _leave(process)
        except BaseException:
            with process:  # which closes its input, and waits until it has removed everything
                raise


def _node(intent: Intent, name: str, listens: Management, known_as: Management) -> Node:
    network = intent.network
    rates_bps = {ref.port: link.rate_bps for ref, link in network.links.items() if ref.node == name}
    if not rates_bps:
        raise InputError(
            f"{network.described(name)} has no link, and an agent is rehearsed by its ports",
            hint="give it a link, or leave it out",
        )
    bridge = network.bridges.get(name) if network.forwarding is Forwarding.BRIDGED else None
    device = bridge.bridge_device if bridge else None
    return Node(name, listens, known_as, list(rates_bps), rates_bps, device)


def _endpoint(management: Management) -> Endpoint:
    return Endpoint(management.address, management.port)


def connect_options(directory: Path) -> ConnectOptions:
    """How to log in to the switches whose files are in this directory."""
    return ConnectOptions(directory / "client-key", directory / "known_hosts")


def begin(
    process: subprocess.Popen[str],
    directory: Path,
    label: str,
    nodes: Sequence[Node],
    users: Sequence[str],
) -> dict[str, dict[str, int]]:
    """Have the supervisor start all programs of these nodes, with their files in `directory` and
    `label` in the name of all their shared memory; returns the process ids by node and program.

    `users`: whom NACM permits everything.

    Raises:
        CncError: a program does not start.
    """
    connect = connect_options(directory)
    write_key_pair(connect.identity)
    authorized_keys = connect.identity.with_suffix(".pub")
    repository = template(label, users, directory)
    switches = [
        (node, Switch(node.name, f"tsn-{label}.{node.name}", directory / node.name))
        for node in nodes
    ]
    connect.known_hosts.write_text(
        "".join(
            f"[{node.known_as.address}]:{node.known_as.port} {switch.prepare(repository)}\n"
            for node, switch in switches
        )
    )
    programs = [
        {
            "name": f"{program} of {node.name}",
            "argv": switch.command(program, node.listens, authorized_keys)
            + (node.options if program == AGENT else []),
            # What a program that is killed leaves behind goes with the directory.
            "environment": {**switch.environment, "TMPDIR": str(directory)},
            "log": str(switch.log(program)),
        }
        for node, switch in switches
        for program in PROGRAMS
    ]
    pids = iter(_start(process, programs, [switch for _, switch in switches]))
    return {node.name: {program: next(pids) for program in PROGRAMS} for node in nodes}


def require_sysrepo() -> None:
    """Refuse to go on without sysrepo.

    Raises:
        CncError: it is not installed.
    """
    if (
        shutil.which("sysrepoctl", path=tools_path()) is None
        or importlib.util.find_spec("sysrepo") is None
    ):
        raise CncError(
            "this starts switches on this machine, and they need sysrepo, which is not installed",
            hint="`scripts/setup` installs it (not so with --cnc), on Debian 12 or 13; "
            "sysrepoctl must be on PATH",
        )


def _start(
    process: subprocess.Popen[str],
    programs: Sequence[Mapping[str, Any]],
    switches: Sequence[Switch],
) -> list[int]:
    """Have the supervisor start the programs, and wait until they are ready; returns their ids."""
    assert process.stdin is not None  # noqa: S101  both are pipes
    assert process.stdout is not None  # noqa: S101
    process.stdin.write(f"{json.dumps(programs)}\n")
    process.stdin.flush()
    reply = json.loads(process.stdout.readline() or '{"error": "their supervisor ended"}')
    if reply["error"] is not None:
        tails = "\n".join(tail for switch in switches if (tail := switch.log_tail()))
        raise CncError(
            f"the switches did not come up: {reply['error']}\n{tails}",
            hint="the last lines of their logs are above; a full /dev/shm is a common cause",
        )
    pids: list[int] = reply["pids"]
    return pids


def supervise(directory: Path, label: str, claim: Claim) -> subprocess.Popen[str]:
    """A process that ends its programs and removes everything when its standard input ends: with
    this process at the latest, unless it was told to stay. While it lives it holds the claim."""
    with (directory / "supervisor.log").open("w") as log:
        return subprocess.Popen(
            [sys.executable, "-I", supervisor.__file__, directory, f"tsn-{label}."],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,  # who reads ours is not to wait for the end of one that stays
            text=True,
            pass_fds=[claim.socket.fileno()],
            start_new_session=True,  # Ctrl-C is for this process
        )


def _leave(process: subprocess.Popen[str]) -> None:
    """Tell a supervisor to stay, with its programs, when this process ends."""
    assert process.stdin is not None  # noqa: S101  both are pipes
    assert process.stdout is not None  # noqa: S101
    with process.stdin, process.stdout:
        process.stdin.write(supervisor.STAY.decode())


@dataclass(frozen=True, slots=True)
class Claim:
    """A /16 of loopback that no other process has claimed in this way while the socket is open."""

    network: IPv4Address
    socket: socket.socket

    def managements(self, names: Sequence[str]) -> dict[str, Management]:
        """Addresses for nodes with these names, for this user."""
        return {
            name: Management(str(self.network + number), NETCONF_PORT, getuser())
            for number, name in enumerate(names, start=1)
        }


@contextmanager
def loopback_network() -> Iterator[Claim]:
    """Claim a network for the time of a `with` block."""
    with socket.socket() as claim:
        for second in range(1, 255):
            network = IPv4Address(f"127.{second}.0.0")
            try:
                claim.bind((str(network), NETCONF_PORT))
            except OSError:
                continue
            yield Claim(network, claim)
            return
        raise CncError(
            f"no free network on loopback: port {NETCONF_PORT} is in use on every one",
            hint="`ss -tlnp` shows which process",
        )
