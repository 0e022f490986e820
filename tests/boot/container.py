"""Machines in systemd-nspawn: the same Debian in namespaces of this machine's kernel.

A container boots in a second, but shares kernel and clocks with this machine. The kernel may have
no taprio and no VLANs, and a container may not set a clock (systemd-nspawn gives it no
CAP_SYS_TIME): tests that need one of these are marked `own_kernel`.

Mounts, processes and interfaces are in namespaces that exist as long as the container: an overlay
in memory over the image's disk, and a network that has nothing but `links`. Whatever ends the
container, the kernel takes them back, and no other program has seen them. Only control groups are
left to this module: each container has its own, since two systemd cannot share one.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from tests.boot.limits import patient
from tests.boot.machine import MANAGEMENT_SLOT, LinkEnd, Machine, MachineError

CONNECT = Path(__file__).with_name("connect.py")
# The names of control groups begin with this and the process id of the test run.
GROUP_PREFIX = "tsn-container-"
START_LIMIT_S = patient(60)
HALT_LIMIT_S = patient(10)
POLL_S = 0.02
# The first process of the namespaces. Arguments: disk, seed, name, control groups. systemd-nspawn
# keeps its state in /run, where another container's would have the same name.
START = """
disk=$1 seed=$2 name=$3
shift 3
for group; do echo 0 >"$group/cgroup.procs"; done
mount -t tmpfs -o mode=755 tmpfs /run
cd /run
mkdir image upper work root
mount -o ro,loop,noload "$disk" image
mount -t overlay -o lowerdir=image,upperdir=upper,workdir=work overlay root
tar -x -f "$seed" -C root
exec systemd-nspawn --quiet --settings=no --directory=root --boot --machine="$name" \
    --register=no --keep-unit --link-journal=no --resolv-conf=off --timezone=off \
    --network-namespace-path=/proc/self/ns/net --capability=CAP_NET_ADMIN,CAP_BPF
"""


class Container(Machine):
    """A machine in systemd-nspawn. It needs root, and to make control groups."""

    own_kernel = False

    def start(self) -> None:
        """Switch it on; `wait` tells when it is up. Raises MachineError if it cannot be."""
        name = f"{GROUP_PREFIX}{os.getpid()}-{self.directory.name}"
        self._groups = [top / name for top in _hierarchies()]
        _remove_groups_of_ended_runs()
        try:
            for group in self._groups:
                group.mkdir()
        except OSError as error:
            raise MachineError(
                f"{self.name}: a container needs root and a writable /sys/fs/cgroup: {error}"
            ) from None
        super().start()
        self._wait_for_network()
        for number, end in enumerate(self.links, MANAGEMENT_SLOT + 1):
            self._plug(end, f"enp0s{number}")

    def stop(self) -> None:
        """Shut down in order, since the CPU time of what is killed would not be counted.

        A container that is not off within seconds is killed. Its files are removed.
        """
        self._hang_up()
        if self._process:
            for supervisor in self._children():
                with suppress(ProcessLookupError):
                    os.kill(supervisor, signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(HALT_LIMIT_S)
        super().stop()
        for group in self._groups:
            _remove_when_empty(group)

    def in_network(self, *command: str | Path) -> subprocess.CompletedProcess[str]:
        """What becomes of a program of this machine in the container's network."""
        return subprocess.run(
            ["nsenter", f"--net={self._network}", *command],
            capture_output=True,
            text=True,
            check=False,
        )

    def _command(self, seed: Path) -> list[str]:
        return [
            *("unshare", "--mount", "--net", "--pid", "--mount-proc"),
            *("--fork", "--kill-child=KILL"),
            *("sh", "-eu", "-c", START, "sh", f"{self.image}/disk.ext4", str(seed), self.name),
            *map(str, self._groups),
        ]

    def _way_in(self) -> tuple[str, str]:
        """The container has an SSH server of its own, but no interface that leads out."""
        into = shlex.join(
            ["nsenter", f"--net={self._network}", sys.executable, "-I", str(CONNECT), "22"]
        )
        return f"  ProxyCommand {into}\n  ProxyUseFdpass yes\n", self.name

    def _greets(self) -> bool:
        return True

    @property
    def _pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def _network(self) -> Path:
        return Path(f"/proc/{self._pid}/ns/net")

    def _children(self) -> list[int]:
        """systemd-nspawn, in the namespaces that `_process` has made for it."""
        with suppress(OSError):
            listed = Path(f"/proc/{self._pid}/task/{self._pid}/children").read_text("ascii")
            return list(map(int, listed.split()))
        return []

    def _wait_for_network(self) -> None:
        deadline = time.monotonic() + START_LIMIT_S
        ours = Path("/proc/self/ns/net").readlink()
        while time.monotonic() < deadline:
            self._raise_if_gone()
            with suppress(OSError):  # it may end just now
                if self._network.readlink() != ours:
                    return
            time.sleep(POLL_S)
        raise MachineError(f"{self.name}: no namespaces after {START_LIMIT_S:g} s")

    def _plug(self, end: LinkEnd, interface: str) -> None:
        """Say who is at this end; whoever comes second makes the link."""
        end.local.write_text(f"{interface} netns {self._pid}", encoding="ascii")
        if end.remote.exists():
            ends = [each.read_text(encoding="ascii").split() for each in (end.local, end.remote)]
            command = ["ip", "link", "add", *ends[0], "type", "veth", "peer", "name", *ends[1]]
            subprocess.run(command, check=True)


def groups_of_run(run: int) -> list[Path]:
    """The control groups of all containers that a test run, a process id, has started."""
    return [group for top in _hierarchies() for group in top.glob(f"{GROUP_PREFIX}{run}-*")]


def _hierarchies() -> Iterator[Path]:
    """Where systemd keeps its control groups: version 2, version 1, or both on a hybrid."""
    for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines():
        _, where, kind, options, *_ = line.split()
        if kind == "cgroup2" or (kind == "cgroup" and "name=systemd" in options.split(",")):
            yield Path(where)


def _remove_groups_of_ended_runs() -> None:
    """Remove the control groups of test runs that were killed, once their processes have ended."""
    for top in _hierarchies():
        for group in top.glob(f"{GROUP_PREFIX}*"):
            run = group.name.removeprefix(GROUP_PREFIX).partition("-")[0]
            if not Path("/proc", run).exists():
                with suppress(OSError):
                    _remove_tree(group)


def _remove_when_empty(group: Path) -> None:
    """Remove a control group. The last processes in it may be just about to end."""
    deadline = time.monotonic() + START_LIMIT_S
    while group.exists():
        try:
            _remove_tree(group)
        except OSError as error:
            if time.monotonic() > deadline:
                raise MachineError(f"{group}: processes of a container do not end") from error
            time.sleep(POLL_S)


def _remove_tree(group: Path) -> None:
    """Remove a control group with those below it. Raises OSError if there is a process in one."""
    for directory, _, _ in os.walk(group, topdown=False):
        Path(directory).rmdir()
