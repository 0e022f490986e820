"""A switch that is none of ours: Debian's `netconfd` (yuma123) with the modules of IEEE and no
instrumentation behind them. It stores what it is sent; SSH is in front of it, in this process.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import threading
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import asyncssh

from cnc.switch import ConnectOptions
from tests.stack.netconfd_process import wait_until

STANDARD = Path(__file__).parents[2] / "yang" / "standard"
BRIDGE_MODULES = (
    "ietf-interfaces",
    "iana-if-type",
    "ieee802-types",
    "ieee802-dot1q-types",
    "ieee802-dot1q-bridge",
    "ieee802-dot1q-sched",
    "ieee802-dot1q-sched-bridge",
)
# Of a switch with the older tree of gates.
MODULES_OF_2018 = (
    *(STANDARD / f"{name}.yang" for name in BRIDGE_MODULES if "sched" not in name),
    Path(__file__).with_name("data") / "ieee802-dot1q-sched.yang",
)
USER = "operator"
# Its profile, but for the way it takes a change.
PROFILE: dict[str, Any] = {
    "name": "of-the-test",
    "gates-tree": "ieee802-dot1q-sched-bridge",
    "sets-classes": True,
    "forwards": True,
    "writes-limits": True,
    "validates": False,
}
_BRIDGE = "urn:ieee:std:802.1Q:yang:ieee802-dot1q-bridge"
_START_S = 20.0
_READ_OCTETS = 65536
_END_OF_HELLO = b"]]>]]>"


@dataclass
class ForeignSwitch:
    """One server; `start` again after `kill` is what a reboot would be.

    `ports` have their numbers in the order of their names. `options` are further ones of netconfd,
    such as `--target=running`.
    """

    directory: Path
    ports: Collection[str]
    options: Collection[str] = ()
    modules: Collection[Path] = tuple(STANDARD / f"{name}.yang" for name in BRIDGE_MODULES)
    _sessions: Iterator[int] = field(default_factory=count, init=False)
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)
    port: int = field(default=0, init=False)

    @property
    def socket(self) -> str:
        """Where sessions reach the server."""
        return str(self.directory / "ncxserver.sock")

    @property
    def log(self) -> str:
        """What the server has said."""
        return (self.directory / "log").read_text(errors="replace")

    def start(self) -> None:
        """Start, and return when the server listens."""
        self.directory.mkdir(exist_ok=True)
        startup = self.directory / "startup-cfg.xml"
        if not startup.exists():
            startup.write_text(configuration(self.ports))
        # Some of our copies of other modules would take the place of its own.
        modules = self.directory / "modules"
        modules.mkdir(exist_ok=True)
        for module in self.modules:
            (modules / module.name).write_bytes(module.read_bytes())
        Path(self.socket).unlink(missing_ok=True)
        command = [
            "/usr/sbin/netconfd",
            f"--superuser={USER}",
            f"--ncxserver-sockname={self.socket}",
            f"--modpath={modules}:/usr/share/yuma/modules",
            f"--startup={startup}",
            *(f"--module={module.stem}" for module in self.modules),
            *self.options,
        ]
        environment = os.environ | {"HOME": str(self.directory)}
        with (self.directory / "log").open("wb") as log:
            self._process = subprocess.Popen(
                command, env=environment, cwd=self.directory, stdout=log, stderr=log
            )
        assert wait_until(lambda: "Running netconfd server" in self.log, _START_S), self.log

    @property
    def alive(self) -> bool:
        """Whether it runs still."""
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """End it without warning."""
        self._signal(signal.SIGKILL)
        if self._process:
            self._process.wait(_START_S)

    def freeze(self) -> None:
        """Have it answer nothing, until `thaw`."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Have it go on."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        if self._process and self.alive:
            self._process.send_signal(number)

    async def serve(self, session: asyncssh.SSHServerProcess[bytes]) -> None:
        """A session: what OpenSSH's subsystem does."""
        # The server refuses sessions of other ports than its own, and logs where one comes from.
        number = next(self._sessions)
        client = f"127.1.{number // 250}.{number % 250 + 1}"
        environment = {"SSH_CONNECTION": f"{client} 5000 127.0.0.1 830", "USER": USER}
        behind = await asyncio.create_subprocess_exec(
            "/usr/sbin/netconf-subsystem",
            f"--ncxserver-sockname=830@{self.socket}",
            env=os.environ | environment | {"LOGNAME": USER},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        assert behind.stdin
        assert behind.stdout
        ways = [asyncio.ensure_future(_pass_on(behind.stdout, session.stdout))]
        try:
            # It loses a request that it reads with the hello in one piece, as from no distance.
            with suppress(asyncio.IncompleteReadError, asyncssh.Error):
                behind.stdin.write(await session.stdin.readuntil(_END_OF_HELLO))
            await asyncio.to_thread(
                wait_until, lambda: not self.alive or f"@{client} now active" in self.log
            )
            ways.append(asyncio.ensure_future(_pass_on(session.stdin, behind.stdin)))
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            if behind.returncode is None:
                os.kill(behind.pid, signal.SIGKILL)
            await behind.wait()
            session.exit(0)


async def _pass_on(
    source: asyncio.StreamReader | asyncssh.SSHReader[bytes],
    sink: asyncio.StreamWriter | asyncssh.SSHWriter[bytes],
) -> None:
    with suppress(OSError, asyncssh.Error):
        while octets := await source.read(_READ_OCTETS):
            sink.write(octets)
            await sink.drain()


def configuration(ports: Collection[str]) -> str:
    """What a switch with these ports comes with, as the file of startup."""
    interfaces = "".join(
        f"<interface><name>{name}</name>"
        '<type xmlns:i="urn:ietf:params:xml:ns:yang:iana-if-type">i:ethernetCsmacd</type>'
        f'<bridge-port xmlns="{_BRIDGE}"><bridge-name>br0</bridge-name>'
        "<component-name>br0</component-name></bridge-port></interface>"
        for name in ports
    )
    return (
        '<config xmlns="urn:ietf:params:xml:ns:netconf:base:1.0">'
        f'<interfaces xmlns="urn:ietf:params:xml:ns:yang:ietf-interfaces">{interfaces}</interfaces>'
        f'<bridges xmlns="{_BRIDGE}" xmlns:t="urn:ieee:std:802.1Q:yang:ieee802-dot1q-bridge">'
        "<bridge><name>br0</name><address>02-00-00-00-00-01</address>"
        "<bridge-type>t:customer-vlan-bridge</bridge-type><component><name>br0</name>"
        "<type>t:c-vlan-component</type></component></bridge></bridges></config>"
    )


@contextmanager
def reachable(switches: Iterable[ForeignSwitch], connect: ConnectOptions) -> Iterator[None]:
    """Start switches, and have them reached by SSH on loopback, each at its `port`: by the identity
    of a controller, whose known_hosts has their keys then."""
    host_key = asyncssh.generate_private_key("ssh-ed25519")
    public = host_key.export_public_key().decode()
    started = [*switches]
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def listening(switch: ForeignSwitch) -> asyncssh.SSHAcceptor:
        return await asyncssh.listen(
            "127.0.0.1",
            0,
            server_host_keys=[host_key],
            authorized_client_keys=str(connect.identity.with_suffix(".pub")),
            process_factory=switch.serve,
            encoding=None,
        )

    try:
        for switch in started:
            switch.start()
            server = asyncio.run_coroutine_threadsafe(listening(switch), loop).result(_START_S)
            switch.port = server.get_port()
            with connect.known_hosts.open("a") as lines:
                lines.write(f"[127.0.0.1]:{switch.port} {public}")
        yield
    finally:
        for switch in started:
            switch.thaw()
            switch.kill()
        asyncio.run_coroutine_threadsafe(_ended(), loop).result(_START_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _ended() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
