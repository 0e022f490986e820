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
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cnc.errors import CncError, InputError
from cnc.lab import namespaces, topology
from cnc.lab.addressing import management
from cnc.lab.process import netns_argv, stop
from cnc.lab.running import Lab, management_of
from cnc.lab.switch import PROGRAMS, Switch, write_key_pair
from cnc.lab.template import operators, template
from cnc.model import Intent

STATE_ROOT = Path("/run/cnc-lab")


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """One node of a lab. `processes` holds the process id of each program, None if it is gone."""

    node: str
    namespace: str
    present: bool
    processes: Mapping[str, int | None]


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
        Switch(switch, namespaces.of_node(name, switch), directory / switch).forget()
    homes = [
        namespaces.of_node(name, node)
        for node in (*inventory["switches"], *inventory["end-stations"])
    ]
    stop({pid: home for home in homes for pid in namespaces.members(home)})
    topology.remove(name, homes)
    shutil.rmtree(directory)


def status(name: str, *, state_root: Path = STATE_ROOT) -> list[NodeStatus]:
    """Every node of a lab; empty if there is no lab of that name."""
    directory = _directory(name, state_root)
    inventory = _read_inventory(directory)
    result = []
    for node in (*inventory["switches"], *inventory["end-stations"]):
        switch = Switch(node, namespaces.of_node(name, node), directory / node)
        programs = PROGRAMS if node in inventory["switches"] else ()
        result.append(
            NodeStatus(
                node=node,
                namespace=switch.namespace,
                present=namespaces.exists(switch.namespace),
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
    switch = Switch(node, namespaces.of_node(name, node), directory / node)
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
    addresses = {b: management_of(running.intent, b) for b in running.intent.network.bridges}
    repository = template(running.intent.name, operators(running.intent), running.directory)
    known_hosts = []
    for name, reached in addresses.items():
        host_key = running.switch(name).prepare(repository)
        known_hosts.append(f"[{reached.address}]:{reached.port} {host_key}\n")
        for program in PROGRAMS:
            running.start(name, program)
    running.known_hosts.write_text("".join(known_hosts))


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
