"""Switches without a network: real agents and NETCONF servers on loopback, with ports in memory.

They need no namespaces and no taprio, and carry no frames: enough to try a controller, or to
measure it. They end with the process that started them, however it ends.
"""

from __future__ import annotations

import grp
import importlib.util
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from getpass import getuser
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

from cnc.errors import CncError
from cnc.lab import supervisor
from cnc.lab.switch import AGENT, PROGRAMS, Switch, tools_path, write_key_pair
from cnc.lab.template import template
from cnc.model import Management
from cnc.switch.device import ConnectOptions

NETCONF_PORT = 8300  # not a privileged port
SYSREPO_GROUP = "sysrepo"  # Debian's packages and scripts/setup build it for this one


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """Running switches by name: how to reach them, and the process ids of their programs."""

    managements: Mapping[str, Management]
    connect: ConnectOptions
    pids: Mapping[str, Mapping[str, int]]


@contextmanager
def rehearsal(
    names: Sequence[str], ports: Sequence[str], *, bridge: str | None = None
) -> Iterator[Rehearsal]:
    """Switches with these names, each with these ports, for the time of a `with` block. With the
    name of a `bridge` each has that bridge, and all ports are its members.

    Raises:
        CncError: sysrepo is not installed, or a program does not start.
    """
    _require_sysrepo()
    directory = Path(tempfile.mkdtemp(prefix="cnc-rehearsal-"))
    with _supervisor(directory) as process, loopback_network() as network:
        switches = [
            Switch(name, f"tsn-{directory.name}-{name}", directory / name) for name in names
        ]
        managements = {
            name: Management(str(network + number), NETCONF_PORT, getuser())
            for number, name in enumerate(names, start=1)
        }
        connect = ConnectOptions(directory / "client-key", directory / "known_hosts")
        write_key_pair(connect.identity)
        repository = template(directory.name, [getuser()], directory)
        host_keys = {switch.name: switch.prepare(repository) for switch in switches}
        connect.known_hosts.write_text(
            "".join(
                f"[{managements[name].address}]:{NETCONF_PORT} {host_key}\n"
                for name, host_key in host_keys.items()
            )
        )
        rehearsed = ["--rehearse", ",".join(ports)]
        if bridge is not None:
            rehearsed += ["--rehearse-bridge", bridge]
        authorized_keys = connect.identity.with_suffix(".pub")
        programs = [
            {
                "name": f"{program} of {switch.name}",
                "argv": switch.command(program, managements[switch.name], authorized_keys)
                + (rehearsed if program == AGENT else []),
                # What a program that is killed leaves behind goes with the directory.
                "environment": {**switch.environment, "TMPDIR": str(directory)},
                "log": str(switch.log(program)),
            }
            for switch in switches
            for program in PROGRAMS
        ]
        pids = iter(_start(process, programs, switches))
        yield Rehearsal(
            managements,
            connect,
            {name: {program: next(pids) for program in PROGRAMS} for name in names},
        )


def _require_sysrepo() -> None:
    if (
        shutil.which("sysrepoctl", path=tools_path()) is None
        or importlib.util.find_spec("sysrepo") is None
    ):
        raise CncError(
            "this starts switches on this machine, and they need sysrepo, which is not installed",
            hint="`scripts/setup` installs it (not so with --cnc), on Debian 12 or 13; "
            "sysrepoctl must be on PATH",
        )
    try:
        group = grp.getgrnam(SYSREPO_GROUP).gr_gid
    except KeyError:
        return
    if os.geteuid() != 0 and group not in (os.getegid(), *os.getgroups()):
        raise CncError(
            "this starts switches on this machine, and sysrepo lets only root and the group "
            f"{SYSREPO_GROUP} do that",
            hint=f"`sudo adduser {getuser()} {SYSREPO_GROUP}`, then log in again; or use sudo",
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


@contextmanager
def _supervisor(directory: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that ends and removes everything when the block ends, or this process."""
    process = subprocess.Popen(
        # The full stop or hyphen after the name excludes longer names with the same beginning.
        [sys.executable, "-I", supervisor.__file__, directory, f"tsn-{directory.name}[.-]"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # Ctrl-C is for this process; its end closes the standard input
    )
    with process:  # which closes its input, and waits
        yield process


@contextmanager
def loopback_network() -> Iterator[IPv4Address]:
    """The first address of a /16 of loopback that no other process has claimed in this way."""
    with socket.socket() as claim:
        for second in range(1, 255):
            network = IPv4Address(f"127.{second}.0.0")
            try:
                claim.bind((str(network), NETCONF_PORT))
            except OSError:
                continue
            yield network
            return
        raise CncError(
            f"no free network on loopback: port {NETCONF_PORT} is in use on every one",
            hint="`ss -tlnp` shows which process",
        )
