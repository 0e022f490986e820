"""The package over version 0.1.0, whose one server had all state: the broker's part moves once.

The package's own script runs in a root directory of its own.
"""

from __future__ import annotations

import shutil
import subprocess

import pytest

from tests.stack.conftest import CHECKOUT
from tests.stack.test_package_purge import IN_ITS_OWN_ROOT, PATH_OF_APT

SCRIPT = CHECKOUT / "scripts" / "debian" / "tsn-switch.postinst"
PROGRAMS = ("sh", "mkdir", "chown", "mv", "dpkg")
FIRST, THIS = "0.1.0+deb12", "0.2.0~dev0+deb12"
OF_THE_SERVER = {"host_key", "host_key.pub"}
OF_THE_BROKER = {"confirmed-commit.xml", "notifications.sqlite", "notifications.sqlite-wal"}
NOBODY = 65534


@pytest.fixture
def state(tmp_path):
    """/var/lib of a switch on which the first version's server was killed."""
    if subprocess.run(["unshare", "--mount", "true"], check=False, capture_output=True).returncode:
        pytest.skip("may not mount a root directory of its own")
    root = tmp_path / "root"
    for each in ("bin", "lib", "lib64", "etc", "usr", "var/lib/tsn-netconfd"):
        (root / each).mkdir(parents=True)
    (root / "usr" / "bin").symlink_to("../bin")
    for name in ("passwd", "group"):
        (root / "etc" / name).write_text("root:x:0:0::/:/bin/sh\n")
    for program in PROGRAMS:
        shutil.copy(shutil.which(program), root / "bin" / program)
    shutil.copy(SCRIPT, root / "script")
    for name in OF_THE_SERVER | OF_THE_BROKER:
        (root / "var/lib/tsn-netconfd" / name).write_text(name)
    return root / "var/lib"


def configure(state, former):
    """Run the script over this former version."""
    ran = subprocess.run(
        [
            *("unshare", "--mount", "sh", "-c", IN_ITS_OWN_ROOT, "sh"),
            *(state.parents[1], PATH_OF_APT, "configure", former),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


def names(directory):
    return {file.name for file in directory.iterdir()}


def test_what_the_broker_needs_of_the_first_version_moves_and_the_host_key_stays(state):
    configure(state, FIRST)
    assert names(state / "tsn-netconfd") == OF_THE_SERVER
    assert names(state / "tsn-netconf-broker") == OF_THE_BROKER
    assert oct((state / "tsn-netconf-broker").stat().st_mode & 0o777) == "0o700"


def test_after_a_return_to_the_first_version_systemd_gives_all_to_the_broker_again(state):
    # It does so where the directory itself is not the service's.
    broker = state / "tsn-netconf-broker"
    broker.mkdir(mode=0o700)
    shutil.chown(broker, NOBODY, NOBODY)
    configure(state, FIRST)
    assert broker.stat().st_uid == 0
    assert names(broker) == OF_THE_BROKER


def test_what_the_server_writes_later_never_becomes_the_brokers(state):
    configure(state, THIS)
    assert names(state / "tsn-netconfd") == OF_THE_SERVER | OF_THE_BROKER
    assert not (state / "tsn-netconf-broker").exists()


def test_a_first_installation_has_nothing_to_move(state):
    shutil.rmtree(state / "tsn-netconfd")
    configure(state, "")
    assert names(state) == set()
