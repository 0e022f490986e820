"""Where a measurement ran: which kernel, and which clock; and what made it."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from cnc.support import exact_clock
from cnc.testbed.lab.timer_latency import TimerLatency
from cnc.version import __version__

FILE = "platform.json"


@dataclass(frozen=True, slots=True)
class Platform:
    """The kernel and clock all figures were taken on.

    `exact`: only sleeping takes time, so frames can be judged to the microsecond. `timer_latency`
    is how late the machine was meanwhile; None: its clock is exact, or that was not measured.
    """

    kernel: str
    clock: str
    exact: bool
    timer_latency: TimerLatency | None = None

    @classmethod
    def here(cls, timer_latency: TimerLatency | None = None) -> Platform:
        """As set by the runner of `cnc.testbed.lab.vm`; without it, the machine's own kernel."""
        lane = os.environ.get("TSN_VM", "own")
        virtual = os.environ.get("TSN_VIRTUAL_TIME") == "1"
        names = {"uml": "user-mode Linux", "qemu": "QEMU", "own": "this machine's own kernel"}
        return cls(
            kernel=f"Linux {platform.release()}, {names.get(lane, lane)}",
            clock="virtual time" if virtual else "real time",
            exact=exact_clock.is_exact(),
            timer_latency=timer_latency,
        )

    @classmethod
    def read(cls, directory: Path) -> Platform:
        """That of the measurement whose results are in `directory`."""
        document = json.loads((directory / FILE).read_text())
        values = {its.name: document[its.name] for its in fields(cls) if its.name in document}
        if latency := values.get("timer_latency"):
            values["timer_latency"] = TimerLatency(**latency)
        return cls(**values)

    def write(self, directory: Path, made_by: Mapping[str, str | None] | None = None) -> None:
        """Write `platform.json`: this, and what `made_by` says of the program."""
        document = {**asdict(self), **(made_by or {})}
        (directory / FILE).write_text(json.dumps(document, indent=2) + "\n")

    def __str__(self) -> str:
        late = f", {self.timer_latency}" if self.timer_latency else ""
        return f"{self.kernel}, {self.clock}{late}"


def made_by(command: str | None) -> dict[str, str | None]:
    """The version and commit of this program, and the command line, None where none was typed."""
    return {"version": __version__, "commit": _commit(), "command": command}


def _commit() -> str | None:
    """The commit of the checkout that this program runs from, with `-dirty` after it if files have
    changed since; None if it runs from no checkout, or git cannot tell."""
    checkout = Path(__file__).resolve().parents[3]
    if not (checkout / ".git").exists():
        return None
    describe = ["describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        done = subprocess.run(
            ["git", "--no-optional-locks", "-C", str(checkout), *describe],
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        return None
    return done.stdout.strip() or None
