"""Programs that start in no time: forks of one process that has done all imports.

In user-mode Linux a Python program takes seconds to read its modules; a matrix starts hundreds.
A fork is the same program from its `main` on.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.context import ForkServerProcess
from multiprocessing.synchronize import Event
from pathlib import Path

from pyroute2 import netns

from agent.main import main as agent
from agent.netconfd.front.server import main as netconf_server
from cnc.cli import main as controller
from cnc.testbed.lab.switch import AGENT, NETCONF_SERVER
from tests.fault import instruments
from tests.fault.probe import Probe

CONTROLLER = "cnc"
# As the process calls itself.
BROKER = "netconf-broker"
# What the commands of `cnc` import only when they run.
_IMPORTED_LATE = ("cnc.check", "cnc.plans.file", "cnc.rollout", "rich.table")

_PROGRAMS: Mapping[str, Callable[[], int | None]] = {
    AGENT: agent,
    NETCONF_SERVER: netconf_server,
    CONTROLLER: controller,
}


@dataclass(frozen=True, slots=True)
class Command:
    """What to run, with both outputs appended to `log`.

    With the path of a `director` the program is probed; a controller at what it does with the
    switch `struck`, which has the address `struck_address`.
    """

    argv: Sequence[str]
    environment: Mapping[str, str]
    log: Path
    namespace: str | None = None
    director: Path | None = None
    struck: str = ""
    struck_address: str = ""


class Processes:
    """Starts programs."""

    def __init__(self) -> None:
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload([__name__, *_IMPORTED_LATE])

    def start(self, command: Command) -> ForkServerProcess:
        """Run a command; returns when it is in its namespace."""
        running = self._context.Event()
        process = self._context.Process(target=_run, args=(command, running), daemon=True)
        process.start()
        running.wait()
        return process


def _run(command: Command, running: Event) -> None:
    os.setsid()
    os.environ.update(command.environment)
    output = os.open(command.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(output, sys.stdout.fileno())
    os.dup2(output, sys.stderr.fileno())
    if command.namespace:
        netns.setns(command.namespace, flags=0)
    program = Path(command.argv[0]).name
    if command.director:
        _instrument(program, command.director, command.struck, command.struck_address)
    running.set()
    sys.argv = list(command.argv)
    sys.exit(_PROGRAMS[program]())


def _instrument(program: str, director: Path, struck: str, struck_address: str) -> None:
    if program == NETCONF_SERVER:
        instruments.broker(partial(Probe, director, BROKER))
        return
    probe = Probe(director, program)
    if program == CONTROLLER:
        instruments.rpcs(probe, struck_address)
        instruments.journal(probe, struck)
    elif program == AGENT:
        instruments.netlink(probe)
        instruments.batches(probe)
        instruments.bpf(probe)
    instruments.files(probe)
