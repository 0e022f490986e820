"""A full or broken disk: no confirmed commit without a way back, and everything else goes on."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from ncclient.operations import RPCError

from tests.stack.netconfd_process import NetconfdProcess, wait_until
from tests.stack.test_netconfd_confirmed_commit import LONG_S, commit_unconfirmed, edit, running

# Room for the log of notifications and a snapshot, on a disk of the server's own.
DISK_OCTETS = 512 * 1024
ON_SMALL_DISK = (
    f'mount -t tmpfs -o size={DISK_OCTETS},mode=700 tsn-test "$1" || exit 1; '
    'test "$2" = empty || head --bytes=1M /dev/zero >"$1/fill"; shift 2; exec "$@"'
)


class SmallDisk(NetconfdProcess):
    """A server whose state directory is a disk that only it sees."""

    def start_on_disk(self, state="empty"):
        """Start on a disk that is `empty` or `full`."""
        self.state_dir.mkdir(exist_ok=True)
        script = ["sh", "-c", ON_SMALL_DISK, "sh", str(self.state_dir), state]
        self.wrapper = ["unshare", "--mount", *script]
        self.start()

    @property
    def disk(self):
        """The state directory as the server sees it."""
        return Path(f"/proc/{self.pid}/root{self.state_dir}")

    def fill(self):
        with (self.disk / "fill").open("wb") as file:
            zeros = ["head", f"--bytes={DISK_OCTETS}", "/dev/zero"]
            subprocess.run(zeros, stdout=file, stderr=subprocess.DEVNULL, check=False)

    def clear(self):
        (self.disk / "fill").unlink()

    def make_read_only(self):
        """What Linux does to a disk with errors."""
        self._on_its_mounts("mount", "--bind", self.state_dir, self.state_dir)
        self._on_its_mounts("mount", "-o", "remount,bind,ro", self.state_dir)

    def make_writable(self):
        self._on_its_mounts("umount", self.state_dir)

    def _on_its_mounts(self, *command):
        subprocess.run(["nsenter", "--mount", f"--target={self.pid}", *command], check=True)


@pytest.fixture
def netconfd(sysrepo_repository, tmp_path):
    if subprocess.run(["unshare", "--mount", "true"], check=False, capture_output=True).returncode:
        pytest.skip("may not mount a disk of its own")
    server = SmallDisk(tmp_path / "netconfd")
    yield server
    server.kill()


@pytest.fixture
def client(netconfd):
    netconfd.start_on_disk()
    with netconfd.connect() as client:
        edit(client, "before")
        client.commit()
        yield client


def test_a_confirmed_commit_without_room_for_the_way_back_is_refused_and_changes_nothing(
    netconfd, client
):
    netconfd.fill()
    edit(client, "after")
    with pytest.raises(RPCError, match="No space left on device") as refusal:
        client.commit(confirmed=True, timeout=LONG_S)
    assert refusal.value.tag == "resource-denied"
    assert running(client) == "before"
    assert list(netconfd.disk.glob("confirmed-commit*")) == []
    # as soon as there is room, all is well
    netconfd.clear()
    commit_unconfirmed(client)
    client.commit()
    assert running(client) == "after"


def test_a_full_disk_takes_notifications_and_no_commit_with_it(netconfd, client):
    netconfd.fill()
    for number in range(50):
        edit(client, f"commit {number}")
        client.commit()
        assert running(client) == f"commit {number}"
    assert wait_until(lambda: "a notification is lost, it cannot be logged" in netconfd.log)


def test_on_a_disk_that_is_full_meanwhile_a_commit_is_confirmed_or_goes_back(netconfd, client):
    commit_unconfirmed(client, "confirmed")
    netconfd.fill()
    client.commit()
    assert running(client) == "confirmed"
    netconfd.clear()
    commit_unconfirmed(client, "cancelled")
    netconfd.fill()
    client.cancel_commit()
    assert running(client) == "confirmed"


def test_a_server_starts_on_a_full_disk_and_still_notifies(netconfd):
    netconfd.start_on_disk("full")
    assert "notifications are kept in memory until the server ends" in netconfd.log
    with netconfd.connect() as client, netconfd.connect() as listener:
        listener.create_subscription()
        edit(client, "after")
        client.commit()
        while (
            "netconf-config-change" not in listener.take_notification(timeout=10).notification_xml
        ):
            pass


def test_what_cannot_be_forgotten_is_not_confirmed_and_nobody_commits_over_it(netconfd, client):
    with netconfd.connect() as leaver:
        commit_unconfirmed(leaver)
        netconfd.make_read_only()
        # Answered with ok, it would come back at the next start.
        refused_by_disk(leaver.commit, tag="operation-failed")
    assert wait_until(lambda: "cannot revert the confirmed commit yet" in netconfd.log)
    assert running(client) == "before"
    refused_by_disk(client.commit, tag="in-use")
    netconfd.make_writable()
    assert wait_until(lambda: "confirmed commit reverted" in netconfd.log)
    assert not (netconfd.disk / "confirmed-commit.xml").exists()
    client.commit()


def refused_by_disk(call, *, tag):
    with pytest.raises(RPCError, match="Read-only file system") as refusal:
        call()
    assert refusal.value.tag == tag
