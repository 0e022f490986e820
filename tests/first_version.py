"""Version 0.1.0 of the product and the version of this checkout, as one machine may have them.

`scripts/upgrade-fixture` builds the former from the history of this clone.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

CHECKOUT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Version:
    """Where the programs of a version are, and its YANG modules with their installer."""

    programs: Path
    yang: Path

    def install_modules(self, environment: Mapping[str, str]) -> None:
        """Install or update the modules of the sysrepo repository that the environment names."""
        done = subprocess.run(
            [self.yang / "install"],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr


@dataclass(frozen=True)
class FirstVersion(Version):
    """Version 0.1.0. `schedules` has its example intents, `package` is its Debian package."""

    schedules: Path
    wheel: Path
    package: Path | None


NEW = Version(Path(sys.prefix) / "bin", CHECKOUT / "yang")


@cache
def first_version(*, with_package: bool = False) -> FirstVersion:
    """Version 0.1.0; built the first time, which takes minutes with its Debian package."""
    command = [CHECKOUT / "scripts" / "upgrade-fixture"]
    if not with_package:
        command.append("--no-package")
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    lines = [line.partition(" ") for line in done.stdout.splitlines()]
    found = {kind: Path(path) for kind, _, path in lines}
    (package,) = found["venv"].glob("lib/python*/site-packages/agent")
    return FirstVersion(
        found["venv"] / "bin",
        package / "yang",
        found["schedules"],
        found["wheel"],
        found.get("package"),
    )
