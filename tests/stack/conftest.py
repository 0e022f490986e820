"""A private sysrepo for every test: the modules of `yang/` are installed once, then copied.

`sysrepo_repository` is all a test needs: it points this process, and every child that inherits its
environment, at a fresh repository with empty datastores.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.stack.recording_kernel import RecordingKernel, port
from tests.stack.repository import Repository
from tests.stack.sysrepo_client import NOW_NS, Client

CHECKOUT = Path(__file__).parents[2]


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
def client(sysrepo_repository: Repository) -> Iterator[Client]:
    sysrepo = pytest.importorskip("sysrepo")
    with sysrepo.SysrepoConnection() as connection:
        yield Client(connection)


@pytest.fixture
def kernel() -> RecordingKernel:
    """A switch with two ports, p1 and p2, whose clock stands at `NOW_NS`."""
    return RecordingKernel(port("p1", 2), port("p2", 3), now_ns=NOW_NS)
