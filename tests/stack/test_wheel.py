"""The built wheels, installed from the locked packages alone: each brings all that it needs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from zipfile import ZipFile

import pytest
from hatchling.build import build_sdist

from cnc.version import __version__
from tests.first_version import first_version

CHECKOUT = Path(__file__).parents[2]
LINE3 = CHECKOUT / "schedules" / "line3.yaml"
PENDULUM = CHECKOUT / "schedules" / "pendulum.xml"
CONTROLLER, AGENT = "tsn-control-plane", "tsn-control-plane-agent"
LAB = "tsn-control-plane-lab"
FOLDERS = {
    CONTROLLER: CHECKOUT,
    AGENT: CHECKOUT / "agent",
    LAB: CHECKOUT / "cnc" / "testbed",
}
# The folder of each, without what is another's.
PACKAGES = {CONTROLLER: "cnc", AGENT: "agent", LAB: "cnc/testbed"}
PROGRAMS = {
    "cnc/testbed/lab/virtual_network/virtual-network",
    "cnc/testbed/lab/own_group/own-group.preload",
    "cnc/testbed/traffic/probe/tsn-probe",
    "cnc/testbed/experiments/switching/two-ports",
}
# What modules need that come with an extra, as they are imported.
OF_THE_PLANNER = {"ortools", "distributed", "dask"}
OF_REPORTS = {"matplotlib"}
OF_THE_SERVICE = {"anyio", "sqlalchemy", "starlette", "uvicorn", "yangson", "psycopg"}
OF_ADAPTERS = {"mcp", "asyncua"}

pytestmark = pytest.mark.timeout(600)  # an environment is many files to write

# Starts a switch of the wheel's own programs and modules, and asks it for its modules.
REHEARSAL = """
import json
from cnc.testbed.lab.rehearsal import rehearsal
from cnc.switch.device import Device, Managed
with rehearsal(["s1"], ["p1"]) as running:
    with Device(Managed("s1", running.managements["s1"]), running.connect) as device:
        print(json.dumps(sorted(device.server().modules)))
"""
# Imports every module of a package. Prints what they need that is not installed, and their paths
# that are in this environment but not in the package.
IMPORT_ALL = """
import importlib, pkgutil, sys
from pathlib import Path
package = importlib.import_module(sys.argv[1])
home = Path(sys.modules[package.__name__.partition(".")[0]].__file__).parent
for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
    if not module.name.endswith("__main__"):
        try:
            values = vars(importlib.import_module(module.name)).values()
        except ModuleNotFoundError as error:
            print(error.name)
            continue
        for path in values:
            above = (path, *path.parents) if isinstance(path, Path) else ()
            if home.parent in above and home not in above:
                print(module.name, "looks outside at", path)
"""


@pytest.fixture(scope="module")
def wheels(tmp_path_factory) -> dict[str, Path]:
    """The wheels of this checkout, by distribution."""
    directory = tmp_path_factory.mktemp("wheels")
    return {name: _build(folder, directory / name) for name, folder in FOLDERS.items()}


class Installed:
    """An environment with nothing but distributions of ours, and what they need."""

    def __init__(self, directory: Path, *wheels: str) -> None:
        """`wheels`: each with its extras, as pip reads them."""
        self.directory = directory
        self._bin = directory / "venv" / "bin"
        subprocess.run(
            [sys.executable, "-m", "venv", "--without-pip", directory / "venv"], check=True
        )
        self.pip("install", *wheels)

    def pip(self, command: str, *arguments: object) -> None:
        """A command of pip, on the locked packages alone."""
        options = ["--no-compile", "--no-index", "--find-links", Path(sys.prefix) / "wheels"]
        _pip(
            *("--python", self._bin / "python", command),
            *(*(options if command == "install" else ["--yes"]), *arguments),
            directory=self.directory,
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
def installed(wheels, tmp_path):
    return lambda extras: Installed(tmp_path, f"{wheels[CONTROLLER]}[{extras}]")


@pytest.fixture(scope="module")
def laboratory(wheels, tmp_path_factory) -> Installed:
    """The controller and the laboratory, without an extra."""
    directory = tmp_path_factory.mktemp("laboratory")
    return Installed(directory, str(wheels[CONTROLLER]), str(wheels[LAB]))


@pytest.fixture(scope="module")
def bare(wheels, tmp_path_factory) -> Installed:
    """The controller without an extra."""
    return Installed(tmp_path_factory.mktemp("bare"), str(wheels[CONTROLLER]))


@pytest.fixture(scope="module")
def switch(wheels, tmp_path_factory) -> Installed:
    """The switch's side alone."""
    return Installed(tmp_path_factory.mktemp("switch"), f"{wheels[AGENT]}[pam]")


def _build(source: Path, directory: Path) -> Path:
    """The wheel of a folder or a source distribution."""
    directory.mkdir()
    _pip(
        *("wheel", "--no-index", "--no-deps", "--no-build-isolation"),
        *("--wheel-dir", directory, source),
        directory=directory,
    )
    (built,) = directory.glob("*.whl")
    return built


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


def _files(wheel: Path) -> dict[str, int]:
    """What is in a wheel, and who may run it."""
    with ZipFile(wheel) as archive:
        return {entry.filename: entry.external_attr >> 16 & 0o111 for entry in archive.infolist()}


def _is_of_another(path: Path, package: str) -> bool:
    return package == "cnc" and (CHECKOUT / "cnc" / "testbed") in path.parents


@pytest.mark.parametrize(("distribution", "package"), PACKAGES.items())
def test_a_wheel_has_one_package_whole(wheels, distribution, package):
    inside = _files(wheels[distribution])
    assert not [
        name for name in inside if not name.startswith(f"{package}/") and ".dist-info/" not in name
    ]
    sources = {
        str(path.relative_to(CHECKOUT))
        for path in (CHECKOUT / package).rglob("*.py")
        # What compiles programs as the wheel is made stays out.
        if path.name != "hatch_build.py" and not _is_of_another(path, package)
    }
    assert {name for name in inside if name.endswith(".py")} == sources
    programs = {each.stem for each in (CHECKOUT / package).rglob("*.bpf.c")}
    assert {f"{package}/bpf/{name}.o" for name in programs} <= set(inside)
    assert not [name for name in inside if "__pycache__" in name or name.endswith("pyproject.toml")]
    with ZipFile(wheels[distribution]) as archive:
        (licence,) = (name for name in inside if name.endswith("/licenses/LICENSE"))
        assert archive.read(licence) == (CHECKOUT / "LICENSE").read_bytes()


@pytest.mark.parametrize("distribution", [CONTROLLER, AGENT])
def test_a_wheel_of_controller_or_switch_has_the_modules(wheels, distribution):
    package, inside = PACKAGES[distribution], _files(wheels[distribution])
    for path in (path for path in (CHECKOUT / "yang").rglob("*") if path.is_file()):
        name = f"{package}/yang/{path.relative_to(CHECKOUT / 'yang')}"
        assert name in inside
        assert inside[name] == path.stat().st_mode & 0o111, f"{name} may be run, or not"


def test_the_controllers_wheel_has_its_data_and_is_python_alone(wheels):
    inside = _files(wheels[CONTROLLER])
    assert {"cnc/cli/example.yaml", "cnc/page/page.html", "cnc/py.typed"} <= set(inside)
    assert not [name for name in inside if name.endswith((".c", ".h", ".so"))]


def test_the_laboratorys_wheel_has_its_programs(wheels):
    assert set(_files(wheels[LAB])) >= PROGRAMS


@pytest.mark.parametrize("distribution", FOLDERS)
def test_a_source_distribution_builds_the_same_wheel(wheels, distribution, tmp_path, monkeypatch):
    monkeypatch.chdir(FOLDERS[distribution])
    source = tmp_path / build_sdist(str(tmp_path))
    assert _files(_build(source, tmp_path / "again")) == _files(wheels[distribution])


def test_a_wheel_built_without_a_compiler_lacks_only_what_needs_one(wheels, tmp_path, monkeypatch):
    monkeypatch.chdir(FOLDERS[LAB])
    source = tmp_path / build_sdist(str(tmp_path))
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in ("bash", "dirname", "find", "head", "sort"):
        (tools / tool).symlink_to(shutil.which(tool))
    monkeypatch.setenv("PATH", str(tools))
    bare = _files(_build(source, tmp_path / "bare"))
    assert set(_files(wheels[LAB])) - set(bare) == PROGRAMS


def test_all_have_the_version_of_the_package(wheels):
    assert {wheel.name.split("-")[1] for wheel in wheels.values()} == {__version__}
    assert {metadata.version(name) for name in FOLDERS} == {__version__}


def test_without_an_extra_the_controller_works_and_nothing_of_the_switch_is_there(bare):
    assert __version__ in bare.succeeds("cnc", "--version")
    bare.succeeds("cnc", "init", "mine.yaml")
    for intent in ("mine.yaml", LINE3):
        bare.succeeds("cnc", "plan", intent, "-o", "plan.json")
        bare.succeeds("cnc", "check", "plan.json")
    bare.succeeds("cnc", "show", "plan.json", "--svg", "plan.svg")
    bare.succeeds("cnc", "push", "--help")
    refused = bare.run("cnc", "doctor", LINE3, "--identity", "none")
    assert "Traceback" not in refused.stderr
    for module in ("agent", "asyncssh"):
        assert "No module named" in bare.run("python", "-c", f"import {module}").stderr
    assert not list(bare.directory.glob("venv/bin/tsn-*"))
    refused = bare.run("cnc", "lab", "up", LINE3)
    assert refused.returncode == 2
    assert f"pip install {LAB}" in refused.stderr


def test_the_runner_of_kernels_works_without_a_checkout(laboratory):
    script = (
        "import subprocess; from cnc.testbed.lab import vm; subprocess.run([*vm.RUNNER, '--which'])"
    )
    told = laboratory.succeeds("python", "-c", script)
    lane, _, reason = told.partition(": ")
    assert lane in {"own", "uml", "qemu"}
    assert reason
    assert laboratory.succeeds("python", "-m", "cnc.testbed.lab.vm", "--which") == told


def test_every_module_of_the_controller_is_there_with_what_it_needs(bare):
    needs_an_extra = set(bare.succeeds("python", "-c", IMPORT_ALL, "cnc").split())
    assert needs_an_extra <= OF_THE_PLANNER | OF_THE_SERVICE | OF_ADAPTERS


def test_every_module_of_the_laboratory_is_there_with_what_it_needs(laboratory):
    needs_an_extra = set(laboratory.succeeds("python", "-c", IMPORT_ALL, "cnc.testbed").split())
    assert needs_an_extra <= OF_REPORTS | OF_THE_PLANNER
    assert "emulate" in laboratory.succeeds("cnc", "lab", "--help").lower()


def test_the_probe_comes_with_the_laboratory_and_says_where_it_is(laboratory):
    program = Path(laboratory.succeeds("tsn-probe", "path").strip())
    assert program.is_relative_to(laboratory.directory)
    assert subprocess.check_output([program, "path"], text=True).strip() == str(program)


def test_the_library_of_talkers_comes_with_the_controller(bare):
    assert bare.succeeds("python", "-c", IMPORT_ALL, "cnc.talker") == ""
    assert "--frames" in bare.succeeds("python", "-m", "cnc.talker", "--help")


def test_every_module_of_the_switch_is_there_with_what_it_needs(switch):
    assert switch.succeeds("python", "-c", IMPORT_ALL, "agent") == ""


def test_the_extra_exact_brings_proofs(installed):
    environment = installed("exact")
    environment.succeeds("cnc", "plan", LINE3, "--algorithm", "exact")


def test_the_extra_cluster_brings_dask(installed):
    environment = installed("cluster")
    environment.succeeds("python", "-c", "import cnc.planner.executors, distributed")


def test_the_extras_of_the_service_bring_all_that_it_needs(installed):
    environment = installed("service,postgresql,mcp,opcua")
    for package in ("cnc.service", "cnc.adapters"):
        assert environment.succeeds("python", "-c", IMPORT_ALL, package) == ""
    assert "--listen" in environment.succeeds("cnc", "serve", "--help")


def test_the_extra_report_brings_pictures(wheels, tmp_path):
    environment = Installed(tmp_path, str(wheels[CONTROLLER]), f"{wheels[LAB]}[report]")
    environment.succeeds(
        *("python", "-c"),
        "import cnc.testbed.experiments.gate_share.pictures; from matplotlib.figure import Figure; "
        "Figure().savefig('empty.svg')",
    )


def test_the_extra_robot_brings_an_engine(wheels, tmp_path):
    environment = Installed(tmp_path, str(wheels[CONTROLLER]), f"{wheels[LAB]}[robot]")
    script = (
        "from pathlib import Path; from cnc.testbed.traffic.loop.robot import MujocoPlant; "
        f"print(MujocoPlant(Path({str(PENDULUM)!r}), ['angle'], ['force']).output)"
    )
    assert environment.succeeds("python", "-c", script) == "0.0\n"


def test_all_together_make_a_switch_of_their_own_programs_and_modules(wheels, tmp_path):
    environment = Installed(tmp_path, *map(str, wheels.values()))
    modules = json.loads(environment.succeeds("python", "-c", REHEARSAL))
    assert {"tsn-linux", "ieee802-dot1q-sched-bridge", "tsn-netconf-server"} <= set(modules)


def test_the_first_version_becomes_this_one_and_back_as_the_manual_says(wheels, tmp_path):
    """In that order: what version 0.1.0 removes includes files of the switch's side."""
    old = first_version().wheel
    environment = Installed(tmp_path, f"{old}[cnc,agent]")
    environment.pip("install", wheels[CONTROLLER])
    environment.pip("install", wheels[AGENT], wheels[LAB])
    assert __version__ in environment.succeeds("cnc", "--version")
    environment.succeeds("tsn-agent", "--help")
    environment.succeeds("tsn-netconfd", "--help")
    environment.pip("uninstall", AGENT, LAB)
    environment.pip("install", f"{old}[cnc,agent]")
    assert "0.1.0" in environment.succeeds("cnc", "--version")
    environment.succeeds("tsn-agent", "--help")
    environment.succeeds("tsn-netconfd", "--help")


def test_the_switch_alone_needs_nothing_of_the_controller(switch):
    assert "usage: tsn-agent" in switch.succeeds("tsn-agent", "--help")
    assert "usage: tsn-netconfd" in switch.succeeds("tsn-netconfd", "--help")
    assert "usage: tsn-netconf-broker" in switch.succeeds("tsn-netconf-broker", "--help")
    switch.succeeds("python", "-c", "import pam")
    for module in ("cnc", "ncclient"):
        assert "No module named" in switch.run("python", "-c", f"import {module}").stderr
