"""libtsn-talker tells the agent how many frames did not leave, as the library in Python does."""

from __future__ import annotations

import ctypes
import errno
import os
import subprocess
from pathlib import Path

import pytest

from agent.mechanisms.talker_offsets.lateness import LatenessFiles, file_name
from agent.mechanisms.talker_offsets.model import Launches, Transmission

LIBRARY = Path(__file__).parents[2] / "agent" / "talker_library"


class Launch(ctypes.Structure):
    """`struct tsn_launch`."""

    _fields_ = (
        ("fd", ctypes.c_int),
        ("in_hardware", ctypes.c_int),
        *((name, ctypes.c_uint64) for name in ("delta_ns", "ahead_ns", "missed", "refused")),
    )


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    root = tmp_path_factory.mktemp("library")
    subprocess.run([LIBRARY / "compile", root, "1.0"], check=True)
    (found,) = root.rglob("libtsn-talker.so.0")
    return ctypes.CDLL(str(found))


def report(library: ctypes.CDLL, offsets: Path, stream: str, path: int = 1) -> int:
    launch = Launch(missed=3, refused=2**40)
    return int(
        library.tsn_launch_report(ctypes.byref(launch), os.fsencode(offsets), stream.encode(), path)
    )


@pytest.mark.parametrize("stream", ["motion", "line 1/axis", "M\u00fche", "a.b~c_d-e"])
def test_what_did_not_leave_is_said_as_the_agent_reads_it(
    library: ctypes.CDLL, tmp_path: Path, stream: str
) -> None:
    files = LatenessFiles(tmp_path / "lateness")
    files.make()
    before = os.umask(0o077)
    try:
        assert report(library, tmp_path / "offsets.json", stream, path=2) == 0
    finally:
        os.umask(before)
    (file,) = (tmp_path / "lateness").iterdir()
    assert file.name == file_name(stream, 2)
    assert file.stat().st_mode & 0o777 == 0o644, "the agent is another user"
    sent = Transmission(stream, 2, 1_000_000, 0, 100, 6, None, ("l1",))
    said = files.stated([sent])[stream, 2]
    assert (said.lateness, said.launches) == (None, Launches(3, 2**40))


def test_where_nobody_may_tell_the_agent_the_reason_is_returned(
    library: ctypes.CDLL, tmp_path: Path
) -> None:
    assert report(library, tmp_path / "offsets.json", "motion") == -errno.ENOENT
    assert report(library, tmp_path / "offsets.json", "m" * 5000) == -errno.ENAMETOOLONG
