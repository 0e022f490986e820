"""`cnc serve` as a process, and its clients over TLS."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cnc.service.certificate import CERTIFICATE
from cnc.service.client import Client
from cnc.service.process import ADMIN_TOKEN
from cnc.service.refused import CallRefused, Code
from cnc.switch import ConnectOptions

START_S, STOP_S = 600, 600  # a rollout that is on its way ends first
_POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class Served:
    """A service that answers."""

    directory: Path
    url: str
    pid: int

    def client(self, token: str) -> Client:
        return Client(self.url, token, certificate=self.directory / CERTIFICATE)

    def admin(self) -> Client:
        return self.client((self.directory / ADMIN_TOKEN).read_text().strip())

    def token(self, cuc: str) -> str:
        """A new token for the streams of a CUC."""
        asked = {"name": cuc, "role": "cuc", "cuc": cuc}
        with self.admin() as admin:
            return str(admin.ask("POST", "/api/v1/tokens", asked)["token"])


@contextmanager
def served(file: Path, directory: Path, connect: ConnectOptions) -> Iterator[Served]:
    """The service of an intent file, with its state in `directory`, once it answers.

    Raises RuntimeError with its log if it does not.
    """
    directory.mkdir(mode=0o700, exist_ok=True)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    keys = {"CNC_IDENTITY": connect.identity, "CNC_KNOWN_HOSTS": connect.known_hosts}
    command = [
        *(sys.executable, "-m", "cnc", "serve", file, "--state-dir", directory),
        *("--listen", f"127.0.0.1:{port}", "--workers", "1"),
    ]
    log = directory / "serve.log"
    with log.open("a") as opened:
        process = subprocess.Popen(
            [str(word) for word in command],
            env={**os.environ, **{name: str(path) for name, path in keys.items()}},
            stdout=opened,
            stderr=opened,
        )
    its = Served(directory, f"https://localhost:{port}", process.pid)
    try:
        give_up_s = time.monotonic() + START_S
        while not _answers(its):
            if process.poll() is not None or time.monotonic() > give_up_s:
                raise RuntimeError(f"the service does not answer:\n{log.read_text()}")
            time.sleep(_POLL_S)
        yield its
    finally:
        process.terminate()
        process.wait(STOP_S)


def _answers(its: Served) -> bool:
    if not (its.directory / CERTIFICATE).exists():  # which is made after the token
        return False
    try:
        with its.admin() as admin:
            admin.ask("GET", "/api/v1/who")
    except CallRefused as refused:
        if refused.code is not Code.UNAVAILABLE:
            raise
        return False
    return True
