"""A `cnc watch` process for a test, and what it has said."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

from tests.stack.netconfd_process import wait_until

EVENT_TIMEOUT_S = 60.0


class WatchProcess:
    """Runs until `stop`; `events` are its lines so far."""

    def __init__(self, directory: Path, *argv: object, environment: Mapping[str, str]) -> None:
        self.events: list[dict] = []
        self._log = (directory / "watch.log").open("w+")
        self.manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        (directory / "manager").unlink(missing_ok=True)
        self.manager.bind(str(directory / "manager"))
        self.manager.settimeout(EVENT_TIMEOUT_S)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "cnc", "watch", "--json", *map(str, argv)],
            env=os.environ | environment | {"NOTIFY_SOCKET": str(directory / "manager")},
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def ready(self) -> None:
        """Wait until every switch has answered or failed once."""
        # On a slow machine it says before that it lives.
        while (message := self.manager.recv(100)) == b"WATCHDOG=1":
            pass
        assert message == b"READY=1", self.log

    def wait_for(self, what: str, kind: str, **where: object) -> dict:
        """The first event of this kind, which is taken out."""

        def found() -> dict | None:
            for event in list(self.events):
                named = (event["event"], event["kind"]) == (what, kind)
                if named and where.items() <= event.items():
                    return event
            return None

        event = wait_until(found, EVENT_TIMEOUT_S)
        assert event, f"no {kind} {what} among {self.events}\n{self.log}"
        self.events.remove(event)
        return event

    def stop(self) -> int:
        """End it as a service manager does; its exit code."""
        self._process.terminate()
        code = self._process.wait(EVENT_TIMEOUT_S)
        self._reader.join()
        self.manager.close()
        return code

    @property
    def log(self) -> str:
        self._log.flush()
        return Path(self._log.name).read_text()

    def _read(self) -> None:
        for line in self._process.stdout:
            self.events.append(json.loads(line))
