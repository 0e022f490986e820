"""The table of lanes (tests/lanes.toml) and what each costs (tests/budget.toml).

A lane is what runs as one process: a part of the tests on one kind of machine. Each test belongs to
exactly one lane, the one that names it most closely: `file::test[parameters]` before `file::test`
before `file` before `directory/`.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).parents[2]
PLACES = ("lint", "host", "uml", "uml-real-time", "qemu")
UML_PLACES = ("uml", "uml-real-time")
# What takes long to make, is needed by several lanes and made once: `scripts/test` knows how.
PREREQUISITES = ("image", "package", "cnc-package", "first-version", "network-managers")
_KEYS = {
    "place",
    "tests",
    "when",
    "short",
    "when_changed",
    "first",
    "once_in",
    "needs",
    "processes",
    "repeats",
    "environment",
}
# Where the tests are whose markers a lane may repeat.
MARKED = "tests/kernel/"


class TableError(Exception):
    """lanes.toml or budget.toml says something that cannot be; the text says what and where."""


@dataclass(frozen=True)
class Cost:
    """What a lane takes on two quiet processors: CPU time, and from start to end."""

    cpu_s: float
    wall_s: float


@dataclass(frozen=True)
class Lane:
    """- `place`: `lint`; `host`, this machine; `uml`, a user-mode kernel in virtual time;
      `uml-real-time`, the same on a real clock; `qemu`, Debian's kernel, emulated.
    - `tests`: what it owns, see the head of this file.
    - `when`: paths (directories end in /) whose change makes `--changed` run it.
    - `short`: part of `scripts/test` without `--all`.
    - `when_changed`: part of it only where a changed path starts the lane, else of `--all`.
    - `first`: every `--all` begins with it.
    - `once_in`: `--all` with a budget runs it at one commit in so many (tests/runner/order.py).
    - `processes`: how many pytest-xdist starts, where tests are safe beside each other.
    - `needs`: what must be made before.
    - `repeats`: markers and files; such tests run here, too, beside their own lane.
    - `environment`: further variables.
    """

    name: str
    place: str
    tests: tuple[str, ...]
    when: tuple[str, ...]
    short: bool
    when_changed: bool
    first: bool
    once_in: int
    needs: tuple[str, ...]
    processes: int
    repeats: tuple[str, ...]
    environment: Mapping[str, str]
    cost: Cost

    @property
    def paths(self) -> list[str]:
        """The files and directories that pytest must look into, without repetition."""
        own = dict.fromkeys(pattern.partition("::")[0] for pattern in self.tests)
        for repeated in self.repeats:
            own[repeated if "/" in repeated else MARKED] = None
        return [path for path in own if not any(_below(path, other) for other in own)]


@dataclass(frozen=True)
class Long:
    """A job of hours that no lane runs: its command, and how it tells what it found."""

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str]


@dataclass(frozen=True)
class Table:
    """All lanes in the order of lanes.toml; `timing` lists tests whose result depends on time."""

    lanes: Mapping[str, Lane]
    timing: tuple[str, ...]
    long: Mapping[str, Long]
    owners: Mapping[str, str]

    def home(self, node_id: str) -> str | None:
        """The lane that a test belongs to; None if no lane names it."""
        return next((self.owners[p] for p in patterns(node_id) if p in self.owners), None)

    def is_timing(self, node_id: str) -> bool:
        """Whether the table says that the result depends on how time passes."""
        return any(pattern in self.timing for pattern in patterns(node_id))

    def select(self, lane: str, node_id: str, markers: Iterable[str]) -> bool:
        """Whether a lane runs a test that has these markers."""
        repeated = self.lanes[lane].repeats
        return self.home(node_id) == lane or not {*patterns(node_id), *markers}.isdisjoint(repeated)


def patterns(node_id: str) -> Iterator[str]:
    """Every way to name a test, the closest first."""
    yield node_id
    if "[" in node_id:
        node_id = node_id.partition("[")[0]
        yield node_id
    while "::" in node_id:
        node_id = node_id.rpartition("::")[0]
        yield node_id
    while "/" in node_id.rstrip("/"):
        node_id = node_id.rstrip("/").rpartition("/")[0] + "/"
        yield node_id


def load(directory: Path = CHECKOUT / "tests") -> Table:
    """Read both files of `directory`. Raises TableError for what they may not say."""
    document = read(directory / "lanes.toml")
    budget = read(directory / "budget.toml")
    listed: dict[str, dict[str, Any]] = document.get("lane", {})
    lanes = {name: _lane(name, entry, budget) for name, entry in listed.items()}
    if unknown := budget.keys() - lanes.keys() - set(PREREQUISITES):
        raise TableError(f"budget.toml has {', '.join(sorted(unknown))}, which is in no lane")
    owners: dict[str, str] = {}
    for lane in lanes.values():
        for pattern in lane.tests:
            if pattern in owners:
                raise TableError(f"{pattern} is in {owners[pattern]} and in {lane.name}")
            owners[pattern] = lane.name
    return Table(
        lanes=lanes,
        timing=tuple(document.get("timing", {}).get("tests", ())),
        long={
            name: Long(name, tuple(entry["command"]), entry.get("environment", {}))
            for name, entry in document.get("long", {}).items()
        },
        owners=owners,
    )


def prerequisite_cost(name: str, directory: Path = CHECKOUT / "tests") -> Cost:
    """What making a prerequisite takes with full caches."""
    return _cost(name, read(directory / "budget.toml"))


def seconds(text: str) -> float:
    """`90`, `90s`, `45m` or `2h` in seconds. Raises ValueError for anything else."""
    fits = re.fullmatch(r"(\d+)([smh]?)", text)
    if not fits:
        raise ValueError(f"{text} is not a time: 90s, 45m or 2h")
    return float(fits[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[fits[2]]


def use_environment() -> None:
    """Let this process and its children find the programs that scripts/setup installed, and keep
    what they compile: without, pytest takes 10 s of CPU time to import the unit tests."""
    binaries = [CHECKOUT / ".venv/bin", CHECKOUT / ".venv/sysrepo/bin"]
    os.environ["PATH"] = ":".join([*map(str, binaries), os.environ["PATH"]])
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def _lane(name: str, entry: Mapping[str, Any], budget: Mapping[str, Any]) -> Lane:
    where = f"lanes.toml: {name}"
    if unknown := entry.keys() - _KEYS:
        raise TableError(f"{where}: unknown key {', '.join(sorted(unknown))}")
    if entry.get("place") not in PLACES:
        raise TableError(f"{where}: place is {entry.get('place')}, not one of {', '.join(PLACES)}")
    if unknown := set(entry.get("needs", ())) - set(PREREQUISITES):
        raise TableError(f"{where}: needs {', '.join(sorted(unknown))}, which nothing makes")
    if entry.get("when_changed") and not entry.get("short"):
        raise TableError(f"{where}: when_changed is for a lane of the short form")
    if "once_in" in entry and (entry.get("short") or entry.get("first")):
        raise TableError(f"{where}: once_in is for a lane that is neither short nor first")
    return Lane(
        name=name,
        place=entry["place"],
        tests=tuple(entry.get("tests", ())),
        when=tuple(entry.get("when", ())),
        short=entry.get("short", False),
        when_changed=entry.get("when_changed", False),
        first=entry.get("first", False),
        once_in=entry.get("once_in", 1),
        needs=tuple(entry.get("needs", ())),
        processes=entry.get("processes", 1),
        repeats=tuple(entry.get("repeats", ())),
        environment=entry.get("environment", {}),
        cost=_cost(name, budget),
    )


def _cost(name: str, budget: Mapping[str, Any]) -> Cost:
    try:
        entry = budget[name]
        return Cost(float(entry["cpu_s"]), float(entry.get("wall_s", entry["cpu_s"])))
    except (KeyError, TypeError, ValueError):
        raise TableError(f"budget.toml: {name} needs cpu_s, a number of seconds") from None


def read(path: Path) -> dict[str, Any]:
    """A TOML file. Raises TableError where it cannot be read."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise TableError(f"{path.name}: {error}") from None


def _below(path: str, directory: str) -> bool:
    return path != directory and directory.endswith("/") and path.startswith(directory)
