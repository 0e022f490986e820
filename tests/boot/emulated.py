"""Machines in QEMU: a kernel and clocks of their own, everything emulated.

    switch = boot("switch", links=[one_end])
    switch.wait()
    switch.reboot()                     # back when root can log in again

They are reached through forwarded ports of 127.0.0.1 (`port(22)`, `port(830)`). Their interface
enp0s16 is for management: 10.0.2.15/24, configured by the image. Each other has one transmit queue.
"""

from __future__ import annotations

import socket
import time
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.boot.machine import (
    BOOT_LIMIT_S,
    MANAGEMENT_SLOT,
    POLL_S,
    LinkEnd,
    Machine,
)


class Emulated(Machine):
    """A machine in QEMU. Beside what every machine has:

    - `memory`: as QEMU writes sizes.
    - `forward`: TCP ports of the machine that are reached at `port(...)`.
    """

    own_kernel = True

    def __init__(
        self,
        image: Path,
        name: str,
        *,
        links: Sequence[LinkEnd] = (),
        files: Mapping[str, str] | None = None,
        memory: str = "768M",
        forward: Sequence[int] = (22, 830),
    ) -> None:
        super().__init__(image, name, links=links, files=files)
        self.memory = memory
        self._ports = {port: _free_port() for port in forward}

    def port(self, guest_port: int) -> int:
        """The port of 127.0.0.1 that leads to this TCP port of the machine."""
        return self._ports[guest_port]

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

    # --- how --------------------------------------------------------------------------------------

    def _command(self, seed: Path) -> list[str]:
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
                f"virtio-net-pci,netdev=net{n},addr={MANAGEMENT_SLOT + n:#x},romfile=,mac={mac % n}"
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

    def _way_in(self) -> tuple[str, str]:
        port = self.port(22)
        return f"  HostName 127.0.0.1\n  Port {port}\n", f"[127.0.0.1]:{port}"

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


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
