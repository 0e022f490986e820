"""How late the programs of an end station send, by what they say themselves.

A program leaves the file `STREAM.PATH` in a directory beside the offsets:

    {"format": "tsn-lateness/1", "count": n, "maximum-ns": n, "quantile-ns": n}

A program whose frames have a time of transmission adds those that did not leave. Nothing else is in
it until the kernel has said when a frame left:

    {"format": "tsn-lateness/2", "missed": n, "refused": n, "count": n, "maximum-ns": n}

Only files of published streams are opened, and these programs may be anybody's: what is no small
regular file with such numbers counts as none.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import stat
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import quote

from agent.mechanisms.talker_offsets.model import Launches, Stated, Transmission
from agent.wake_ups import WakeUps

LOG = logging.getLogger(__name__)

FORMAT, FORMAT_OF_LAUNCHES = "tsn-lateness/1", "tsn-lateness/2"
LAST_S = 24 * 3600  # what was said longer ago holds no more
MAX_FILE_OCTETS = 1024
_MAX_LATENESS_NS = LAST_S * 10**9
_MAX_COUNT = 2**53  # of the numbers of JSON the last that is exact everywhere
_MODE = 0o755
# No link is followed, and a pipe without a writer does not hold up the agent.
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class LatenessFiles:
    """The directory, and what is in it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._ignored: dict[str, str] = {}

    def make(self) -> None:
        """Make the directory, for programs of the agent's own user, unless it is there: a package
        makes one into which a group may write."""
        with contextlib.suppress(FileExistsError):
            self._directory.mkdir()
            self._directory.chmod(_MODE)  # whatever the umask is

    def forget(self) -> None:
        """Remove what was said."""
        with contextlib.suppress(OSError):
            for file in self._directory.iterdir():
                file.unlink()

    def stated(self, sent: Iterable[Transmission]) -> dict[tuple[str, int], Stated]:
        """What was said of these, by name and path, in the last 24 hours."""
        found = ((each.name, each.path) for each in sent)
        return {key: said for key in found if (said := self._read(*key))}

    def _read(self, stream: str, path: int) -> Stated | None:
        name = file_name(stream, path)
        try:
            descriptor = os.open(self._directory / name, _OPEN)
            with os.fdopen(descriptor, "rb") as file:
                status = os.fstat(descriptor)
                if not stat.S_ISREG(status.st_mode):
                    raise ValueError("no regular file")
                if status.st_mtime < time.time() - LAST_S:
                    return None
                said = decode(file.read(MAX_FILE_OCTETS + 1))
        except FileNotFoundError:
            said = None
        # RecursionError: brackets nested a thousand deep.
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            if self._ignored.get(name) != repr(error):
                LOG.warning("%s is ignored: %r", self._directory / name, error)
            self._ignored[name] = repr(error)
            return None
        self._ignored.pop(name, None)
        return said


def file_name(stream: str, path: int) -> str:
    """Where the talker of a stream leaves what it says; no name leads out of the directory."""
    return f"{quote(stream, safe='')}.{path}"


def decode(content: bytes) -> Stated:
    """What a talker says. Raises one of several errors if that is not as above."""
    if len(content) > MAX_FILE_OCTETS:
        raise ValueError(f"longer than {MAX_FILE_OCTETS} octets")
    document = json.loads(content)
    if document["format"] == FORMAT:
        return Stated(_lateness(document))
    if document["format"] != FORMAT_OF_LAUNCHES:
        raise ValueError(f"its format is neither {FORMAT!r} nor {FORMAT_OF_LAUNCHES!r}")
    launches = Launches(*(_natural(document[key], _MAX_COUNT) for key in ("missed", "refused")))
    return Stated(_lateness(document) if "count" in document else None, launches)


def _lateness(document: dict[str, Any]) -> WakeUps:
    maximum_ns = _natural(document["maximum-ns"], _MAX_LATENESS_NS)
    quantile_ns = document.get("quantile-ns")
    return WakeUps(
        _natural(document["count"], _MAX_COUNT),
        maximum_ns,
        None if quantile_ns is None else _natural(quantile_ns, maximum_ns),
    )


def _natural(value: Any, most: int) -> int:
    if type(value) is not int or not 0 <= value <= most:
        raise ValueError(f"{value!r:.40} is no whole number from 0 to {most}")
    return value
