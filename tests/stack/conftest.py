"""A private sysrepo for every test: the modules of `yang/` are installed once, then copied.

`sysrepo_repository` is all a test needs: it points this process, and every child that inherits its
environment, at a fresh repository with empty datastores.

A NETCONF test asks for `server` if any server will do, and for `netconfd` if it must be ours: to
kill it, to read its log or its files. Asking for `sysrepo_repository` means to reach behind it.
With TSN_NETCONF_SERVER set (see `front_end`), `server` is the one named there, and all other tests
are deselected. Tests for any server call their interfaces `tsn-test-…` and leave startup alone.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.stack import front_end
from tests.stack.front_end import FrontEnd, NotUsable
from tests.stack.netconfd_process import NetconfdProcess, running_netconfd
from tests.stack.recording_kernel import RecordingKernel, port
from tests.stack.repository import Repository
from tests.stack.sysrepo_client import NOW_NS, Client

CHECKOUT = Path(__file__).parents[2]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep what runs over any server, if one is named; pytest counts the others as deselected."""
    if front_end.VARIABLE not in os.environ:
        return
    ours = [item for item in items if not _runs_over_any_server(item)]
    config.hook.pytest_deselected(items=ours)
    items[:] = [item for item in items if item not in ours]


def _runs_over_any_server(item: pytest.Item) -> bool:
    wants = set(getattr(item, "fixturenames", ()))
    # Every way behind the server starts from the template.
    return "server" in wants and "sysrepo_template" not in wants


@pytest.fixture(scope="session")
def sysrepo_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with every module of `yang/` and no configuration, to copy from."""
    pytest.importorskip("sysrepo")
    path = tmp_path_factory.mktemp("sysrepo") / "template"
    template = Repository(path, f"tsntemplate{os.getpid()}x")
    installed = subprocess.run(
        [CHECKOUT / "yang" / "install"],
        env=os.environ | template.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    template.forget_shared_memory()
    assert installed.returncode == 0, installed.stdout + installed.stderr
    return template.path


@pytest.fixture
def sysrepo_repository(
    sysrepo_template: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Repository]:
    """A fresh sysrepo for one test; sessions and children must end before the test does."""
    # libsysrepo asks the environment once a process, so every test gets the same place, swept.
    repository = Repository(sysrepo_template.with_name("repository"), f"tsntest{os.getpid()}x")
    shutil.copytree(sysrepo_template, repository.path)
    for name, value in repository.environment.items():
        monkeypatch.setenv(name, value)
    yield repository
    repository.forget_shared_memory()
    shutil.rmtree(repository.path)


@pytest.fixture
def netconfd(sysrepo_repository: Repository, tmp_path: Path) -> Iterator[NetconfdProcess]:
    """Our own server, on a fresh sysrepo."""
    with running_netconfd(tmp_path / "netconfd") as process:
        yield process


@pytest.fixture(scope="session")
def named_server() -> FrontEnd:
    """The server that the environment names, found free of anybody's work."""
    try:
        server = front_end.named_server(os.environ)
        front_end.check_untouched(server)
    except NotUsable as error:
        pytest.exit(str(error), returncode=pytest.ExitCode.USAGE_ERROR)
    return server


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Iterator[FrontEnd]:
    """The NETCONF server under test."""
    if front_end.VARIABLE not in os.environ:
        yield request.getfixturevalue("netconfd")
        return
    named: FrontEnd = request.getfixturevalue("named_server")
    yield named
    front_end.clean_up(named)


@pytest.fixture
def client(sysrepo_repository: Repository) -> Iterator[Client]:
    sysrepo = pytest.importorskip("sysrepo")
    with sysrepo.SysrepoConnection() as connection:
        yield Client(connection)


@pytest.fixture
def kernel() -> RecordingKernel:
    """A switch with two ports, p1 and p2, whose clock stands at `NOW_NS`."""
    return RecordingKernel(port("p1", 2), port("p2", 3), now_ns=NOW_NS)
