"""A PostgreSQL of its own for tests: a cluster in a directory of its own, as the user postgres,
which listens on a Unix socket there alone."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from tempfile import mkdtemp

from tests.stack.netconfd_process import wait_until

OWNER = "postgres"
ROLE = "cnc"
PASSWORD = "of the tests"  # noqa: S105
START_S, STOP_S = 60.0, 60.0
_OF_SMALL = """
    SELECT datname FROM pg_database JOIN pg_tablespace its ON its.oid = dattablespace
    WHERE spcname = 'small'
"""


def programs() -> Path:
    """The directory of the newest version's programs, which Debian keeps apart."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda its: int(its.parent.name))
    return found[-1]


class Cluster:
    """Made when it is entered, and removed at the end. Needs root, to become the user postgres."""

    def __init__(self) -> None:
        self._numbers = count(1)
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Cluster:
        # Not in pytest's directory, which only root enters; and the path of a socket is short.
        self.directory = Path(mkdtemp(prefix="cnc-pg-"))
        self.directory.chmod(0o755)
        shutil.chown(self.directory, OWNER)
        self.passfile = self.directory / "pgpass"
        self.passfile.write_text(f"*:*:*:*:{PASSWORD}\n")
        self.passfile.chmod(0o600)
        password = self.directory / "password"
        password.write_text(PASSWORD)
        shutil.chown(password, OWNER)
        self._run(
            "initdb",
            "-D",
            self.directory / "data",
            "-A",
            "scram-sha-256",
            "-E",
            "UTF8",
            "--locale",
            "C.UTF-8",
            "--locale-provider",
            "icu",
            "--icu-locale",
            "en",
            "--pwfile",
            password,
        )
        self.start()
        self.sql(f"CREATE ROLE {ROLE} LOGIN PASSWORD '{PASSWORD}'")
        return self

    def __exit__(self, *_: object) -> None:
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self.directory)

    def start(self, *options: str) -> None:
        """It answers when this returns."""
        log = (self.directory / "log").open("a")
        words = [programs() / "postgres", "-D", self.directory / "data", "-k", self.directory]
        self._process = subprocess.Popen(
            [*words, "-c", "listen_addresses=", *options], stdout=log, stderr=log, **_as_owner()
        )
        assert wait_until(self._answers, START_S), (self.directory / "log").read_text()

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """At SIGINT it ends all sessions; at SIGQUIT it does not even write what it knows, as at a
        power cut."""
        if self._process:
            self._process.send_signal(how)
            self._process.wait(STOP_S)
            self._process = None

    def database(self, tablespace: str = "pg_default") -> str:
        """The URL of a new database."""
        name = f"cnc{next(self._numbers)}"
        self.sql(f"CREATE DATABASE {name} OWNER {ROLE} TABLESPACE {tablespace}")
        return f"postgresql://{ROLE}@/{name}?host={self.directory}"

    @contextmanager
    def small_disk(self, octets: int) -> Iterator[Path]:
        """A disk of its own, with a tablespace `small`, while the block runs."""
        disk = self.directory / "small"
        disk.mkdir()
        options = f"size={octets},mode=700,uid={pwd.getpwnam(OWNER).pw_uid}"
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "cnc-test", disk], check=True)
        try:
            self.sql(f"CREATE TABLESPACE small LOCATION '{disk}'")
            yield disk
            for name in self.sql(_OF_SMALL).splitlines():
                self.sql(f"DROP DATABASE {name} WITH (FORCE)")
            self.sql("DROP TABLESPACE small")
        finally:
            subprocess.run(["umount", "--lazy", disk], check=True)

    def end_sessions(self, url: str) -> None:
        """End all sessions of clients with a database; they have ended when this returns."""
        name = url.partition("@/")[2].partition("?")[0]
        asked = f"FROM pg_stat_activity WHERE datname = '{name}' AND pid != pg_backend_pid()"
        self.sql(f"SELECT pg_terminate_backend(pid, 5000) {asked}")

    def sql(self, statement: str, database: str = "postgres") -> str:
        """What a statement of the superuser finds, rows by lines."""
        environment = {**os.environ, "PGPASSFILE": str(self.passfile)}
        found = subprocess.run(
            [
                programs() / "psql",
                "-h",
                self.directory,
                "-U",
                OWNER,
                "-qAt",
                "-v",
                "ON_ERROR_STOP=1",
                "-c",
                statement,
                database,
            ],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert found.returncode == 0, found.stderr
        return found.stdout.strip()

    def _answers(self) -> bool:
        asked = [programs() / "pg_isready", "-q", "-h", self.directory]
        return subprocess.run(asked, check=False).returncode == 0

    def _run(self, program: str, *words: object) -> None:
        done = subprocess.run(
            [programs() / program, *map(str, words)],
            capture_output=True,
            text=True,
            check=False,
            **_as_owner(),
        )
        assert done.returncode == 0, done.stdout + done.stderr


def _as_owner() -> dict:
    owner = pwd.getpwnam(OWNER)
    return {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": [], "cwd": "/"}
