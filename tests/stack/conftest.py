"""A private sysrepo for every test: the modules of `yang/` are installed once, then copied.

`sysrepo_repository` is all a test needs: it points this process, and every child that inherits its
environment, at a fresh repository with empty datastores.

A NETCONF test asks for `server` if any server will do; for `shared_netconfd` if it must be ours, to
read its log or its files; for `netconfd` if it must be its own, to stop it or to spoil it. The
first two are one process for a module, proven to be as new between tests (see `shared_server`), and
`shared_sysrepo` is behind it. A test that asks for `sysrepo_repository` has a server of its own.
With TSN_NETCONF_SERVER set (see `front_end`), `server` is the one named there, and all other tests
are deselected. Tests for any server call their interfaces `tsn-test-…` and leave startup alone.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.stack import front_end
from tests.stack.front_end import FrontEnd, NotUsable
from tests.stack.lldp_client import lldp_client
from tests.stack.netconfd_process import NetconfdProcess, running_netconfd
from tests.stack.postgresql import Cluster
from tests.stack.recording_kernel import RecordingKernel, port
from tests.stack.repository import Repository
from tests.stack.shared_server import Place, SharedServer
from tests.stack.sysrepo_client import NOW_NS, Client

if TYPE_CHECKING:
    from agent.datastore.subscriptions import Datastore

FOLDER = Path(__file__).parent
CHECKOUT = FOLDER.parents[1]

NetconfdProcess.is_forked = True


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep what runs over any server, if one is named; pytest counts the others as deselected."""
    if front_end.VARIABLE not in os.environ:
        _put_own_servers_last(items)
        return
    ours = [item for item in items if not _runs_over_any_server(item)]
    config.hook.pytest_deselected(items=ours)
    items[:] = [item for item in items if item not in ours]


def _put_own_servers_last(items: list[pytest.Item]) -> None:
    """In each module of this folder: there is room for one sysrepo, so each ends the shared one."""
    modules = list(dict.fromkeys(item.path for item in items))
    items.sort(
        key=lambda item: (
            modules.index(item.path),
            item.path.parent == FOLDER and "sysrepo_repository" in _fixtures(item),
        )
    )


def _fixtures(item: pytest.Item) -> set[str]:
    return set(getattr(item, "fixturenames", ()))


def _runs_over_any_server(item: pytest.Item) -> bool:
    # Every way behind the server starts from the template.
    return "server" in _fixtures(item) and "sysrepo_template" not in _fixtures(item)


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


@pytest.fixture(scope="session")
def sysrepo_place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """Where this process has its sysrepo."""
    path = tmp_path_factory.mktemp("place") / "repository"
    return Place(Repository(path, f"tsntest{os.getpid()}x"))


@pytest.fixture
def sysrepo_repository(sysrepo_place: Place, sysrepo_template: Path) -> Iterator[Repository]:
    """A fresh sysrepo for one test; sessions and children must end before the test does."""
    with sysrepo_place.fresh(sysrepo_template) as repository:
        yield repository


@pytest.fixture
def netconfd(sysrepo_repository: Repository, tmp_path: Path) -> Iterator[NetconfdProcess]:
    """Our own server, on a fresh sysrepo."""
    with running_netconfd(tmp_path / "netconfd") as process:
        yield process


@pytest.fixture(scope="module")
def shared_server(
    sysrepo_place: Place, sysrepo_template: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SharedServer]:
    """What the tests of a module share; they ask for `shared_netconfd`."""
    shared = SharedServer(sysrepo_place, sysrepo_template, tmp_path_factory.mktemp("shared"))
    yield shared
    shared.end()


@pytest.fixture
def shared_netconfd(
    shared_server: SharedServer, request: pytest.FixtureRequest
) -> Iterator[NetconfdProcess]:
    """Our own server, as new, to use and to read its log, but not to stop."""
    yield shared_server.lend()
    difference = "it could not be cleaned"
    try:
        difference = shared_server.clean_up()
    finally:
        if difference:
            shared_server.end()
    if difference:
        pytest.fail(f"{request.node.nodeid} left the server changed:\n{difference}", pytrace=False)


@pytest.fixture
def shared_sysrepo(shared_netconfd: NetconfdProcess, shared_server: SharedServer) -> Repository:
    """The sysrepo behind the shared server."""
    return shared_server.repository


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
        own = "sysrepo_repository" in request.fixturenames
        yield request.getfixturevalue("netconfd" if own else "shared_netconfd")
        return
    named: FrontEnd = request.getfixturevalue("named_server")
    yield named
    front_end.clean_up(named)


@pytest.fixture
def client(sysrepo_repository: Repository) -> Iterator[Client]:
    sysrepo = pytest.importorskip("sysrepo")
    with sysrepo.SysrepoConnection() as connection:
        yield Client(connection)


@pytest.fixture(scope="module")
def data_switch(sysrepo_place: Place, sysrepo_template: Path) -> Iterator[Any]:
    """A connection to a sysrepo with data of every kind, for tests that only read."""
    # A machine without it can still collect the tests.
    sysrepo = pytest.importorskip("sysrepo")
    from tests.stack.filtered_switch import filtered_switch  # noqa: PLC0415  likewise

    with ExitStack() as stack:
        stack.enter_context(sysrepo_place.fresh(sysrepo_template))
        connection = stack.enter_context(sysrepo.SysrepoConnection())
        stack.enter_context(filtered_switch(connection))
        sysrepo_place.share(stack.close)
        yield connection


@pytest.fixture
def kernel() -> RecordingKernel:
    """A switch with two ports, p1 and p2, whose clock stands at `NOW_NS`."""
    return RecordingKernel(port("p1", 2), port("p2", 3), now_ns=NOW_NS)


@pytest.fixture
def agent(kernel: RecordingKernel, client: Client) -> Iterator[Datastore]:
    """The agent of that switch, in this process."""
    # A machine without sysrepo can still collect the tests.
    from agent.datastore.subscriptions import Datastore  # noqa: PLC0415

    serving = Datastore(kernel)
    yield serving
    serving.close()


@pytest.fixture
def lldpd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Sets the neighbours that the switch's LLDP daemon has heard; before that there is none."""
    return lldp_client(tmp_path, monkeypatch)


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Cluster]:
    """A PostgreSQL that a test may stop, if it starts it again."""
    with Cluster() as cluster:
        yield cluster


@pytest.fixture
def database(postgresql: Cluster, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of a new database; whoever runs in this environment may use it."""
    monkeypatch.setenv("PGPASSFILE", str(postgresql.passfile))
    return postgresql.database()
