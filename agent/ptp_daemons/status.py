"""What `tsn-clock` says of the daemons that it runs, and whether it runs itself."""

from __future__ import annotations

import fcntl
import json
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from agent import whole_file

LOCK = "tsn-clock.lock"
MAX_FILE_OCTETS = 2**16
READABLE_FOR_ALL = 0o644

NOT_SUPERVISED = (
    "tsn-clock, which runs ptp4l, does not run: systemctl start tsn-clock, and install linuxptp"
)


@dataclass(frozen=True, slots=True)
class Status:
    """What has become of a configuration, which is named by its digest.

    `running`: its ptp4l has answered. `failure`: why it ended, in its own words.
    """

    configuration: str
    running: bool = False
    failure: str | None = None


def write(path: Path, status: Status) -> None:
    content = {
        "configuration": status.configuration,
        "running": status.running,
        "failure": status.failure,
    }
    whole_file.replace(path, json.dumps(content).encode(), durable=False, mode=READABLE_FOR_ALL)


def read(path: Path) -> Status | None:
    """None where there is none that can be read."""
    with suppress(OSError, ValueError, KeyError, TypeError, RecursionError), path.open("rb") as f:
        node = json.loads(f.read(MAX_FILE_OCTETS))
        failure = node["failure"]
        return Status(
            str(node["configuration"]),
            bool(node["running"]),
            None if failure is None else str(failure),
        )
    return None


def lock(directory: Path) -> int:
    """Be the one who runs the daemons of this directory; a descriptor that ends with the process.

    Raises BlockingIOError where another process is.
    """
    descriptor = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, READABLE_FOR_ALL)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def is_locked(directory: Path) -> bool:
    """Whether a process runs the daemons of this directory."""
    try:
        descriptor = os.open(directory / LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        return False
    finally:
        os.close(descriptor)
