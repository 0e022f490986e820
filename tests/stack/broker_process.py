"""A `tsn-netconf-broker` for a test, and the `tsn-netconfd` in front of it."""

from __future__ import annotations

import os
import pwd
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path

from tests.stack.netconfd_process import START_TIMEOUT_S, NetconfdProcess


class BrokerProcess:
    """One broker; `start` again after `kill` is what a service manager would do."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(exist_ok=True)
        self.socket = directory / "socket"
        self.state_dir = directory / "state"
        self.front_user = pwd.getpwuid(os.getuid()).pw_name
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start, and return when it says that it is ready."""
        notify = self._directory / "notify"
        notify.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.bind(str(notify))
            self._process = self.launch({"NOTIFY_SOCKET": str(notify)})
            end = os.pidfd_open(self._process.pid)
            try:
                ready, _, _ = select.select([manager, end], [], [], START_TIMEOUT_S)
            finally:
                os.close(end)
            assert manager in ready, self.log
            assert manager.recv(100) == b"READY=1"

    def launch(self, environment: dict[str, str]) -> subprocess.Popen[bytes]:
        """Start one, and return at once."""
        command = [sys.executable, "-m", "agent.netconfd.broker", "--socket", str(self.socket)]
        command += ["--state-dir", str(self.state_dir), "--front-user", self.front_user]
        with (self._directory / "log").open("ab") as log:
            return subprocess.Popen(command, env=os.environ | environment, stderr=log)

    @property
    def log(self) -> str:
        """What all of them have logged."""
        return (self._directory / "log").read_text()

    def signal(self, number: signal.Signals) -> int:
        """Send this signal; its exit code, when it has ended."""
        assert self._process is not None
        self._process.send_signal(number)
        return self._process.wait(START_TIMEOUT_S)


def front_of(broker: BrokerProcess, directory: Path) -> NetconfdProcess:
    """A front of this broker, not started yet."""
    front = NetconfdProcess(directory)
    front.state_options = ["--broker", str(broker.socket)]
    return front
