"""Bring an emulated network up, look at it, run commands in it, take it down.

All a lab needs is in one directory, by default /run/cnc-lab/NAME: client key and known hosts, and
for every switch its sysrepo, host key, process ids and logs. `down` needs nothing else, and works
after a crash at any point of `up`.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from getpass import getuser
from pathlib import Path

from cnc.errors import CncError, InputError
from cnc.lab import topology
from cnc.lab.addressing import management
from cnc.lab.process import netns_argv, stop
from cnc.lab.switch import PROGRAMS, Switch, make_template, write_key_pair
from cnc.model import Bridge, Intent, Management
from cnc.netconf.device import ConnectOptions, Device, DeviceError

STATE_ROOT = Path("/run/cnc-lab")
READY_TIMEOUT_S = 60.0
POLL_INTERVAL_S = 0.05


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """One node of a lab. `processes` holds the process id of each program, None if it is gone."""

    node: str
    namespace: str
    present: bool
    processes: Mapping[str, int | None]


@dataclass(frozen=True, slots=True)
class Lab:
    """A running lab: what a controller needs to reach its switches, and hands to shake it."""

    intent: Intent
    directory: Path

    @property
    def identity(self) -> Path:
        """The client's private key."""
        return self.directory / "client-key"

    @property
    def known_hosts(self) -> Path:
        """The switches' host keys, in OpenSSH's format."""
        return self.directory / "known_hosts"

    @property
    def connect(self) -> ConnectOptions:
        """How `cnc.netconf` reaches the switches."""
        return ConnectOptions(self.identity, self.known_hosts)

    def namespace(self, node: str) -> str:
        return topology.namespace(self.intent.name, node)

    def switch(self, name: str) -> Switch:
        return Switch(name, self.namespace(name), self.directory / name)

    def command(self, node: str, argv: Sequence[str]) -> list[str]:
        """The command line that runs `argv` on a node."""
        return netns_argv(self.namespace(node), argv)

    def kill(self, switch: str, program: str) -> None:
        """End a program of a switch by SIGKILL: no chance to clean up."""
        pid = self.switch(switch).pid(program)
        if pid is not None:
            stop({pid: self.namespace(switch)}, signal.SIGKILL)

    def start(self, switch: str, program: str) -> int:
        """Start a program of a switch that is not running; returns its process id."""
        return self.switch(switch).start(
            program, _management_of(self.intent, switch), self.identity.with_suffix(".pub")
        )

    def wait_ready(self, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Wait until every switch's agent answers through its NETCONF server.

        Raises:
            CncError: a program ended, or the time is over; the message holds the logs' last lines.
        """
        deadline = time.monotonic() + timeout_s
        for bridge in self.intent.network.bridges.values():
            switch = self.switch(bridge.name)
            while (silence := _silence(bridge, self.connect)) is not None:
                gone = [program for program in PROGRAMS if switch.pid(program) is None]
                if gone or time.monotonic() > deadline:
                    why = f"{gone[0]} ended" if gone else f"{timeout_s:.0f} s: {silence}"
                    raise CncError(
                        f"switch {bridge.name} did not come up: {why}\n{switch.log_tail()}"
                    )
                time.sleep(POLL_INTERVAL_S)


def up(intent: Intent, *, timed_wires: bool = False, state_root: Path = STATE_ROOT) -> Lab:
    """Create the lab of an intent and wait until every switch answers over NETCONF.

    With `timed_wires` a frame takes as long on a cable as the intent says. That is exact in virtual
    time; on a real clock it costs one more wake-up a hop, each as late as the machine is.

    Raises:
        InputError: the intent cannot be emulated.
        CncError: it is up already, or the machine refused; what was made is removed again.
    """
    management(intent)
    check_streams(intent)
    if os.geteuid() != 0:
        raise CncError("a lab needs root: it makes network namespaces", hint="run it with sudo")
    directory = _directory(intent.name, state_root)
    state_root.mkdir(parents=True, exist_ok=True)
    try:
        directory.mkdir(mode=0o700)
    except FileExistsError:
        raise CncError(
            f"lab {intent.name} is up already ({directory})",
            hint=f"`cnc lab down {intent.name}` removes it, also if it was interrupted",
        ) from None
    running = Lab(intent, directory)
    try:
        _write_inventory(running)
        topology.build(intent, timed_wires=timed_wires)
        _start_switches(running)
        running.wait_ready()
    except BaseException:  # an interrupted `up` leaves nothing behind either
        down(intent.name, state_root=state_root)
        raise
    return running


def check_streams(intent: Intent) -> None:
    """Refuse streams of which the lab would show something other than what a network does.

    Raises:
        InputError: a stream is to be sent over two paths.
    """
    for stream in intent.streams.values():
        if stream.paths > 1:
            raise InputError(
                f"stream {stream.name} asks for {stream.paths} paths, and cnc lab does not "
                "replicate frames yet",
                hint="to emulate it over one path, leave out its key paths",
            )


def down(name: str, *, state_root: Path = STATE_ROOT) -> None:
    """Remove a lab: processes, namespaces, shared memory, files. No lab of that name: no error.

    Every process in the lab's namespaces ends, also those that others started there.
    """
    directory = _directory(name, state_root)
    if not directory.exists():
        return
    inventory = _read_inventory(directory)
    for switch in inventory["switches"]:
        Switch(switch, topology.namespace(name, switch), directory / switch).forget()
    namespaces = [
        topology.namespace(name, node)
        for node in (*inventory["switches"], *inventory["end-stations"])
    ]
    stop({pid: namespace for namespace in namespaces for pid in topology.members(namespace)})
    topology.remove(name, namespaces)
    shutil.rmtree(directory)


def status(name: str, *, state_root: Path = STATE_ROOT) -> list[NodeStatus]:
    """Every node of a lab; empty if there is no lab of that name."""
    directory = _directory(name, state_root)
    inventory = _read_inventory(directory)
    result = []
    for node in (*inventory["switches"], *inventory["end-stations"]):
        switch = Switch(node, topology.namespace(name, node), directory / node)
        programs = PROGRAMS if node in inventory["switches"] else ()
        result.append(
            NodeStatus(
                node=node,
                namespace=switch.namespace,
                present=topology.exists(switch.namespace),
                processes={program: switch.pid(program) for program in programs},
            )
        )
    return result


def execute(name: str, node: str, argv: Sequence[str], *, state_root: Path = STATE_ROOT) -> int:
    """Run a command on a node with this process's terminal; returns its exit code.

    On a switch, sysrepo's tools find that switch's datastores.
    """
    directory = _directory(name, state_root)
    known = [found.node for found in status(name, state_root=state_root)]
    if node not in known:
        raise InputError(
            f"lab {name} has no node {node}" if known else f"lab {name} is not up",
            hint=f"its nodes are {', '.join(known)}" if known else "`cnc lab up` brings it up",
        )
    switch = Switch(node, topology.namespace(name, node), directory / node)
    environment = switch.environment if switch.repository.exists() else {}
    command = netns_argv(switch.namespace, argv)
    return subprocess.run(command, env={**os.environ, **environment}, check=False).returncode


@contextlib.contextmanager
def lab(
    intent: Intent, *, timed_wires: bool = False, state_root: Path = STATE_ROOT
) -> Iterator[Lab]:
    """A lab for the time of a `with` block; see `up`."""
    running = up(intent, timed_wires=timed_wires, state_root=state_root)
    try:
        yield running
    finally:
        down(intent.name, state_root=state_root)


def _start_switches(running: Lab) -> None:
    client = write_key_pair(running.identity)
    running.identity.with_suffix(".pub").write_text(f"{client}\n")
    addresses = {b: _management_of(running.intent, b) for b in running.intent.network.bridges}
    # Where no user is named, cnc logs in as who runs it.
    operators = {reached.user or getuser() for reached in addresses.values()}
    template = make_template(running.directory, running.intent.name, sorted(operators))
    known_hosts = []
    for name, reached in addresses.items():
        host_key = running.switch(name).prepare(template)
        known_hosts.append(f"[{reached.address}]:{reached.port} {host_key}\n")
        for program in PROGRAMS:
            running.start(name, program)
    running.known_hosts.write_text("".join(known_hosts))


def _management_of(intent: Intent, switch: str) -> Management:
    found = intent.network.bridges[switch].management
    if found is None:
        raise InputError(f"switch {switch} has no management address")
    return found


def _silence(bridge: Bridge, connect: ConnectOptions) -> str | None:
    """Why a switch's agent does not answer yet; None if it does."""
    reached = bridge.management
    if reached is None:
        return "no management address"
    # A whole SSH session is dear: try it only where somebody listens.
    try:
        socket.create_connection((reached.address, reached.port), timeout=1).close()
    except OSError as error:
        return str(error)
    try:
        with Device(bridge, connect) as device:
            agent = device.state([topology.MANAGEMENT_PORT]).agent
    except DeviceError as error:
        return str(error)
    return "no agent behind the NETCONF server" if agent is None else None


def _directory(name: str, state_root: Path) -> Path:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", name):
        raise InputError(f"{name!r} cannot be a lab's name: letters, digits, '-' and '_' only")
    return state_root / name


def _write_inventory(running: Lab) -> None:
    network = running.intent.network
    (running.directory / "inventory.json").write_text(
        json.dumps({"switches": [*network.bridges], "end-stations": [*network.end_stations]})
    )


def _read_inventory(directory: Path) -> dict[str, list[str]]:
    try:
        found: dict[str, list[str]] = json.loads((directory / "inventory.json").read_text())
    except FileNotFoundError:
        return {"switches": [], "end-stations": []}  # interrupted before anything was made
    return found
