"""What tests of several kinds of experiment ask of each."""

from __future__ import annotations

from itertools import zip_longest
from pathlib import Path

import pytest

from cnc.errors import InputError
from cnc.testbed.experiments import description
from cnc.testbed.experiments.experiment import Emulated, read_rows
from cnc.testbed.lab import Lab

# A timer of user-mode Linux is never set for sooner (arch/um/include/linux/time-internal.h).
TIMER_MIN_DELTA_NS = 500


def assert_file_is_refused(file: Path, change: tuple[str, str], scratch: Path, why: str) -> None:
    """An experiment's file with a change is refused, with its line and key and the reason."""
    text = file.read_text()
    assert text.count(change[0]) == 1
    changed = scratch / "e.yaml"
    changed.write_text(text.replace(*change))
    with pytest.raises(InputError) as refused:
        description.load(changed)
    assert str(refused.value) == f"{changed}:{why}"


def run_twice_alike(
    experiment: Emulated, running: Lab, directory: Path, *, within_ns: int = 0
) -> None:
    """Run it into `one` and `other` below a directory; both have the same rows, octet for octet,
    but that a frame may have been sent, or received, so much earlier or later: the second run
    begins in another phase of the kernel's timers."""
    for name in ("one", "other"):
        (directory / name).mkdir()
        experiment.run_in(running, directory / name, print)
    one, other = (list(read_rows(directory / name)) for name in ("one", "other"))
    differing = [pair for pair in zip_longest(one, other) if not _are_alike(*pair, within_ns)]
    assert not differing, f"{len(differing)} of {len(one)} rows differ: {differing[:5]}"


def _are_alike(one: dict[str, str] | None, other: dict[str, str] | None, within_ns: int) -> bool:
    if one == other:
        return True
    if not one or not other:
        return False
    differing = [name for name in one if one[name] != other.get(name)]
    return {*differing} <= {"sent_ns", "received_ns"} and all(
        one[name] and other[name] and abs(int(one[name]) - int(other[name])) <= within_ns
        for name in differing
    )
