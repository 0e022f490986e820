"""A switch or managed end station of a lab: a namespace with its own sysrepo, keys, agent and
NETCONF server."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from cnc.errors import CncError
from cnc.mechanisms.loading import broken, had
from cnc.model import Management
from cnc.testbed.lab import own_group
from cnc.testbed.lab.namespaces import members, of_template
from cnc.testbed.lab.process import spawn, stop

AGENT = "tsn-agent"
NETCONF_SERVER = "tsn-netconfd"
CLOCK_SERVICE = "tsn-clock"
PROGRAMS = (AGENT, NETCONF_SERVER)
# The agent counts on the clock service from its start on.
PROGRAMS_OF_A_KERNEL = (CLOCK_SERVICE, *PROGRAMS)

YANG = Path(__file__).parents[2] / "yang"
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108  sysrepo's directory, not a temporary file
LOG_LINES_SHOWN = 15


@dataclass(frozen=True, slots=True)
class Switch:
    """One node of a lab: its namespace and the directory of its files.

    `rates_bps`: what the links of its ports are to carry, by port; its gates reckon with that.
    `own_clock`: it is a kernel of its own, so that no other node has its clock.
    """

    name: str
    namespace: str
    directory: Path
    rates_bps: Mapping[str, int] = field(default_factory=dict)
    own_clock: bool = False

    @property
    def repository(self) -> Path:
        return self.directory / "sysrepo"

    @property
    def shm_prefix(self) -> str:
        # With the full stop the prefix of s1 does not match the segments of s10.
        return f"{self.namespace}."

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables that select this switch's sysrepo, and let this user use it."""
        return {
            **own_group.environment(),
            "SYSREPO_REPOSITORY_PATH": str(self.repository),
            "SYSREPO_SHM_PREFIX": self.shm_prefix,
        }

    @property
    def agent_state(self) -> Path:
        """The agent's own directory."""
        return self.directory / "agent"

    def log(self, program: str) -> Path:
        return self.directory / f"{program}.log"

    def prepare(self, template: Path) -> str:
        """Give the switch its datastore and host key; returns the public host key."""
        self.directory.mkdir(mode=0o700)
        shutil.copytree(template, self.repository, copy_function=shutil.copy)
        return write_key_pair(self.directory / "host-key")

    def command(self, program: str, management: Management, authorized_keys: Path) -> list[str]:
        """The command line of the agent, the NETCONF server or the clock service."""
        argv = [executable(program)]
        if program == NETCONF_SERVER:
            address = management.address
            host = f"[{address}]" if ":" in address else address
            argv += ["--listen", f"{host}:{management.port}"]
            argv += ["--host-key", str(self.directory / "host-key")]
            argv += ["--authorized-keys", str(authorized_keys)]
            argv += ["--state-dir", str(self.directory / "netconfd")]
        if program == CLOCK_SERVICE:
            argv += ["--state-dir", str(self.agent_state)]
        if program == AGENT:
            argv += ["--state-dir", str(self.agent_state)]
            if not self.own_clock:
                argv.append("--shared-clock")
            if self.rates_bps:
                rates = ",".join(f"{port}={bps}" for port, bps in self.rates_bps.items())
                argv += ["--emulate", rates]
        return argv

    def start(self, program: str, management: Management, authorized_keys: Path) -> int:
        """Start one of its programs; returns its process id."""
        argv = self.command(program, management, authorized_keys)
        pid = spawn(self.namespace, argv, environment=self.environment, log=self.log(program))
        (self.directory / f"{program}.pid").write_text(f"{pid}\n")
        return pid

    def pid(self, program: str) -> int | None:
        """The process id of a program that runs in this switch's namespace, else None."""
        try:
            pid = int((self.directory / f"{program}.pid").read_text())
        except FileNotFoundError:
            return None
        return pid if pid in members(self.namespace) else None

    def log_tail(self) -> str:
        """The last lines of each program's log, for an error message."""
        tails = []
        for program in PROGRAMS_OF_A_KERNEL:
            try:
                lines = self.log(program).read_text(errors="replace").splitlines()
            except FileNotFoundError:
                continue
            tails += [f"{self.name} {program}: {line}" for line in lines[-LOG_LINES_SHOWN:]]
        return "\n".join(tails)

    def forget(self) -> None:
        """End every process of the switch, and remove its shared memory and its BPF objects."""
        stop(dict.fromkeys(members(self.namespace), self.namespace))
        bpf_objects = self.agent_state / "bpf"
        if bpf_objects.is_mount():
            subprocess.run(["umount", bpf_objects], check=True)
        # Only now: sysrepo's segments must not be removed while a process is connected to them.
        for segment in SHARED_MEMORY.glob(f"{self.shm_prefix}*"):
            segment.unlink(missing_ok=True)


def make_template(directory: Path, lab: str, operators: Iterable[str]) -> Path:
    """A sysrepo repository with every module of `yang/`, to copy from.

    Its only configuration is access control, which permits the users `operators` everything.
    """
    template = Switch("template", of_template(lab), directory / "template")
    template.directory.mkdir(mode=0o700)
    try:
        for command in (
            ["install", *(part for module in others_yang() for part in ("--module", str(module)))],
            ["access-control", *(part for user in operators for part in ("--operator", user))],
        ):
            _run_of_yang(command, template.environment)
    finally:
        template.forget()
    return template.repository


def others_yang() -> list[Path]:
    """The YANG modules of mechanisms that are not ours: the entry points of the group `tsn.yang`
    name a file each. Raises CncError where one cannot be had."""
    return sorted(_yang(each) for each in entry_points(group="tsn.yang"))


def _yang(entry: EntryPoint) -> Path:
    file = had(entry)
    if not isinstance(file, Path) or not file.is_file():
        raise broken(entry, f"{file} is no pathlib.Path of a file")
    return file


def tools_path() -> str:
    """PATH with sysrepo's own tools, which scripts/setup puts beside this Python."""
    return f"{Path(sys.prefix) / 'sysrepo/bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}"


def _run_of_yang(command: Sequence[str], environment: Mapping[str, str]) -> None:
    script, *arguments = command
    run = subprocess.run(
        [YANG / script, *arguments],
        env={**os.environ, **environment, "PATH": tools_path()},
        capture_output=True,
        text=True,
        check=False,
    )
    if run.returncode != 0:
        raise CncError(
            f"sysrepo could not be set up, yang/{script} failed:\n{run.stderr.strip()}",
            hint="scripts/setup installs sysrepo and its tools",
        )


def write_key_pair(path: Path) -> str:
    """A new Ed25519 key in OpenSSH's format at `path` (0600) and `path`.pub; returns the latter."""
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(private)
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    path.with_name(f"{path.name}.pub").write_text(f"{public}\n")
    return public


def executable(program: str) -> str:
    """The program of this Python environment, or the one on PATH."""
    beside = Path(sys.executable).with_name(program)
    path = str(beside) if beside.exists() else shutil.which(program)
    if path is None:
        raise CncError(f"{program} is not installed", hint="scripts/setup installs it")
    return path
