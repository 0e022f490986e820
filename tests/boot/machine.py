"""Debian machines with systemd, booted in QEMU from the image that scripts/image builds.

    with Machine(image, "switch", links=[one_end]) as switch:      # boots at once, returns at once
        switch.wait()                                              # until root can log in
        switch.put(package, "/root/tsn-switch.deb")
        switch.run("dpkg -i /root/tsn-switch.deb")                 # CommandFailed unless it exits 0
        switch.reboot()                                            # back when root can log in again

Everything a machine writes is gone when it ends: its disk is a temporary layer over the image. It
has no way out to any network. It is reached through forwarded ports of 127.0.0.1 (`port(22)`,
`port(830)`); `ssh_config` names it for ssh, scp and Ansible, with its own host key already known.

    interface  is
    enp0s16    management, 10.0.2.15/24, configured by the image
    enp0s17..  one for each of `links`, down and without an address; one transmit queue
"""

from __future__ import annotations

import json
import shlex
import shutil
import socket
import subprocess
import tarfile
import tempfile
import time
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from types import TracebackType
from typing import Any, Self

FIRST_SLOT = 0x10  # the PCI slot of the management interface names it: enp0s16
POLL_S = 0.5
# Emulated, and maybe beside other machines: slow is not broken.
BOOT_LIMIT_S = 600.0
COMMAND_LIMIT_S = 600.0


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
    """One end of an Ethernet link: a datagram socket, and that of the other end."""

    local: Path
    remote: Path


def link(directory: Path, name: str = "link") -> tuple[LinkEnd, LinkEnd]:
    """Both ends of a link, for the `links` of two machines, which may start in any order.

    `directory` must be short: a socket's path has at most 107 octets.
    """
    near, far = directory / f"{name}.a", directory / f"{name}.b"
    return LinkEnd(near, far), LinkEnd(far, near)


class Machine:
    """One emulated machine. As a context it boots; leaving it ends it without ceremony.

    - `image`: directory that scripts/image printed.
    - `name`: its host name.
    - `memory`: as QEMU writes sizes.
    - `links`: see `link`.
    - `forward`: TCP ports of the machine that are reached at `port(...)`.
    - `files`: absolute path -> text, in place before systemd starts for the first time; a text that
      begins with #! is executable.
    """

    def __init__(
        self,
        image: Path,
        name: str,
        *,
        memory: str = "768M",
        links: Sequence[LinkEnd] = (),
        forward: Sequence[int] = (22, 830),
        files: Mapping[str, str] | None = None,
    ) -> None:
        self.image, self.name, self.memory, self.links = image, name, memory, tuple(links)
        self.files = dict(files or {})
        self.directory = Path(tempfile.mkdtemp(prefix=f"tsn-{name}-"))
        self.console = self.directory / "console"
        self.ssh_config = self.directory / "ssh_config"
        self.known_hosts = self.directory / "known_hosts"
        self.identity = self.directory / "id"
        self._ports = {port: _free_port() for port in forward}
        self._process: subprocess.Popen[bytes] | None = None
        for key in ("id", "host"):
            _keygen(self.directory / key, comment=f"{key}@{name}")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    # --- access -----------------------------------------------------------------------------------

    def port(self, guest_port: int) -> int:
        """The port of 127.0.0.1 that leads to this TCP port of the machine."""
        return self._ports[guest_port]

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
        """Switch it on; `wait` tells when it is up."""
        self._write_ssh_config()
        seed = self.directory / "seed.tar"
        self._write_seed(seed)
        with (self.directory / "emulator").open("wb") as log:
            self._process = subprocess.Popen(
                # It must not outlive the test run, however that ends.
                ["setpriv", "--pdeathsig", "KILL", *self._emulator(seed)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

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

    def reboot(self) -> None:
        """Shut down in order, boot again, and return when root can log in."""
        before = self._boot_id()
        self.run("systemctl --no-block reboot")
        self._hang_up()
        self._wait_for_other_boot(before)

    def cut_power(self) -> None:
        """Boot again as after a power failure: nothing is stopped, nothing written."""
        before = self._boot_id()
        self._hang_up()
        self._monitor("system_reset")
        self._wait_for_other_boot(before)

    def power_off(self) -> None:
        """Shut down in order; the machine is then gone, with what it has written."""
        self.run("systemctl --no-block poweroff", check=False)
        self._hang_up()
        if self._process:
            self._process.wait(BOOT_LIMIT_S)

    def stop(self) -> None:
        """End it at once, as pulling the plug does, and remove its files."""
        self._hang_up()
        if self._process:
            self._process.kill()
            self._process.wait()
            self._process = None
        shutil.rmtree(self.directory, ignore_errors=True)

    def last_words(self, lines: int = 30) -> str:
        """The end of the console, and what the emulator itself had to say."""
        texts = [
            path.read_text(encoding="utf-8", errors="replace")
            for path in (self.console, self.directory / "emulator")
            if path.exists()
        ]
        return "\n".join("\n".join(text.splitlines()[-lines:]) for text in texts)

    # --- how --------------------------------------------------------------------------------------

    def _emulator(self, seed: Path) -> list[str]:
        """QEMU's command line.

        Emulation, since a nested KVM may exist and not boot a stock kernel. The clock is the HPET,
        since a busy host misleads the kernel about the speed of its processor, and a clock that
        counts its ticks then runs several times too fast. No 5-level paging, with which an emulated
        6.1 cannot write out a mount point.
        """
        unique = zlib.crc32(self.name.encode()) & 0xFFFF
        mac = f"52:54:00:{unique >> 8:02x}:{unique & 0xFF:02x}:%02x"
        forwards = [
            f"hostfwd=tcp:127.0.0.1:{ours}-:{theirs}" for theirs, ours in self._ports.items()
        ]
        networks = [",".join(["user,restrict=on", *forwards])]
        networks += [
            f"dgram,local.type=unix,local.path={end.local},"
            f"remote.type=unix,remote.path={end.remote}"
            for end in self.links
        ]
        cards: list[str] = []
        for n, network in enumerate(networks):
            cards += ["-netdev", f"{network},id=net{n}", "-device"]
            cards += [
                f"virtio-net-pci,netdev=net{n},addr={FIRST_SLOT + n:#x},romfile=,mac={mac % n}"
            ]
        # The image's disk is shared: what this machine writes goes to an unnamed temporary file.
        disks: list[str] = []
        for name, options in (
            (self.image / "disk.ext4", "snapshot=on,cache=unsafe"),
            (seed, "readonly=on"),
        ):
            disks += ["-drive", f"file={name},format=raw,if=virtio,{options}"]
        append = (
            "console=ttyS0 quiet panic=-1 root=/dev/vda rootfstype=ext4 rw mitigations=off nokaslr "
            "clocksource=hpet tsc=unstable no_timer_check random.trust_cpu=on"
        )
        return [
            *("qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none"),
            *(
                "-M",
                "q35,sata=off,smbus=off",
                "-cpu",
                "max,svm=off,la57=off",
                "-m",
                self.memory,
            ),
            *("-accel", "tcg,thread=multi", "-smp", "2", "-device", "virtio-rng-pci"),
            *("-serial", f"file:{self.console}"),
            *("-monitor", f"unix:{self.directory}/monitor,server=on,wait=off"),
            *(*disks, *cards),
            *("-kernel", str(self.image / "kernel"), "-initrd", str(self.image / "initrd")),
            *("-append", append),
        ]

    def _write_seed(self, path: Path) -> None:
        """The files of this machine alone, as the archive that the image unpacks."""
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
        self.known_hosts.write_text(
            f"[127.0.0.1]:{self.port(22)} {self.host_key}\n", encoding="ascii"
        )
        self.ssh_config.write_text(
            f"Host {self.name}\n"
            f"  HostName 127.0.0.1\n  Port {self.port(22)}\n  User root\n"
            f"  IdentityFile {self.identity}\n  IdentitiesOnly yes\n  BatchMode yes\n"
            f"  UserKnownHostsFile {self.known_hosts}\n  StrictHostKeyChecking yes\n"
            # One connection for all commands: each new one costs seconds under emulation.
            f"  ControlMaster auto\n  ControlPath {self.directory}/control\n"
            "  ControlPersist 600\n  ConnectTimeout 60\n  LogLevel ERROR\n",
            encoding="ascii",
        )

    def _greets(self) -> bool:
        """Whether an SSH server says its name: the emulator accepts before there is one."""
        try:
            with socket.create_connection(("127.0.0.1", self.port(22)), 5) as connection:
                connection.settimeout(5)
                return connection.recv(4) == b"SSH-"
        except OSError:
            return False

    def _boot_id(self) -> str:
        return self.run("cat /proc/sys/kernel/random/boot_id").stdout

    def _wait_for_other_boot(self, before: str) -> None:
        deadline = time.monotonic() + BOOT_LIMIT_S
        while True:
            self.wait(deadline - time.monotonic())
            found = self.run("cat /proc/sys/kernel/random/boot_id", check=False)
            if found.code == 0 and found.stdout != before:
                return
            self._hang_up()
            time.sleep(POLL_S)

    def _monitor(self, command: str) -> None:
        """Give the emulator itself an order."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as monitor:
            monitor.connect(str(self.directory / "monitor"))
            monitor.sendall(f"{command}\n".encode())
            monitor.settimeout(10)
            prompts = b""
            while prompts.count(b"(qemu)") < 2:  # before the order and after it
                prompts += monitor.recv(4096)

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


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _keygen(path: Path, *, comment: str) -> None:
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", path], check=True
    )


def _text(path: Path) -> str:
    return path.read_text(encoding="ascii")
