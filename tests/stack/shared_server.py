"""One server for all tests of a module, proven to be as new before the next of them.

A server of its own costs a test half a second of processor time, this one a twentieth of that. What
a test may change and need not restore: the configuration in any datastore. What it must end itself:
sessions, subscriptions, locks and confirmed commits. What stays changed: the log of notifications,
the statistics, and the next number of a session.
"""

from __future__ import annotations

import difflib
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.stack.netconfd_process import NetconfdProcess, running_netconfd, wait_until
from tests.stack.repository import Repository

DATASTORES = ("running", "startup", "candidate")
# Their state says what is still open.
SYSREPO_STATE = "/sysrepo-monitoring:sysrepo-state"
NETCONF_SESSIONS = "/ietf-netconf-monitoring:netconf-state/sessions"
# Times of changes, what NACM has counted, the numbers of connections: a process tells these apart.
GROWING = ("<last-modified>", "<denied-", "<cid>")
CHANGE_TIMEOUT_MS = 20_000
# How long a test's own sessions may take to end.
PATIENCE_S = 10.0
# Lines of a difference worth reading.
FEW = 20


class Place:
    """The only sysrepo that this process can use: libsysrepo reads the environment once.

    What a module shares lives here until another needs the place.
    """

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._end_shared: Callable[[], None] | None = None

    @contextmanager
    def fresh(self, template: Path) -> Iterator[Repository]:
        """A copy of the template, which the environment points at."""
        self.vacate()
        repository = self._repository
        assert not repository.path.exists(), "this test has a sysrepo of its own already"
        shutil.copytree(template, repository.path)
        try:
            with pytest.MonkeyPatch.context() as environment:
                for name, value in repository.environment.items():
                    environment.setenv(name, value)
                yield repository
        finally:
            repository.forget_shared_memory()
            shutil.rmtree(repository.path)

    def share(self, end: Callable[[], None]) -> None:
        """From now on the place is shared; `end` vacates it."""
        self._end_shared = end

    def vacate(self) -> None:
        """End what is shared here."""
        end, self._end_shared = self._end_shared, None
        if end is not None:
            end()


class SharedServer:
    """Our own server, started for the first test that asks, and again after one that spoiled it."""

    def __init__(self, place: Place, template: Path, directory: Path) -> None:
        self._place = place
        self.template = template
        self._directory = directory
        self._starts = 0
        self._running: _Running | None = None

    @property
    def repository(self) -> Repository:
        """The sysrepo behind the server."""
        assert self._running is not None
        return self._running.repository

    def lend(self) -> NetconfdProcess:
        """The server, with a log that begins now."""
        if self._running is None:
            self._starts += 1
            self._running = _Running(
                self._place, self.template, self._directory / str(self._starts)
            )
            self._place.share(self.end)
        self._running.server.forget_log()
        return self._running.server

    def clean_up(self) -> str:
        """Restore the configuration; what is still different from a new server, as text."""
        return self._running.clean_up() if self._running else ""

    def end(self) -> None:
        """Stop the server and give the place free."""
        running, self._running = self._running, None
        if running is not None:
            running.close()


class _Running:
    """A server, and what a new one looks like."""

    def __init__(self, place: Place, template: Path, directory: Path) -> None:
        import sysrepo  # noqa: PLC0415  a machine without it can still collect the tests

        with ExitStack() as stack:
            self.repository = stack.enter_context(place.fresh(template))
            self.server = stack.enter_context(running_netconfd(directory))
            self._connection = stack.enter_context(sysrepo.SysrepoConnection())
            self._pid = self.server.pid
            self._configuration = {name: self._read(name, "/*") for name in DATASTORES}
            self._open = self._what_is_open()
            self._stack = stack.pop_all()

    def close(self) -> None:
        self._stack.close()

    def clean_up(self) -> str:
        """What differs from a new server though the configuration was restored."""
        if not (self.server.alive and self.server.pid == self._pid):
            return "the server is not the process that was started: it was stopped or has crashed"
        # First, because the end of a session may change the configuration.
        wait_until(lambda: not self._sessions(), PATIENCE_S)
        for name in ("running", "startup"):
            if self._read(name, "/*") != self._configuration[name]:
                self._restore(name)
        with self._connection.start_session("candidate") as session:
            session.copy_config("running")
        before = {"open": self._open, **self._configuration}
        wait_until(lambda: self._what_is_open() == self._open, PATIENCE_S)
        after = {"open": self._what_is_open()}
        after |= {name: self._read(name, "/*") for name in DATASTORES}
        return "\n".join(_difference(name, before[name], after[name]) for name in before).strip()

    def _read(self, datastore: str, xpath: str) -> str:
        with (
            self._connection.start_session(datastore) as session,
            session.get_data_ly(xpath) as tree,
        ):
            return tree.print_mem("xml", with_siblings=True, pretty=True) or ""

    def _restore(self, datastore: str) -> None:
        with self._connection.start_session(datastore) as session, session.get_ly_ctx() as context:
            xml = self._configuration[datastore]
            tree = context.parse_data_mem(xml, "xml", parse_only=True, strict=True)
            # sysrepo frees the tree.
            session.replace_config_ly(tree, None, CHANGE_TIMEOUT_MS)

    def _sessions(self) -> str:
        return self._read("operational", NETCONF_SESSIONS)

    def _what_is_open(self) -> str:
        """Sessions, connections, subscriptions, locks and pending commits, one a line."""
        state = self._read("operational", SYSREPO_STATE).splitlines()
        files = sorted(path.name for path in self.server.state_dir.iterdir())
        constant = [line for line in state if not any(name in line for name in GROWING)]
        return "\n".join([*constant, self._sessions(), *files])


def _difference(name: str, before: str, after: str) -> str:
    lines = difflib.unified_diff(
        before.splitlines(), after.splitlines(), f"{name} of a new server", name, n=1, lineterm=""
    )
    return "\n".join(list(lines)[:FEW])
