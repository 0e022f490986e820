"""Machines for the tests, and what they have to say when one fails."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.boot.container import Container
from tests.boot.emulated import Emulated
from tests.boot.limits import patient
from tests.boot.machine import Machine, MachineError

CHECKOUT = Path(__file__).parents[2]
JOURNAL_LINES = 60
TEST_LIMIT_S = patient(1800)
RUNNING: list[Machine] = []
# A package that was built on another release of Debian, and that release: "trixie", for example.
PACKAGE, RELEASE = "TSN_BOOT_PACKAGE", "TSN_BOOT_RELEASE"
# The controller's package, likewise.
CNC_PACKAGE = "TSN_BOOT_CNC_PACKAGE"
# What the machines are: `emulated`, unless this says `container`.
KIND = "TSN_BOOT_MACHINES"
LEFT_OUT = pytest.StashKey[list[str]]()
KINDS: dict[str, type[Machine]] = {"emulated": Emulated, "container": Container}


def _last_line(*command: str | Path) -> Path:
    """Run one of our scripts; it names what it made in its last line."""
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=CHECKOUT)
    return Path(done.stdout.splitlines()[-1])


@pytest.fixture(scope="session")
def image() -> Path:
    """The image of this machine's release of Debian, or of the named one; built the first time."""
    release = os.environ.get(RELEASE)
    return _last_line("scripts/image", *(("--release", release) if release else ()))


@pytest.fixture(scope="session")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Debian package of the switch side: the named one, or built from this checkout."""
    if given := os.environ.get(PACKAGE):
        return Path(given).resolve(strict=True)
    return _last_line("scripts/build-deb", "-o", tmp_path_factory.mktemp("package"))


@pytest.fixture(scope="session")
def cnc_package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Debian package of the controller: the named one, or built from this checkout."""
    if given := os.environ.get(CNC_PACKAGE):
        return Path(given).resolve(strict=True)
    return _last_line("scripts/build-deb", "--cnc", "-o", tmp_path_factory.mktemp("package"))


@pytest.fixture(scope="session")
def kind() -> type[Machine]:
    """The machines of this run."""
    return _kind()


@pytest.fixture(scope="module")
def boot(image: Path, kind: type[Machine]) -> Iterator[Callable[..., Machine]]:
    """Starts a machine from a name and the keyword arguments of its kind; it ends with the module.

    It returns at once: start all that a test needs, then `wait` for each.
    """
    with ExitStack() as machines:

        def start(name: str, **options: Any) -> Machine:
            machine = machines.enter_context(kind(image, name, **options))
            RUNNING.append(machine)
            machines.callback(RUNNING.remove, machine)
            return machine

        yield start


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):
    """A test that failed shows what its machines have in their journals."""
    report = yield
    if report.failed:
        for machine in RUNNING:
            report.sections.append((f"journal of {machine.name}", _journal(machine)))
    return report


def _journal(machine: Machine) -> str:
    try:
        return machine.run(f"journalctl --no-pager -b -n {JOURNAL_LINES}", timeout_s=60).stdout
    except (MachineError, AssertionError, subprocess.TimeoutExpired) as error:
        return f"{error}\n{machine.last_words()}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Allow for the slowness of emulated machines, and leave out what containers cannot do."""
    here = [item for item in items if item.path.is_relative_to(Path(__file__).parent)]
    for item in here:
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TEST_LIMIT_S))
    if not _kind().own_kernel:
        left_out = [item for item in here if item.get_closest_marker("own_kernel")]
        config.hook.pytest_deselected(items=left_out)
        config.stash[LEFT_OUT] = [item.nodeid for item in left_out]
        items[:] = [item for item in items if item not in left_out]


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Name the tests that were left out."""
    for test in config.stash.get(LEFT_OUT, []):
        terminalreporter.write_line(f"left out, needs a kernel of its own: {test}")


def _kind() -> type[Machine]:
    return KINDS[os.environ.get(KIND, "emulated")]
