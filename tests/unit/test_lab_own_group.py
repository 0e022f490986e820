"""The library by which a user needs no group of sysrepo's."""

from __future__ import annotations

import grp
import os
import subprocess
import sys

import pytest

from cnc.errors import CncError
from cnc.testbed.lab import own_group

ASK = "import grp, os, sys; print(grp.getgrnam(sys.argv[1]).gr_gid, os.getegid())"


@pytest.fixture
def ordinary(monkeypatch: pytest.MonkeyPatch) -> None:
    """This user is not root, nor a member."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(grp, "getgrnam", lambda _: grp.struct_group(("sysrepo", "x", 4711, [])))


def asked(group: str) -> list[str]:
    environment = {**os.environ, **own_group.environment()}
    return subprocess.check_output(
        [sys.executable, "-c", ASK, group], env=environment, text=True
    ).split()


@pytest.mark.usefixtures("ordinary")
def test_the_group_of_sysrepo_is_that_of_the_user_and_others_are_what_they_are():
    theirs, own = asked("sysrepo")
    assert theirs == own
    number, _ = asked("adm")
    assert number != own


def test_root_needs_nothing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert own_group.environment() == {}


@pytest.mark.usefixtures("ordinary")
def test_a_member_needs_nothing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(os, "getgroups", lambda: [4711])
    assert own_group.environment() == {}


@pytest.mark.usefixtures("ordinary")
def test_libraries_that_the_user_has_loaded_stay(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LD_PRELOAD", "/lib/mine.so")
    assert own_group.environment()["LD_PRELOAD"].endswith("own-group.preload:/lib/mine.so")


@pytest.mark.usefixtures("ordinary")
def test_an_installation_without_the_library_says_what_helps(monkeypatch, tmp_path):
    monkeypatch.setattr(own_group, "LIBRARY", tmp_path / "own-group.preload")
    with pytest.raises(CncError, match="only root and the group sysrepo") as refused:
        own_group.environment()
    assert "adduser" in (refused.value.hint or "")
