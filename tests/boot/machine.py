"""Debian machines with systemd, of the image that scripts/image builds: what all kinds share.

    with Emulated(image, "switch", links=[one_end]) as switch:     # boots at once, returns at once
        switch.wait()                                              # until root can log in
        switch.put(package, "/root/tsn-switch.deb")
        switch.run("dpkg -i /root/tsn-switch.deb")                 # CommandFailed unless it exits 0

    kind                 has its own      boots in    for
    emulated.Emulated    kernel, clocks   a minute    gates, clocks, reboots, power cuts
    container.Container  neither          a second    everything else

Everything a machine writes is gone when it ends: its disk is a temporary layer over the image. It
has no way out to any network. `ssh_config` names it for ssh, scp and Ansible, with its own host key
already known.

The interfaces enp0s17.. are one for each of `links`, down and without an address.
"""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import tarfile
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self

from tests.boot.limits import patient

MANAGEMENT_SLOT = 0x10  # the PCI slot of an emulated management interface names it: enp0s16
POLL_S = 0.5
# Maybe emulated, and maybe beside other machines: slow is not broken.
BOOT_LIMIT_S = patient(600)
COMMAND_LIMIT_S = patient(600)


class MachineError(Exception):
    """A machine did not come up or is gone; the text has the end of its console."""


class CommandFailed(AssertionError):
    """A command in a machine did not exit with 0; the text has what it wrote."""


@dataclass(frozen=True)
class Result:
    """What became of a command in a machine."""

    code: int
    stdout: str
    stderr: str


@dataclass(frozen=True)
class LinkEnd:
    """One end of an Ethernet link: paths for whoever is at this end, and at the other."""

    local: Path
    remote: Path


def link(directory: Path, name: str = "link") -> tuple[LinkEnd, LinkEnd]:
    """Both ends of a link, for the `links` of two machines of one kind that start in any order.

    `directory` must be short: a socket's path has at most 107 octets.
    """
    near, far = directory / f"{name}.a", directory / f"{name}.b"
    return LinkEnd(near, far), LinkEnd(far, near)


class Machine(ABC):
    """One machine. As a context it boots; leaving it ends it without ceremony.

    - `image`: directory that scripts/image printed.
    - `name`: its host name.
    - `links`: see `link`.
    - `files`: absolute path -> text, in place before systemd starts for the first time; a text that
      begins with #! is executable.
    """

    own_kernel: ClassVar[bool]
    """Whether it has what tests with the marker of this name need."""

    def __init__(
        self,
        image: Path,
        name: str,
        *,
        links: Sequence[LinkEnd] = (),
        files: Mapping[str, str] | None = None,
    ) -> None:
        self.image, self.name, self.links = image, name, tuple(links)
        self.files = dict(files or {})
        self.directory = Path(tempfile.mkdtemp(prefix=f"tsn-{name}-"))
        self.console = self.directory / "console"
        self.ssh_config = self.directory / "ssh_config"
        self.known_hosts = self.directory / "known_hosts"
        self.identity = self.directory / "id"
        self._log = self.directory / "log"
        self._process: subprocess.Popen[bytes] | None = None
        for key in ("id", "host"):
            _keygen(self.directory / key, comment=f"{key}@{name}")

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    # --- what a kind of machine adds --------------------------------------------------------------

    @abstractmethod
    def _command(self, seed: Path) -> list[str]:
        """What runs the machine, as long as it is on. `seed` is an archive with its own files."""

    @abstractmethod
    def _way_in(self) -> tuple[str, str]:
        """Lines for ssh_config(5) that lead to it, and its name in a file of known hosts."""

    @abstractmethod
    def _greets(self) -> bool:
        """Whether it is worth while to try a login."""

    # --- access -----------------------------------------------------------------------------------

    @property
    def host_key(self) -> str:
        """Public half of the SSH host key that the machine was given: type and key, no comment."""
        return " ".join((self.directory / "host.pub").read_text(encoding="ascii").split()[:2])

    def run(
        self,
        command: str,
        *,
        check: bool = True,
        timeout_s: float = COMMAND_LIMIT_S,
        stdin: bytes = b"",
    ) -> Result:
        """Run a shell command as root.

        Raises CommandFailed when it does not exit with 0, unless `check` is false;
        subprocess.TimeoutExpired after `timeout_s`.
        """
        done = subprocess.run(
            ["ssh", "-F", self.ssh_config, self.name, command],
            input=stdin,
            capture_output=True,
            timeout=timeout_s,
            check=False,
        )
        result = Result(
            done.returncode,
            done.stdout.decode(errors="replace"),
            done.stderr.decode(errors="replace"),
        )
        if check and result.code != 0:
            raise CommandFailed(
                f"{self.name}: {command}\nexit code {result.code}\n{result.stdout}{result.stderr}"
            )
        return result

    def json(self, command: str) -> Any:
        """What a command writes as JSON."""
        return json.loads(self.run(command).stdout)

    def put(self, source: Path, target: str) -> None:
        """Copy a file of this machine to the absolute path `target` there."""
        self.write(target, source.read_bytes())

    def write(self, target: str, content: bytes) -> None:
        """Write a file, with the directories above it."""
        path = shlex.quote(target)
        self.run(f"mkdir -p $(dirname {path}) && cat > {path}", stdin=content)

    def journal(self, *options: str) -> list[dict[str, Any]]:
        """Entries of the journal that `options` of journalctl choose, oldest first.

        Fields as journald names them; `__MONOTONIC_TIMESTAMP` and the like are decimal texts.
        """
        text = self.run(f"journalctl --output json --no-pager {shlex.join(options)}").stdout
        return [json.loads(line) for line in text.splitlines()]

    # --- life -------------------------------------------------------------------------------------

    def start(self) -> None:
        """Switch it on; `wait` tells when it is up. Raises MachineError if it cannot be."""
        seed = self.directory / "seed.tar"
        self._write_seed(seed)
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                # It must not outlive the test run, however that ends.
                ["setpriv", "--pdeathsig", "KILL", *self._command(seed)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._write_ssh_config()

    def wait(self, limit_s: float = BOOT_LIMIT_S) -> Self:
        """Wait until root can log in. Raises MachineError if nobody can after `limit_s`."""
        deadline = time.monotonic() + limit_s
        while not (self._greets() and self.run("true", check=False).code == 0):
            self._raise_if_gone()
            if time.monotonic() > deadline:
                raise MachineError(
                    f"{self.name}: no login after {limit_s:g} s\n{self.last_words()}"
                )
            time.sleep(POLL_S)
        return self

    def wait_booted(self) -> str:
        """Wait until systemd has nothing left to start: `running`; `degraded` if a unit failed."""
        return self.run("systemctl is-system-running --wait", check=False).stdout.strip()

    def stop(self) -> None:
        """End it at once, as pulling the plug does, and remove its files."""
        self._hang_up()
        if self._process:
            self._process.kill()
            self._process.wait()
            self._process = None
        shutil.rmtree(self.directory, ignore_errors=True)

    def last_words(self, lines: int = 30) -> str:
        """The end of the console, and what the program that runs the machine had to say."""
        texts = [
            path.read_text(encoding="utf-8", errors="replace")
            for path in (self.console, self._log)
            if path.exists()
        ]
        return "\n".join("\n".join(text.splitlines()[-lines:]) for text in texts)

    # --- how --------------------------------------------------------------------------------------

    def _write_seed(self, path: Path) -> None:
        """The files of this machine alone, as an archive to be unpacked over the image."""
        own = {
            "/etc/hostname": (f"{self.name}\n", 0o644),
            "/etc/hosts": (f"127.0.0.1 localhost\n127.0.1.1 {self.name}\n", 0o644),
            "/etc/ssh/ssh_host_ed25519_key": (_text(self.directory / "host"), 0o600),
            "/etc/ssh/ssh_host_ed25519_key.pub": (_text(self.directory / "host.pub"), 0o644),
            "/root/.ssh/authorized_keys": (_text(self.directory / "id.pub"), 0o600),
            **{
                name: (text, 0o755 if text.startswith("#!") else 0o644)
                for name, text in self.files.items()
            },
        }
        with tarfile.open(path, "w") as archive:
            for name, (text, mode) in own.items():
                member = tarfile.TarInfo(name.lstrip("/"))
                content = text.encode()
                member.size, member.mode, member.mtime = len(content), mode, int(time.time())
                archive.addfile(member, BytesIO(content))

    def _write_ssh_config(self) -> None:
        way_in, known_as = self._way_in()
        self.known_hosts.write_text(f"{known_as} {self.host_key}\n", encoding="ascii")
        self.ssh_config.write_text(
            f"Host {self.name}\n"
            f"{way_in}  User root\n"
            f"  IdentityFile {self.identity}\n  IdentitiesOnly yes\n  BatchMode yes\n"
            f"  UserKnownHostsFile {self.known_hosts}\n  StrictHostKeyChecking yes\n"
            # One connection for all commands: each new one costs seconds under emulation.
            f"  ControlMaster auto\n  ControlPath {self.directory}/control\n"
            "  ControlPersist 600\n  ConnectTimeout 60\n  LogLevel ERROR\n",
            encoding="ascii",
        )

    def _hang_up(self) -> None:
        """Forget the shared SSH connection: it would not notice that the machine is gone."""
        subprocess.run(
            ["ssh", "-F", self.ssh_config, "-O", "exit", self.name],
            capture_output=True,
            check=False,
        )

    def _raise_if_gone(self) -> None:
        if self._process is None or self._process.poll() is not None:
            raise MachineError(f"{self.name}: the machine is off\n{self.last_words()}")


def _keygen(path: Path, *, comment: str) -> None:
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", path], check=True
    )


def _text(path: Path) -> str:
    return path.read_text(encoding="ascii")
