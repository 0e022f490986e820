"""The process that the programs of all simulated switches are forked from.

It has imported what they need, so that a program starts in the time of a fork, and all share those
pages. When whoever started it is gone, in whatever way, it ends the programs and removes what is
left of them: processes, shared memory, files.

    python -m tests.scale.nursery FD DIRECTORY SHM_PREFIX

Over the socket FD it takes `Start` and `End`, and answers each.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import select
import shutil
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from pathlib import Path

from agent import main as agent_main
from agent import netconfd
from tests.scale.chassis import Chassis
from tests.scale.kernel_on_disk import KernelOnDisk
from tests.scale.line import PORTS
from tests.scale.orders import AGENT, NETCONF_SERVER, End, Start
from tests.stack.repository import SHARED_MEMORY

AT_ONCE = 4  # programs that start at the same time
START_TIMEOUT_MS = 60_000
_POLL_S = 0.002
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def _run_agent(chassis: Chassis) -> int:
    kernel = KernelOnDisk(chassis.kernel, *PORTS)
    agent_main.KernelPorts = lambda _mechanisms, _emulated: kernel.ports  # type: ignore[misc,assignment]
    agent_main.Switch = lambda _ports: kernel  # type: ignore[misc,assignment]
    return agent_main.main(["--state-dir", str(chassis.directory / "agent")])


def _run_server(chassis: Chassis) -> int:
    where = chassis.management
    sys.argv = [
        *(NETCONF_SERVER, "--listen", f"{where.address}:{where.port}"),
        *("--host-key", str(chassis.host_key)),
        *("--authorized-keys", str(chassis.directory.parent / "identity.pub")),
        *("--state-dir", str(chassis.directory / "netconfd")),
        *("--peer-timeout", str(chassis.peer_timeout_s)),
    ]
    return netconfd.main()


_PROGRAMS: Mapping[str, Callable[[Chassis], int]] = {
    AGENT: _run_agent,
    NETCONF_SERVER: _run_server,
}


def main(fd: int, directory: Path, shm_prefix: str) -> None:
    """Serve until the other end of the socket is closed."""
    gc.freeze()  # or a collection in a child would touch, and so copy, every shared page
    programs: set[int] = set()
    connection = Connection(fd)
    try:
        with contextlib.suppress(EOFError, ConnectionError):
            while True:
                match connection.recv():
                    case Start(wanted):
                        connection.send(_start(wanted, programs))
                    case End(pid, number):
                        _end(pid, number)
                        programs.discard(pid)
                        connection.send(None)
    finally:
        for pid in programs:
            _end(pid, signal.SIGKILL)
        for segment in SHARED_MEMORY.glob(f"{shm_prefix}*"):
            segment.unlink()
        shutil.rmtree(directory)


def _start(wanted: tuple[tuple[Chassis, str], ...], programs: set[int]) -> list[int] | str:
    started: list[int] = []
    for first in range(0, len(wanted), AT_ONCE):
        batch = wanted[first : first + AT_ONCE]
        with contextlib.ExitStack() as stack:
            managers = [stack.enter_context(_notification_socket(*each)) for each in batch]
            pids = [_fork(*each) for each in batch]
            programs.update(pids)
            for pid, manager, (chassis, program) in zip(pids, managers, batch, strict=True):
                if not _says_ready(pid, manager):
                    return chassis.log(program).read_text()
        started += pids
    return started


def _fork(chassis: Chassis, program: str) -> int:
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        # The processes of a NETCONF server are struck together.
        os.setpgid(0, 0)
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        log = os.open(chassis.log(program), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.environ.update(chassis.repository.environment)
        os.environ["NOTIFY_SOCKET"] = str(_notification_path(chassis, program))
        status = _PROGRAMS[program](chassis)
    except BaseException:  # noqa: BLE001  the child must never return into the parent's code
        traceback.print_exc()
    finally:
        os._exit(status)


def _notification_path(chassis: Chassis, program: str) -> Path:
    return chassis.directory / f"{program}.notify"


def _notification_socket(chassis: Chassis, program: str) -> socket.socket:
    path = _notification_path(chassis, program)
    path.unlink(missing_ok=True)
    manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    manager.bind(str(path))
    return manager


def _says_ready(pid: int, manager: socket.socket) -> bool:
    end = os.pidfd_open(pid)
    try:
        poll = select.poll()
        poll.register(end, select.POLLIN)
        poll.register(manager, select.POLLIN)
        return manager.fileno() in dict(poll.poll(START_TIMEOUT_MS))
    finally:
        os.close(end)


def _end(pid: int, number: signal.Signals) -> None:
    """End a program with all its processes. Not reaped before this, it keeps its id."""
    os.killpg(pid, number)
    os.killpg(pid, signal.SIGCONT)  # one that is stopped hears only SIGKILL
    os.waitpid(pid, 0)
    with contextlib.suppress(ProcessLookupError):
        while True:
            os.killpg(pid, 0)
            time.sleep(_POLL_S)


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
