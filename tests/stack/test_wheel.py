"""The built wheel, installed from the locked packages alone: each extra brings what it is for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from zipfile import ZipFile

import pytest

CHECKOUT = Path(__file__).parents[2]
LINE3 = CHECKOUT / "schedules" / "line3.yaml"

# Starts a switch of the wheel's own programs and modules, and asks it for its modules.
REHEARSAL = """
import json
from cnc.lab.rehearsal import rehearsal
from cnc.switch.device import Device, Managed
with rehearsal(["s1"], ["p1"]) as running:
    with Device(Managed("s1", running.managements["s1"]), running.connect) as device:
        print(json.dumps(sorted(device.server().modules)))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """The wheel of this checkout."""
    directory = tmp_path_factory.mktemp("wheel")
    _pip(
        *("wheel", "--no-index", "--no-deps", "--no-build-isolation"),
        *("--wheel-dir", directory, CHECKOUT),
        directory=directory,
    )
    (built,) = directory.glob("*.whl")
    return built


class Installed:
    """An environment with nothing but the wheel and what its extras need."""

    def __init__(
        self, wheel: Path, extras: str, directory: Path, alone: Sequence[str] = ()
    ) -> None:
        """With `alone`, these packages in the place of what the wheel needs."""
        self.directory = directory
        self._bin = directory / "venv" / "bin"
        subprocess.run(
            [sys.executable, "-m", "venv", "--without-pip", directory / "venv"], check=True
        )
        wanted = f"{wheel}[{extras}]" if extras else str(wheel)
        for options in ([*alone], ["--no-deps", wanted]) if alone else ([wanted],):
            _pip(
                *("--python", self._bin / "python", "install", "--no-compile", "--no-index"),
                *("--find-links", _wheelhouse(), *options),
                directory=directory,
            )

    def run(self, program: str, *arguments: object) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment outside the checkout, with an empty cache."""
        return subprocess.run(
            [self._bin / program, *map(str, arguments)],
            cwd=self.directory,
            env={**_environment(), "TSN_CACHE": str(self.directory / "cache")},
            capture_output=True,
            text=True,
            check=False,
        )

    def succeeds(self, program: str, *arguments: object) -> str:
        done = self.run(program, *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture
def installed(wheel, tmp_path):
    return lambda extras: Installed(wheel, extras, tmp_path)


@pytest.fixture(scope="module")
def bare(wheel, tmp_path_factory) -> Installed:
    """The wheel without an extra."""
    return Installed(wheel, "", tmp_path_factory.mktemp("bare"))


def _pip(*arguments: object, directory: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--disable-pip-version-check", *map(str, arguments)],
        cwd=directory,
        env=_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def _wheelhouse() -> Path:
    """Where scripts/setup has put the locked packages of this environment."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    cache = Path(os.environ.get("TSN_CACHE") or Path(base) / "tsn-control-plane")
    return cache / f"wheels-{(Path(sys.prefix) / 'key').read_text().strip()}"


def test_everything_that_is_needed_is_in_the_wheel_and_nothing_else(wheel):
    with ZipFile(wheel) as archive:
        inside = {name: archive.getinfo(name).external_attr >> 16 for name in archive.namelist()}
    yang = [path for path in (CHECKOUT / "yang").rglob("*") if path.is_file()]
    for path in yang:
        name = f"agent/yang/{path.relative_to(CHECKOUT / 'yang')}"
        assert name in inside
        assert inside[name] & 0o111 == path.stat().st_mode & 0o111, f"{name} may be run, or not"
    assert "cnc/cli/example.yaml" in inside
    tops = {name.partition("/")[0] for name in inside}
    assert {top.rpartition(".")[2] or top for top in tops} == {"cnc", "agent", "dist-info"}
    assert not [name for name in inside if "__pycache__" in name]
    assert any(name.endswith("/licenses/LICENSE") for name in inside)


def test_without_an_extra_the_controller_works_and_nothing_of_the_switch_is_there(bare):
    assert metadata.version("tsn-control-plane") in bare.succeeds("cnc", "--version")
    bare.succeeds("cnc", "plan", LINE3, "-o", "plan.json")
    bare.succeeds("cnc", "check", "plan.json")
    refused = bare.run("cnc", "doctor", LINE3, "--identity", "none")
    assert "Traceback" not in refused.stderr
    assert "No module named" in bare.run("python", "-c", "import asyncssh").stderr


@pytest.mark.parametrize("command", ["tsn-agent", "tsn-netconfd"])
def test_without_its_extra_a_command_says_what_to_install(bare, command):
    refused = bare.run(command, "--help")
    assert refused.returncode == 1
    assert "pip install 'tsn-control-plane[agent]'" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_the_controller_plans_checks_and_draws(installed):
    environment = installed("cnc")
    assert metadata.version("tsn-control-plane") in environment.succeeds("cnc", "--version")
    environment.succeeds("cnc", "plan", LINE3, "-o", "plan.json")
    environment.succeeds("cnc", "check", "plan.json")
    environment.succeeds("cnc", "show", "plan.json", "--svg", "plan.svg")
    environment.succeeds("cnc", "init", "mine.yaml")
    environment.succeeds("cnc", "plan", "mine.yaml")
    environment.succeeds("cnc", "push", "--help")
    refused = environment.run("cnc", "doctor", LINE3, "--identity", "none")
    assert "Traceback" not in refused.stderr


def test_the_extra_exact_brings_proofs(installed):
    environment = installed("cnc,exact")
    environment.succeeds("cnc", "plan", LINE3, "--algorithm", "exact")


def test_the_extra_cluster_brings_dask(installed):
    environment = installed("cnc,cluster")
    environment.succeeds("python", "-c", "import cnc.planner.executors, distributed")


def test_the_extra_report_brings_pictures(installed):
    environment = installed("cnc,report")
    environment.succeeds(
        *("python", "-c"),
        "import cnc.experiments.gate_share_pictures; from matplotlib.figure import Figure; "
        "Figure().savefig('empty.svg')",
    )


def test_the_switch_starts_on_the_modules_of_the_wheel(installed):
    environment = installed("agent,pam,cnc")
    assert "usage: tsn-agent" in environment.succeeds("tsn-agent", "--help")
    assert "usage: tsn-netconfd" in environment.succeeds("tsn-netconfd", "--help")
    environment.succeeds("python", "-c", "import pam")
    modules = json.loads(environment.succeeds("python", "-c", REHEARSAL))
    assert {"tsn-linux", "ieee802-dot1q-sched-bridge", "tsn-netconf-server"} <= set(modules)


def test_the_switch_alone_needs_nothing_of_the_controller(wheel, tmp_path):
    """Installed as scripts/build-deb does: what the extra names, and the wheel alone."""
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    environment = Installed(wheel, "", tmp_path, alone=project["optional-dependencies"]["agent"])
    environment.succeeds("tsn-agent", "--help")
    environment.succeeds("tsn-netconfd", "--help")
    assert "No module named" in environment.run("python", "-c", "import ncclient").stderr
