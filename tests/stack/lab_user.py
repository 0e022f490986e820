"""A user of labs of rehearsed switches."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from cnc.testbed.lab import rehearsed

CHECKOUT = Path(__file__).parents[2]
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108  sysrepo's directory, not a temporary file


class User:
    """Who types commands: a user without any right, whoever runs the tests.

    Where that is root, the user lives in a user namespace that has no root: there the checkout may
    be below a directory that only root may enter, and nothing can be given to another group.
    """

    def __init__(self, home: Path) -> None:
        self.home = home
        self.keys: dict[str, str] = {}
        self.packages: list[Path] = []  # installed beside the product
        in_a_namespace = ["unshare", "--user", "--map-user=1000", "--map-group=1000"]
        self._without_rights = in_a_namespace if os.geteuid() == 0 else []

    def command(self, *words: object) -> tuple[list[str], dict[str, str]]:
        return self.python("-m", "cnc", *words)

    def python(self, *words: object) -> tuple[list[str], dict[str, str]]:
        """A Python program of the user."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("CNC_")}
        home = {"HOME": str(self.home), "TMPDIR": str(self.home), "PYTHONDONTWRITEBYTECODE": "1"}
        argv = [*self._without_rights, sys.executable, *map(str, words)]
        unset = {"XDG_STATE_HOME": "", "XDG_CACHE_HOME": "", "TSN_CACHE": ""}
        packages = {"PYTHONPATH": os.pathsep.join(map(str, self.packages))}
        return argv, {**kept, **unset, **home, **packages, "LOGNAME": "jo", **self.keys}

    def cnc(self, *words: object) -> subprocess.CompletedProcess[str]:
        argv, environment = self.command(*words)
        return subprocess.run(
            argv, env=environment, capture_output=True, text=True, check=False, cwd=CHECKOUT
        )

    def does(self, *words: object) -> str:
        """What a command prints that succeeds."""
        done = self.cnc(*words)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def up(self, intent: Path) -> str:
        """Bring a lab up, and take over what it says is to be exported."""
        said = self.does("lab", "up", "--rehearse", intent)
        self.keys = dict(re.findall(r"(CNC_\w+)=(\S+)", said))
        return said

    def left_of(self, lab: str) -> list[str]:
        """What there is of a lab: files, shared memory, processes."""
        directory = self.home / ".local/state/cnc/labs" / lab
        return [
            *(str(directory) for _ in range(directory.exists())),
            *(path.name for path in SHARED_MEMORY.glob(f"tsn-{rehearsed.label(directory)}.*")),
            *processes(directory),
        ]


def processes(directory: Path) -> list[str]:
    """The command lines of all processes that are told of a directory."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if any(os.fsencode(directory) in word for word in words):
                found.append(b" ".join(words).decode(errors="replace"))
    return found
