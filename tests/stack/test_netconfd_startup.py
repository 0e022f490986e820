"""The startup datastore on a disk that is full, and one that somebody has damaged."""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from lxml import etree
from ncclient.operations import RPCError

from tests.stack.netconf_client import INTERFACES, ask
from tests.stack.netconfd_process import START_TIMEOUT_S, NetconfdProcess
from tests.stack.test_netconfd_confirmed_commit import BASE, commit_unconfirmed, edit, running

# The repository takes 1 MiB of it with a copy of each file.
DISK_OCTETS = 4 * 2**20
LEFT_KIB = (0, 1, 2, 4, 8, 16, 24, 32, 40, 48, 64, 96)
# Of several blocks, so that a disk with a few left takes some of it.
LONG = "n" * 20_000
SMALL_DISK = (
    'cp -a "$1" "$1.before" && mount -t tmpfs -o size=$2,mode=770 tsn-test "$1" && '
    'cp -a "$1.before/." "$1" && echo ready && exec sleep infinity'
)
YANG_INSTALL = Path(__file__).parents[2] / "yang" / "install"
SERVER_STATE = "urn:tsn-control-plane:yang:tsn-netconf-server"


class Disk:
    """What holds the files of startup: a small disk in a mount namespace of its own."""

    def __init__(self, data):
        self._holder = subprocess.Popen(
            ["unshare", "--mount", "sh", "-c", SMALL_DISK, "sh", data, str(DISK_OCTETS)],
            stdout=subprocess.PIPE,
        )
        assert self._holder.stdout is not None
        assert self._holder.stdout.readline() == b"ready\n"
        self.data = Path(f"/proc/{self._holder.pid}/root{data}")
        self.enter = ["nsenter", "--mount", f"--target={self._holder.pid}", f"--wd={Path.cwd()}"]

    def fill(self, left_octets):
        """Leave so much room, as far as the disk counts it: in blocks of 4 KiB."""
        self.clear()
        zeros = ["head", f"--bytes={DISK_OCTETS}", "/dev/zero"]
        with (self.data / "fill").open("wb") as file:
            subprocess.run(zeros, stdout=file, stderr=subprocess.DEVNULL, check=False)
            os.truncate(file.fileno(), os.fstat(file.fileno()).st_size - left_octets)

    def clear(self):
        (self.data / "fill").unlink(missing_ok=True)

    def close(self):
        self._holder.kill()
        self._holder.wait()

    def file(self, module="ietf-interfaces"):
        return self.data / f"{module}.startup"

    def holds_json_only(self):
        for file in self.data.glob("*.startup"):
            json.loads(file.read_bytes())
        return True


class Switch(NetconfdProcess):
    """A server and an agent on a small disk."""

    def __init__(self, directory, repository):
        super().__init__(directory)
        self._directory = directory
        self._repository = repository
        self.disk = Disk(repository.path / "data")
        self.wrapper = self.disk.enter
        self._agent = None

    def start_agent(self):
        """Start an agent; returns when it is ready."""
        notify = self._directory / "notify-agent"
        notify.unlink(missing_ok=True)
        command = [sys.executable, "-m", "agent.main", "--rehearse", "p1,p2"]
        command += ["--state-dir", str(self._directory / "agent")]
        with (
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager,
            (self._directory / "agent-log").open("wb") as log,
        ):
            manager.bind(str(notify))
            environment = os.environ | {"NOTIFY_SOCKET": str(notify)}
            self._agent = subprocess.Popen(
                [*self.disk.enter, *command], env=environment, stderr=log
            )
            end = os.pidfd_open(self._agent.pid)
            try:
                ready, _, _ = select.select([manager, end], [], [], START_TIMEOUT_S)
            finally:
                os.close(end)
            assert manager in ready, self.agent_log

    @property
    def agent_log(self):
        return (self._directory / "agent-log").read_text()

    def cut_power(self):
        """End everything; what was in memory is gone."""
        if self._process is not None and self.alive:
            self.kill()
        if self._agent is not None:
            self._agent.kill()
            self._agent.wait()
        self._repository.forget_shared_memory()

    def boot(self):
        self.start_agent()
        self.start()

    def close(self):
        self.cut_power()
        self.disk.close()


@pytest.fixture
def switch(sysrepo_repository, tmp_path):
    if subprocess.run(["unshare", "--mount", "true"], check=False, capture_output=True).returncode:
        pytest.skip("may not mount a disk of its own")
    switch = Switch(tmp_path / "switch", sysrepo_repository)
    yield switch
    switch.close()


@pytest.fixture
def client(switch):
    """A session on a switch that has saved `tsn-test-1`, described as `old`."""
    switch.boot()
    client = switch.connect()
    put(client, "old")
    save(client)
    yield client
    if client.connected:
        client.close_session()


def put(client, description):
    edit(client, description)
    client.commit()


def description(client, datastore):
    data = client.get_config(datastore).data
    return data.findtext(f".//{{{INTERFACES}}}description")


def save(client):
    client.copy_config("running", "startup")


def save_text(client):
    """Save a configuration that the request itself contains."""
    whole = etree.tostring(client.get_config("running").data).decode()
    inner = whole[whole.index(">") + 1 : whole.rindex("</")]
    client.dispatch(
        etree.fromstring(
            f'<copy-config xmlns="{BASE}"><target><startup/></target>'
            f"<source><config>{inner}</config></source></copy-config>"
        )
    )


def save_candidate(client):
    client.copy_config("candidate", "startup")


def delete(client):
    client.delete_config("startup")


def answer(change, client):
    """None for <ok/>, otherwise the refusal."""
    try:
        change(client)
    except RPCError as refusal:
        return refusal
    return None


@pytest.mark.parametrize(
    ("change", "new"),
    [(save, LONG), (save_text, LONG), (save_candidate, LONG), (delete, None)],
)
def test_whatever_room_the_disk_has_left_startup_is_the_old_or_the_new_one_as_the_answer_says(
    switch, client, change, new
):
    answers = []
    for left_kib in LEFT_KIB:
        switch.disk.clear()
        put(client, "old")
        save(client)
        put(client, LONG)
        switch.disk.fill(left_kib * 1024)
        answers.append(answer(change, client))
        assert description(client, "startup") == ("old" if answers[-1] else new)
        assert switch.disk.holds_json_only()
    refusals = [each for each in answers if each]
    assert {each.tag for each in refusals} <= {"resource-denied"}
    assert all(
        "startup is unchanged: " in each.message and "make room there" in each.message
        for each in refusals
    )
    assert answers[-1] is None
    if new:
        assert answers[0] is not None


@pytest.mark.parametrize("left_kib", [0, 4, 24, 96])
def test_after_a_save_on_a_full_disk_the_switch_boots_with_what_the_answer_said(
    switch, client, left_kib
):
    put(client, LONG)
    switch.disk.fill(left_kib * 1024)
    expected = "old" if answer(save, client) else LONG
    switch.cut_power()
    switch.boot()
    with switch.connect() as operator:
        assert running(operator) == expected
        switch.disk.clear()
        put(operator, "later")
        save(operator)
        assert description(operator, "startup") == "later"


def damage(switch, module, content):
    """What a broken disk or a careless program does to a file of startup."""
    switch.disk.file(module).write_bytes(content)


def damaged_modules(client):
    reply = ask(client, f'<get><filter><startup-state xmlns="{SERVER_STATE}"/></filter></get>')
    return [each.text for each in reply.iter(f"{{{SERVER_STATE}}}damaged-module")]


@pytest.mark.parametrize(
    ("module", "content"),
    [
        ("ietf-interfaces", b""),
        ("ietf-interfaces", b'{"ietf-interfaces:interfaces":{"interface":[{"na'),
        ("ietf-interfaces", b'{"ietf-interfaces:interfaces":{"no-such-node":1}}'),
        ("ietf-netconf-acm", b"\x07{]"),
    ],
)
def test_a_switch_that_boots_from_a_damaged_startup_runs_its_last_good_copy_and_says_so(
    switch, client, module, content
):
    put(client, "not saved")
    switch.cut_power()
    damage(switch, module, content)
    # As tsn-sysrepo.service, before the others.
    install = [*switch.disk.enter, YANG_INSTALL]
    subprocess.run(install, check=True, capture_output=True)
    switch.boot()
    file = f"{module}.startup"
    assert f"{file} was unreadable" in switch.agent_log
    assert "it is now the last good copy" in switch.agent_log
    assert "\x07" not in switch.agent_log + switch.log
    assert f"startup was damaged in {module}" in switch.log
    with switch.connect() as operator:
        assert (running(operator), description(operator, "startup")) == ("old", "old")
        assert damaged_modules(operator) == [module]
        save(operator)
        assert damaged_modules(operator) == []


def test_a_server_that_finds_startup_damaged_mends_it_and_leaves_alone_what_is_running(
    switch, client
):
    put(client, "not saved")
    switch.stop()
    damage(switch, "ietf-interfaces", b"")
    switch.start()
    with switch.connect() as operator:
        assert (running(operator), description(operator, "startup")) == ("not saved", "old")
        assert damaged_modules(operator) == ["ietf-interfaces"]


def test_a_damaged_startup_without_a_good_copy_becomes_what_is_running(switch, client):
    put(client, "not saved")
    switch.stop()
    damage(switch, "ietf-interfaces", b"")
    for copy in switch.disk.data.glob("*.good"):
        copy.unlink()
    switch.start()
    assert "it is now what is running" in switch.log
    with switch.connect() as operator:
        assert description(operator, "startup") == "not saved"


def test_the_record_of_installed_modules_is_no_part_of_what_is_kept_and_put_back(switch, client):
    copies = {each.name for each in switch.disk.data.glob("*.good")}
    assert "ietf-interfaces.startup.good" in copies
    assert "sysrepo.startup" in {each.name for each in switch.disk.data.glob("*.startup")}
    assert "sysrepo.startup.good" not in copies


def test_startup_that_is_damaged_under_the_server_is_mended_by_the_next_save(switch, client):
    put(client, "later")
    damage(switch, "ietf-interfaces", b"")
    save(client)
    assert description(client, "startup") == "later"


def test_a_pending_configuration_is_not_copied_to_startup(switch, client):
    commit_unconfirmed(client)
    with pytest.raises(RPCError, match="a confirmed commit of session") as refusal:
        save(client)
    assert refusal.value.tag == "in-use"
    assert description(client, "startup") == "old"
    client.commit()
    save(client)
    assert description(client, "startup") == "after"
