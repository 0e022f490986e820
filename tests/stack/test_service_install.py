"""`yang/install --owner`: a repository that a NETCONF server can serve without being root."""

from __future__ import annotations

import getpass
import shutil
import subprocess
from pathlib import Path

import pytest

INSTALL = Path(__file__).parents[2] / "yang" / "install"


def install(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([INSTALL, *arguments], capture_output=True, text=True, check=False)


@pytest.fixture
def empty(sysrepo_repository):
    sysrepo_repository.forget_shared_memory()
    shutil.rmtree(sysrepo_repository.path)
    sysrepo_repository.path.mkdir()
    return sysrepo_repository


def access() -> dict[str, tuple[str, str]]:
    """Owner with group, and permissions of startup and running, by installed module."""
    listing = subprocess.run(["sysrepoctl", "--list"], capture_output=True, text=True, check=True)
    rows = [line.split("|") for line in listing.stdout.splitlines() if line.count("|") > 5]
    return {
        name.strip(): (owner.strip(), f"{startup.strip()} {running.strip()}")
        for name, _, flags, owner, startup, running, *_ in rows
        if "I" in flags
    }


def test_every_module_belongs_to_the_owner_and_is_open_to_the_group(empty):
    me = getpass.getuser()
    assert install("--owner", me).returncode == 0

    assert set(access().values()) == {(f"{me}:sysrepo", "660 660")}
    assert {"tsn-netconf-server", "ietf-netconf-acm", "tsn-linux"} <= access().keys()


def test_what_root_has_taken_since_is_given_back_by_the_next_run(empty):
    assert install("--owner", getpass.getuser()).returncode == 0
    wanted = access()
    subprocess.run(["sysrepoctl", "--change", "tsn-linux", "--permissions", "600"], check=True)
    assert access() != wanted

    assert install("--owner", getpass.getuser()).returncode == 0

    assert access() == wanted


def test_without_an_owner_keys_stay_closed_to_the_group(empty):
    assert install().returncode == 0

    assert access()["tsn-netconf-server"][1] == "600 600"


def test_an_owner_who_does_not_exist_is_refused_before_anything_is_made(empty):
    result = install("--owner", "nobody-has-this-name")

    assert result.returncode == 2
    assert "there is no user nobody-has-this-name" in result.stderr
    assert not list(empty.path.iterdir())
