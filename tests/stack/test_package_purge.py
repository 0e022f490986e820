"""`apt purge tsn-switch`: what the package left goes, what others need of sysrepo stays.

The package's own script runs in a root directory of its own: it removes whole trees.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import sysrepo

from tests.stack.conftest import CHECKOUT
from tests.stack.repository import SHARED_MEMORY

SCRIPT = CHECKOUT / "scripts" / "debian" / "tsn-switch.postrm"
# What apt gives to dpkg (DPkg::Path in apt.conf(5)).
PATH_OF_APT = "/usr/sbin:/usr/bin:/sbin:/bin"
PROGRAMS = ("sh", "rm")
STATE = ("var/lib/tsn-agent", "var/lib/tsn-netconfd", "var/lib/tsn-netconf-broker")
IN_ITS_OWN_ROOT = """
set -e
for each in lib lib64; do
    [ ! -e "/$each" ] || mount --bind -o ro "/$each" "$1/$each"
done
root=$1 path=$2
shift 2
exec env -i PATH="$path" chroot "$root" /bin/sh /script "$@"
"""


@pytest.fixture
def root(tmp_path, sysrepo_repository):
    """The root directory of a switch where the package was removed, after it had run."""
    if subprocess.run(["unshare", "--mount", "true"], check=False, capture_output=True).returncode:
        pytest.skip("may not mount a root directory of its own")
    root = tmp_path / "root"
    for each in (
        "bin",
        "lib",
        "lib64",
        "dev/shm",
        "etc/tsn/authorized_keys",
        "usr/local/bin",
        *STATE,
    ):
        (root / each).mkdir(parents=True)
    (root / "usr" / "bin").symlink_to("../bin")
    for program in PROGRAMS:
        shutil.copy(shutil.which(program), root / "bin" / program)
    shutil.copy(SCRIPT, root / "script")
    with sysrepo.SysrepoConnection():
        shutil.copytree(sysrepo_repository.path, root / "etc" / "sysrepo")
        for segment in SHARED_MEMORY.glob(f"{sysrepo_repository.shm_prefix}_*"):
            name = segment.name.replace(sysrepo_repository.shm_prefix, "sr", 1)
            shutil.copy(segment, root / "dev" / "shm" / name)
    return root


def after(action, root):
    """Run the script; what there is of sysrepo and of ours then, and what the script said."""
    ran = subprocess.run(
        ["unshare", "--mount", "sh", "-c", IN_ITS_OWN_ROOT, "sh", root, PATH_OF_APT, action],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (0, "")
    places = {
        "repository": root / "etc" / "sysrepo",
        "memory": root / "dev" / "shm" / "sr_main",
        "ours": root / "etc" / "tsn",
        "state": root / STATE[0],
        "broker's": root / STATE[1],
    }
    return {name for name, path in places.items() if path.exists()}, ran.stderr


def install(file: Path):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("#!/bin/sh\n")
    file.chmod(0o755)


def test_what_only_the_package_used_goes(root):
    (root / "dev" / "shm" / "srsub_ietf-interfaces").touch()
    (root / "dev" / "shm" / "another").touch()
    assert after("purge", root) == (set(), "")
    assert [file.name for file in (root / "dev" / "shm").iterdir()] == ["another"]


def test_a_machine_without_a_repository_is_no_problem(root):
    shutil.rmtree(root / "etc" / "sysrepo")
    shutil.rmtree(root / "dev" / "shm")
    (root / "dev" / "shm").mkdir()
    assert after("purge", root) == (set(), "")


def test_removal_without_purge_takes_nothing(root):
    assert after("remove", root) == (
        {"repository", "memory", "ours", "state", "broker's"},
        "",
    )


@pytest.mark.parametrize("place", ["usr/bin", "usr/local/bin", "usr/local/sbin"])
def test_the_repository_of_another_sysrepo_stays(root, place):
    install(root / place / "sysrepoctl")
    left, said = after("purge", root)
    assert left == {"repository", "memory"}
    assert "/sysrepoctl" in said


@pytest.mark.parametrize(
    "file", ["etc/sysrepo/yang/ietf-keystore@2024-10-10.yang", "dev/shm/sr_ietf-keystore.running"]
)
def test_a_repository_with_a_module_of_others_stays(root, file):
    (root / file).touch()
    left, said = after("purge", root)
    assert left == {"repository", "memory"}
    assert f"/{file}" in said
