"""Runs so many inputs over all targets, keeps what failed, and runs kept inputs again."""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterable, Mapping
from pathlib import Path

from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings

from tests.fuzz.server import FuzzedServer
from tests.fuzz.targets import Target

CORPUS = Path(__file__).parent / "corpus"
BATCH = 500  # inputs between two checks of the server
MANY_FAILURES = 20


class Run:
    """Counts inputs and failures; each failed input becomes a file below `failures`."""

    def __init__(self, server: FuzzedServer, targets: Mapping[str, Target], failures: Path) -> None:
        self._server = server
        self._targets = targets
        self._directory = failures
        self.inputs = 0
        self.failures = 0

    def kept(self, directory: Path) -> None:
        """The inputs in DIRECTORY/TARGET/*, in the order of their names."""
        for file in sorted(directory.glob("*/*")):
            self._attempt(self._targets[file.parent.name], file.read_bytes())
        self._check("kept")

    def all_of(self, name: str, inputs: Iterable[bytes]) -> None:
        """These inputs of one target."""
        for data in inputs:
            if self.failures < MANY_FAILURES:
                self._attempt(self._targets[name], data)
        self._check(name)

    def fresh(self, count: int, seed_number: int, only: str | None = None) -> None:
        """`count` new inputs over the targets by their shares; the same for the same seed."""
        targets = [self._targets[only]] if only else list(self._targets.values())
        left, shares_left = count, sum(target.share for target in targets)
        for target in targets:
            part = -(-left * target.share // shares_left)
            left, shares_left = left - part, shares_left - target.share
            self._of_one(target, part, seed_number)

    def _of_one(self, target: Target, count: int, seed_number: int) -> None:
        begun_s, before, failed_before = time.monotonic(), self.inputs, self.failures
        while (done := self.inputs - before) < count and self.failures < MANY_FAILURES:
            self._generate(target, count - done, seed_number)
            # Hypothesis stops early where it believes to have seen everything.
            seed_number += 1
        self._check(target.name)
        failed, taken_s = self.failures - failed_before, time.monotonic() - begun_s
        print(
            f"{target.name:<10} {done:>7} inputs {failed:>4} failures {taken_s:>7.1f} s", flush=True
        )

    def _generate(self, target: Target, count: int, seed_number: int) -> None:
        @seed(seed_number)
        @settings(
            max_examples=count,
            database=None,
            deadline=None,
            phases=(Phase.generate,),
            suppress_health_check=list(HealthCheck),
            verbosity=Verbosity.quiet,
        )
        @given(target.inputs)
        def attempt_all(data: bytes) -> None:
            if self.failures < MANY_FAILURES:
                self._attempt(target, data)
                if self.inputs % BATCH == 0:
                    self._check(target.name)

        attempt_all()

    def _attempt(self, target: Target, data: bytes) -> None:
        self.inputs += 1
        try:
            target.attempt(data)
        except Exception:  # noqa: BLE001  whatever escapes is what we are looking for
            self._fail(target.name, [data])

    def _check(self, name: str) -> None:
        try:
            self._server.check()
        except Exception:  # noqa: BLE001  as above
            self._fail(name, list(self._server.recent))

    def _fail(self, name: str, inputs: list[bytes]) -> None:
        self.failures += 1
        directory = self._directory / f"{self.failures:03}" / name
        directory.mkdir(parents=True)
        for number, data in enumerate(inputs):
            (directory / f"{number:03}").write_bytes(data)
        print(f"--- {name} failed; again with: scripts/fuzz-netconf --replay {directory.parent}")
        print(traceback.format_exc(), flush=True)
