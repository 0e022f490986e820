"""A server forked from a process that has imported it, which is most of what a start costs."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["__main__", "agent.netconfd.front.server"])


class ForkedServer:
    """What the tests use of `subprocess.Popen`, for `python -m agent.netconfd`."""

    def __init__(self, options: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        self._process = _FORKS.Process(target=_run, args=(options, dict(environment), log))
        self._process.daemon = True
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid
        # Readable as soon as the process has ended.
        self.sentinel = self._process.sentinel

    def poll(self) -> int | None:
        """The exit code, None while it runs."""
        return self._process.exitcode

    def wait(self, timeout: float) -> int:
        """The exit code, once it has ended."""
        self._process.join(timeout)
        code = self._process.exitcode
        if code is None:
            raise subprocess.TimeoutExpired("tsn-netconfd", timeout)
        return code

    def terminate(self) -> None:
        """Send SIGTERM."""
        self._process.terminate()

    def kill(self) -> None:
        """Send SIGKILL."""
        self._process.kill()


def _run(options: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
    """In the new process: become the server."""
    descriptor = os.open(log, os.O_WRONLY)
    os.dup2(descriptor, sys.stderr.fileno())
    os.close(descriptor)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["tsn-netconfd", *options]
    from agent.netconfd.front.server import main  # noqa: PLC0415  imported before the fork

    sys.exit(main())
