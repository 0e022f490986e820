"""Starts and stops an emulated network, reports its status, runs commands in it.

All state of a lab is in one directory, /run/cnc-lab/NAME, and for a user who is not root
~/.local/state/cnc/labs/NAME: client key and known hosts, and for every switch its sysrepo, host
key, process ids and logs. `down` needs nothing else, and works after a crash at any point of `up`.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cnc.errors import CncError, InputError
from cnc.model import Intent
from cnc.support import directories
from cnc.testbed.intent.lab_model import Emulation, LabKernels
from cnc.testbed.lab import inventory, rehearsal, rehearsed, topology
from cnc.testbed.lab.addressing import management
from cnc.testbed.lab.kernels import own
from cnc.testbed.lab.kernels.layout import CONTROLLER
from cnc.testbed.lab.kernels.start import start
from cnc.testbed.lab.running import Lab, management_of, substrate_of
from cnc.testbed.lab.substrate import Substrate
from cnc.testbed.lab.supported import (
    check_cables,
    check_clocks,
    check_kernels,
    check_ports,
    check_rates,
    check_streams,
)
from cnc.testbed.lab.switch import PROGRAMS, write_key_pair
from cnc.testbed.lab.template import operators, template

_OF_ROOT = Path("/run/cnc-lab")
STATE_ROOT = (
    _OF_ROOT if os.geteuid() == 0 else directories.state_dir().expanduser().absolute() / "labs"
)
_SHARED = Emulation(LabKernels.SHARED)


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """One node of a lab. `processes` holds the process id of each program, None if it has ended.

    `addresses` are those by which every other node reaches it: IPv4, IPv6.
    """

    node: str
    addresses: Sequence[str]
    namespace: str
    present: bool
    processes: Mapping[str, int | None]


def up(
    intent: Intent,
    *,
    timed_wires: bool = False,
    emulation: Emulation = _SHARED,
    state_root: Path = STATE_ROOT,
) -> Lab:
    """Create the lab of an intent and wait until every switch answers over NETCONF.

    With `timed_wires` a frame takes as long on a cable as the intent says. That is exact in virtual
    time; on a real clock it adds the wake-up latency of the machine at each hop.

    `emulation` says what nodes are, whatever the intent states of it: namespaces of this kernel, or
    kernels of their own, all in one virtual time, between which cables always take time. If gPTP
    keeps the clocks of these together it waits until they have settled, as far as they do.

    Raises:
        InputError: the intent cannot be emulated.
        CncError: it is up already, or the kernel refused; everything created is removed again.
    """
    management(intent)
    check_streams(intent)
    check_ports(intent)
    check_rates(intent)
    own_kernels = emulation.kernels is LabKernels.OWN
    if own_kernels:
        check_kernels(intent)
    else:
        check_clocks(intent)
        check_cables(intent, timed_wires=timed_wires)
    if os.geteuid() != 0:
        raise CncError(
            "a lab needs root: it creates network namespaces",
            hint="run it with sudo; or without root and without frames: `cnc lab up --rehearse`",
        )
    with _made(intent, state_root) as running:
        inventory.write(running.directory, inventory.of_intent(intent))
        if own_kernels:
            start(intent, running.directory, emulation)
        else:
            topology.build(intent, timed_wires=timed_wires)
            _start_switches(running)
            running.wait_ready()
    return running


def rehearse(intent: Intent, *, state_root: Path = STATE_ROOT) -> Lab:
    """Start the agents and NETCONF servers of an intent on loopback, with their ports in memory,
    and wait until they serve. It needs neither root nor a kernel with taprio, and carries no frame.

    Raises:
        InputError: a switch has no management address, or no link.
        CncError: it is up already, or sysrepo is missing, or a program does not start; nothing is
            left of it.
    """
    with _made(intent, state_root) as running:
        rehearsal.start(intent, running.directory)
    return running


@contextlib.contextmanager
def _made(intent: Intent, state_root: Path) -> Iterator[Lab]:
    """The lab of an intent, with an empty directory, to be brought up within a `with` block; an
    interrupted start leaves nothing behind.

    Raises:
        InputError: no lab can have the intent's name.
        CncError: it is up already.
    """
    directory = _own_directory(intent.name, state_root)
    state_root.mkdir(parents=True, exist_ok=True)
    try:
        directory.mkdir(mode=0o700)
    except FileExistsError:
        raise CncError(
            f"lab {intent.name} is up already ({directory})",
            hint=f"`cnc lab down {intent.name}` removes it, even after an interrupted start",
        ) from None
    try:
        yield Lab(intent, directory)
    except BaseException:
        _remove(intent.name, directory)
        raise


def down(name: str, *, state_root: Path = STATE_ROOT) -> None:
    """Remove a lab: processes, namespaces, shared memory, files. No lab of that name: no error.

    All processes in the lab's namespaces are ended, including those that users started there.

    Raises:
        CncError: the caller runs in one of them.
    """
    _remove(name, directory_of(name, state_root))


def _remove(name: str, directory: Path) -> None:
    if not directory.exists():
        return
    nodes = substrate_of(name, directory)
    if nodes.holds_this_process():
        raise CncError(
            f"lab {name} cannot go down from inside: this command runs on one of its nodes",
            hint="leave the node's shell first",
        )
    nodes.remove()
    shutil.rmtree(directory, ignore_errors=True)  # programs of a rehearsal take theirs with them


def names(*, state_root: Path = STATE_ROOT) -> list[str]:
    """The labs that are up, also those whose start was interrupted: this user's, else root's."""
    if not (found := _names_in(state_root)) and state_root == STATE_ROOT:
        found = _names_in(_OF_ROOT)
    return found


def _names_in(state_root: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in state_root.iterdir())
    except FileNotFoundError:
        return []


def only(*, state_root: Path = STATE_ROOT) -> str | None:
    """The default lab of a command: the one that is up; None if there is none.

    Raises:
        InputError: several are up.
    """
    labs = names(state_root=state_root)
    if len(labs) > 1:
        raise InputError(f"{len(labs)} labs are up: {', '.join(labs)}", hint="name one of them")
    return labs[0] if labs else None


def address(words: Sequence[str], *, state_root: Path = STATE_ROOT) -> tuple[str, Sequence[str]]:
    """Split off the lab's name at the beginning of `words`; without one it is the only lab.

    Raises:
        InputError: no lab is up, or several are and none of them is named.
    """
    if words[0] in names(state_root=state_root):
        return words[0], words[1:]
    name = only(state_root=state_root)
    if name is None:
        raise InputError("no lab is up", hint="`cnc lab up FILE` brings one up")
    return name, words


def status(name: str, *, state_root: Path = STATE_ROOT) -> list[NodeStatus]:
    """Every node of a lab; empty if there is no lab of that name."""
    directory = directory_of(name, state_root)
    nodes = substrate_of(name, directory)
    known = inventory.read(directory)
    return [
        NodeStatus(
            node=node,
            addresses=known[node].addresses if node in known else (),
            namespace=nodes.place(node),
            present=nodes.is_present(node),
            processes=nodes.pids(node),
        )
        for node in _nodes(directory)
    ]


def execute(name: str, node: str, argv: Sequence[str], *, state_root: Path = STATE_ROOT) -> int:
    """Run a command on a node with this process's terminal; returns its exit code.

    On a switch, sysrepo's tools find that switch's datastores.
    """
    directory = directory_of(name, state_root)
    rehearsed.refuse(name, directory)
    _check_node(name, node, directory)
    nodes = substrate_of(name, directory)
    code = 0
    if not nodes.ended():
        command = nodes.command(node, argv)
        environment = {**os.environ, **nodes.environment(node)}
        code = subprocess.run(command, env=environment, check=False).returncode
    check_alive(name, nodes)
    return code


def _check_node(name: str, node: str, directory: Path) -> None:
    known = _nodes(directory)
    if node not in known:
        raise InputError(
            f"lab {name} has no node {node}" if known else f"lab {name} is not up",
            hint=f"its nodes are {', '.join(known)}" if known else "`cnc lab up` brings it up",
        )


def check_alive(name: str, nodes: Substrate) -> None:
    """Refuse a lab that has ended by itself.

    Raises:
        CncError: it has; the reason.
    """
    if reason := nodes.ended():
        raise CncError(
            f"lab {name} has ended: {reason}", hint=f"`cnc lab down {name}` removes what is left"
        )


def shell(name: str, node: str, *, state_root: Path = STATE_ROOT) -> int:
    """Run the user's shell on a node, as `execute`; $CNC_NODE and its prompt say LAB/NODE.

    On a kernel of its own each line that is typed is a command of its own: time passes while one
    runs, and a shell that waits for the next would let years pass.
    """
    here = f"{name}/{node}"
    if own.is_written(directory := directory_of(name, state_root)):
        _check_node(name, node, directory)
        return _line_by_line(
            f"({here})# ", lambda argv: execute(name, node, argv, state_root=state_root)
        )
    # Debian's start-up files of bash put the name of a changed root into the prompt they set; sh
    # takes its prompt as it is.
    prompts = {"CNC_NODE": here, "debian_chroot": here, "PS1": f"({here})# "}
    argv = ["env", *(f"{key}={value}" for key, value in prompts.items())]
    return execute(name, node, [*argv, os.environ.get("SHELL", "/bin/sh")], state_root=state_root)


def _line_by_line(prompt: str, run: Callable[[Sequence[str]], int]) -> int:
    """Give each line of standard input to the user's shell; the exit code of the last."""
    with contextlib.suppress(ImportError):  # a Python without it has plain lines
        importlib.import_module("readline")  # `input` then has a history
    shell = os.environ.get("SHELL", "/bin/sh")
    code = 0
    while True:
        try:
            line = input(prompt)
            if line.strip() == "exit":
                return code
            if line.strip():
                code = run([shell, "-c", line])
        except EOFError:
            return code
        except KeyboardInterrupt:
            code = 128 + signal.SIGINT


@contextlib.contextmanager
def lab(
    intent: Intent,
    *,
    timed_wires: bool = False,
    emulation: Emulation = _SHARED,
    state_root: Path = STATE_ROOT,
) -> Iterator[Lab]:
    """A lab for the time of a `with` block; see `up`."""
    running = up(intent, timed_wires=timed_wires, emulation=emulation, state_root=state_root)
    try:
        yield running
    finally:
        down(intent.name, state_root=state_root)


def _start_switches(running: Lab) -> None:
    client = write_key_pair(running.identity)
    running.identity.with_suffix(".pub").write_text(f"{client}\n")
    addresses = {n: management_of(running.intent, n) for n in running.intent.network.managed}
    repository = template(running.intent.name, operators(running.intent), running.directory)
    known_hosts = []
    for name, endpoint in addresses.items():
        host_key = running.switch(name).prepare(repository)
        known_hosts.append(f"[{endpoint.address}]:{endpoint.port} {host_key}\n")
        for program in PROGRAMS:
            running.start(name, program)
    running.known_hosts.write_text("".join(known_hosts))


def directory_of(name: str, state_root: Path) -> Path:
    """Where all state of a lab is, if it is up.

    Raises:
        InputError: no lab can have this name, or this user may not read what that of another has.
    """
    directory = _own_directory(name, state_root)
    if state_root == STATE_ROOT and not directory.exists():
        directory = _OF_ROOT / name
    if directory.exists() and not os.access(directory, os.R_OK | os.X_OK):
        raise InputError(
            f"lab {name} is not yours: {directory} has its keys, which you may not read",
            hint="run this as root, who has started it",
        )
    return directory


def _own_directory(name: str, state_root: Path) -> Path:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", name):
        raise InputError(
            f"{name!r} cannot be a lab's name: letters, digits, '-' and '_' only",
            hint="a lab has the `name` of its intent: choose another there",
        )
    return state_root / name


def _nodes(directory: Path) -> list[str]:
    """The nodes of a lab by which commands are told where to run: in one of kernels with that from
    which its switches are managed."""
    nodes = [*inventory.read(directory)]
    return [CONTROLLER, *nodes] if nodes and own.is_written(directory) else nodes
