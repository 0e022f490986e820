"""Controllers of one network as processes of `cnc serve`, each with a state directory and a port of
its own, on one PostgreSQL."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from cnc.errors import InputError
from cnc.service.client import Client
from cnc.service.process import ADMIN_TOKEN
from cnc.service.refused import CallRefused
from tests.stack.lab_user import CHECKOUT, User
from tests.stack.netconfd_process import wait_until
from tests.unit.uni_bodies import body, mac

START_LIMIT_S, LIMIT_S = 180.0, 180.0
CUC = "plc"
STREAMS_MAX = 5  # the line has room for eleven of the CUC's
BEGIN = "--- begins\n"
DSCP = {"ipv4-tuple": {"destination-ip-address": "192.0.2.4", "dscp": 46}}


def line3(directory: Path) -> Path:
    """The intent of the line, whose stations have the addresses that CUCs call them by."""
    document = yaml.safe_load((CHECKOUT / "schedules/line3.yaml").read_text())
    document["end-stations"] = {
        name: {"mac": mac(number).replace("-", ":").lower()}
        for number, name in enumerate(document["end-stations"], 1)
    }
    file = directory / "line3.yaml"
    file.write_text(yaml.safe_dump(document, sort_keys=False))
    return file


def stream(number: int) -> dict[str, Any]:
    """A stream of the CUC, from the first station to the third."""
    asked = body(1, [3], [DSCP])
    return {**asked, "stream-id": f"02-00-00-00-01-01:00-{number:02X}"}


class Controller:
    """`cnc serve` as often as it is started; `program` takes the place of `-m cnc`."""

    def __init__(self, user: User, name: str, file: Path, database: str | None) -> None:
        self.user, self.name = user, name
        self.directory = user.home / name
        self.directory.mkdir(mode=0o700)
        self._file, self.database = file, database
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.process: subprocess.Popen[str] | None = None

    def start(self, *options: object, program: Sequence[object] = ("-m", "cnc")) -> None:
        """It answers when this returns."""
        argv, environment = self.user.python(
            *program,
            "serve",
            self._file,
            *("--workers", 1, "--listen", f"127.0.0.1:{self.port}"),
            *("--state-dir", self.directory),
            *(("--database", self.database) if self.database else ()),
            *options,
        )
        path = [str(CHECKOUT), environment["PYTHONPATH"]]
        environment["PYTHONPATH"] = ":".join(filter(None, path))
        log = (self.directory / "log").open("a")
        log.write(BEGIN)
        log.flush()
        self.process = subprocess.Popen(
            argv,
            env=environment,
            cwd=CHECKOUT,
            stdout=log,
            stderr=log,
            text=True,
            start_new_session=True,
        )
        assert wait_until(self._answers, START_LIMIT_S), self.log

    def _answers(self) -> bool:
        assert self.process is not None
        if self.process.poll() is not None or not (self.directory / "tls.crt").exists():
            return self.process.poll() is not None
        try:
            with self.client("none") as client:
                client.ask("GET", "/api/v1/who")
        except InputError:  # the certificate is being written
            return False
        except CallRefused as refused:
            return refused.code != "unavailable"
        return True

    def signal(self, number: signal.Signals) -> None:
        """To all of its processes, as a machine that stands still or loses its power."""
        assert self.process is not None
        os.killpg(self.process.pid, number)

    def stop(self) -> int | None:
        """Its exit code at SIGTERM; None where it does not run."""
        if self.process is None:
            return None
        self.process.terminate()
        code = self.process.wait(LIMIT_S)
        self.process = None
        return code

    def kill(self) -> None:
        assert self.process is not None
        self.signal(signal.SIGKILL)
        self.process.wait(LIMIT_S)
        self.process = None

    @property
    def token(self) -> str:
        return (self.directory / ADMIN_TOKEN).read_text().strip()

    def client(self, token: str) -> Client:
        url = f"https://127.0.0.1:{self.port}"
        return Client(url, token, certificate=self.directory / "tls.crt", timeout_s=30)

    @property
    def log(self) -> str:
        return (self.directory / "log").read_text()

    @property
    def leads(self) -> bool:
        """Whether it has been the last thing that it said of itself."""
        since_start = self.log.rpartition(BEGIN)[2]
        told = [line for line in since_start.splitlines() if " the network line3" in line]
        return bool(told) and "takes over" in told[-1]


class Controllers:
    """Two of them, and how the first one's admin asks either."""

    def __init__(self, user: User, file: Path, database: str) -> None:
        self.file = file
        self.a = Controller(user, "a", file, database)
        self.b = Controller(user, "b", file, database)

    def start(self) -> None:
        """The first one leads, the other stands by."""
        self.a.start()
        self.token = self.first_token()
        self.b.start()

    def leader(self) -> Controller:
        """The one that leads, once one does."""
        found = wait_until(
            lambda: next((its for its in (self.a, self.b) if its.process and its.leads), None),
            LIMIT_S,
        )
        assert found, f"{self.a.log}\n{self.b.log}"
        return found

    def other(self, its: Controller) -> Controller:
        return self.b if its is self.a else self.a

    def first_token(self) -> str:
        """That of the admin, which the controller has that led first."""

        def told() -> str | None:
            files = (its.directory / ADMIN_TOKEN for its in (self.a, self.b))
            return next((file.read_text().strip() for file in files if file.exists()), None)

        found = wait_until(told, LIMIT_S)
        assert found, f"{self.a.log}\n{self.b.log}"
        return found

    def ask(self, its: Controller, method: str, path: str, given: Any = None) -> Any:
        with its.client(self.token) as client:
            return client.ask(method, path, given)

    def document(self, its: Controller, name: str) -> Any:
        return self.ask(its, "GET", f"/api/v1/{name}")

    def put(self, its: Controller, number: int) -> dict[str, Any]:
        """Put a stream by one of them, as often as that does not know who leads."""

        def placed() -> Any:
            with its.client(self.token) as client:
                try:
                    return client.put_stream(CUC, stream(number), idempotency_key=f"put {number}")
                except CallRefused as refused:
                    if refused.code != "unavailable":
                        raise
                    return None

        found = wait_until(placed, LIMIT_S)
        assert found, f"{self.a.log}\n{self.b.log}"
        return dict(found)

    def make_room(self, its: Controller) -> None:
        """Remove what tests before have put, before the network is full of it."""
        found = self.document(its, "streams")["streams"]
        ids = [each["stream_id"] for each in found if each["cuc"] == CUC]
        if len(ids) > STREAMS_MAX:
            with its.client(self.token) as client:
                for each in ids:
                    client.remove_stream(CUC, each)

    def until_configured(self, its: Controller, number: int) -> dict[str, Any]:
        """The stream, once switches run it, as one of them shows it."""
        wanted = stream(number)["stream-id"]

        def configured() -> Any:
            found = self.document(its, "streams")["streams"]
            return next(
                (s for s in found if s["stream_id"] == wanted and s["state"] == "configured"), None
            )

        found = wait_until(configured, LIMIT_S)
        assert found, f"{self.a.log}\n{self.b.log}"
        return dict(found)

    def status(self, its: Controller) -> list[dict[str, Any]]:
        time.sleep(2.1)  # how long an answer of the switches counts
        return list(self.document(its, "status"))

    def close(self) -> None:
        for each in (self.a, self.b):
            if each.process is not None:
                each.signal(signal.SIGCONT)
                each.kill()


@contextmanager
def controllers(user: User, database: str) -> Iterator[Controllers]:
    its = Controllers(user, line3(user.home), database)
    try:
        yield its
    finally:
        its.close()
