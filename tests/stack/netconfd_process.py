"""A `tsn-netconfd` process for a test, and clients that reach it over real SSH on loopback."""

from __future__ import annotations

import os
import re
import select
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import asyncssh
import ncclient.transport.session
from ncclient import manager

# ncclient looks for replies once per tick; its own 100 ms is most of a test's time.
ncclient.transport.session.TICK = 0.002

START_TIMEOUT_S = 20.0
REPLY_TIMEOUT_S = 20.0
WAIT_TIMEOUT_S = 10.0


def wait_until(condition, timeout_s=WAIT_TIMEOUT_S):
    """Poll until the condition holds; its last value, so that a test can assert on it."""
    deadline = time.monotonic() + timeout_s
    while not (value := condition()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return value


class NetconfdProcess:
    """One server process; `start` again after `kill` is what a service manager would do."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(exist_ok=True)
        self.host_key = directory / "host_key"
        self.client_key = directory / "client_key"
        self.state_dir = directory / "state"
        self._authorized_keys = directory / "authorized_keys"
        self._log = directory / "log"
        self._notify = directory / "notify"
        self._process: subprocess.Popen[bytes] | None = None
        key = asyncssh.generate_private_key("ssh-ed25519")
        key.write_private_key(str(self.client_key))
        key.write_public_key(str(self._authorized_keys))
        self.port = 0

    def start(self) -> None:
        """Start, and return when the server says that it is ready."""
        self._notify.unlink(missing_ok=True)
        with (
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify,
            self._log.open("wb") as log,
        ):
            notify.bind(str(self._notify))
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "agent.netconfd", "--listen", "127.0.0.1:0"),
                    *("--host-key", self.host_key, "--authorized-keys", self._authorized_keys),
                    *("--state-dir", self.state_dir),
                ],
                env=os.environ | {"NOTIFY_SOCKET": str(self._notify)},
                stderr=log,
            )
            ready, _, _ = select.select([notify], [], [], START_TIMEOUT_S)
            assert ready, self.log
            assert notify.recv(100) == b"READY=1"
        listening = re.search(r"listening on .* port (\d+)", self.log)
        assert listening, self.log
        self.port = int(listening.group(1))

    @property
    def log(self) -> str:
        """What the server has logged since its last start."""
        return self._log.read_text()

    def stop(self) -> int:
        """End it as a service manager does; its exit code."""
        assert self._process is not None
        self._process.terminate()
        return self._process.wait(START_TIMEOUT_S)

    def kill(self) -> None:
        """End it without warning."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(START_TIMEOUT_S)

    def connect(self, **changes):
        """A new ncclient session that checks the host key."""
        host_key = self.host_key.with_suffix(".pub").read_text().split()[1]
        options = {
            "host": "127.0.0.1",
            "port": self.port,
            "username": "operator",
            "key_filename": str(self.client_key),
            "hostkey_b64": host_key,
            "allow_agent": False,
            "look_for_keys": False,
            "timeout": REPLY_TIMEOUT_S,
        }
        return manager.connect(**(options | changes))

    async def connect_raw(self):
        """The bare byte streams of a new session."""
        connection = await asyncssh.connect(
            "127.0.0.1",
            self.port,
            username="operator",
            client_keys=[str(self.client_key)],
            known_hosts=([str(self.host_key.with_suffix(".pub"))], [], []),
            config=None,
        )
        writer, reader, _ = await connection.open_session(subsystem="netconf", encoding=None)
        return connection, reader, writer


@contextmanager
def running_netconfd(directory: Path):
    """A started server, stopped at the end whatever happened to it in between."""
    server = NetconfdProcess(directory)
    server.start()
    try:
        yield server
    finally:
        server.stop()
