"""The broker as a service: fronts come and go, what they have promised is kept."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.stack.broker_process import BrokerProcess, front_of
from tests.stack.netconfd_process import START_TIMEOUT_S, wait_until
from tests.stack.test_netconfd_confirmed_commit import (
    LONG_S,
    commit_unconfirmed,
    edit,
    running,
)

ID = "rollout-7"
NOT_CONFIRMED = "confirmed commit reverted: not confirmed in time"


@pytest.fixture
def broker(sysrepo_repository, tmp_path):
    """A broker without a front."""
    broker = BrokerProcess(tmp_path / "broker")
    broker.start()
    yield broker
    broker.signal(signal.SIGKILL)


@pytest.fixture
def front(broker, tmp_path):
    """The front of the broker; `before` is in running."""
    front = front_of(broker, tmp_path / "front")
    front.start()
    with front.connect() as client:
        edit(client, "before")
        client.commit()
    yield front
    if front.alive:
        front.kill()


def test_a_front_has_no_broker_of_its_own_and_keeps_no_state(front, broker):
    with front.connect() as client:
        commit_unconfirmed(client)
        names = {name_of(pid) for pid in front.pids}
        assert names == {"netconf-spawner", "netconf-session"} | {name_of(front.pid)}
        assert (broker.state_dir / "confirmed-commit.xml").exists()
    assert not front.state_dir.exists()


def test_the_deadline_of_a_persistent_commit_is_kept_while_there_is_no_front(front, broker):
    with front.connect() as client:
        commit_unconfirmed(client, timeout_s="3", persist=ID)
    front.kill()
    assert wait_until(lambda: NOT_CONFIRMED in broker.log)
    front.start()
    with front.connect() as client:
        assert running(client) == "before"


def test_a_persistent_commit_is_confirmed_through_the_next_front(front):
    with front.connect() as client:
        commit_unconfirmed(client, persist=ID)
    front.kill()
    front.start()
    with front.connect() as client:
        assert running(client) == "after"
        client.commit(persist_id=ID)
    front.kill()
    front.start()
    with front.connect() as client:
        assert running(client) == "after"


def test_what_a_session_has_not_confirmed_is_undone_and_its_locks_are_released_with_its_front(
    front, broker
):
    client = front.connect()
    client.lock("running")
    commit_unconfirmed(client, timeout_s=LONG_S)
    front.kill()
    assert wait_until(lambda: "ended before it confirmed" in broker.log)
    front.start()
    with front.connect() as client:
        assert running(client) == "before"
        client.lock("running")


def test_a_second_front_is_refused_and_the_first_serves_on(front, broker, tmp_path):
    second = front_of(broker, tmp_path / "second")
    with pytest.raises(AssertionError, match="the broker has ended the connection"):
        second.start()
    assert second.wait() == 1
    assert "refused: another front is connected" in broker.log
    with front.connect() as client:
        assert running(client) == "before"


@pytest.mark.skipif(os.getuid() != 0, reason="only root may connect where others may not")
def test_a_front_of_another_user_than_the_named_one_is_refused(broker, tmp_path):
    broker.signal(signal.SIGKILL)
    broker.front_user = "nobody"
    broker.start()
    front = front_of(broker, tmp_path / "front")
    with pytest.raises(AssertionError, match="the broker has ended the connection"):
        front.start()
    assert "refused: it is of user 0, not of nobody (--front-user)" in broker.log


def test_only_the_group_of_the_front_reaches_the_socket(broker):
    status = broker.socket.stat()
    assert (oct(status.st_mode & 0o777), status.st_gid) == ("0o660", os.getgid())


def test_a_front_ends_when_its_broker_has_died_and_the_next_broker_reverts(front, broker):
    with front.connect() as client:
        commit_unconfirmed(client, persist=ID)
    broker.signal(signal.SIGKILL)
    assert front.wait() == 1
    assert "the broker has ended" in front.log
    broker.start()
    assert "confirmed commit reverted: the server ended before it was confirmed" in broker.log
    front.start()
    with front.connect() as client:
        assert running(client) == "before"


def test_a_broker_that_is_stopped_undoes_what_is_unconfirmed_first(front, broker):
    with front.connect() as client:
        commit_unconfirmed(client, persist=ID)
    assert broker.signal(signal.SIGTERM) == 0
    assert "confirmed commit reverted: the server ends" in broker.log
    assert not broker.socket.exists()
    broker.start()


def test_a_second_broker_at_the_same_place_ends_and_says_why(broker):
    second = broker.launch({})
    assert second.wait(START_TIMEOUT_S) == 1
    assert "another broker listens there; end it first" in broker.log
    assert broker.socket.exists()


def test_a_server_with_a_broker_refuses_a_state_directory_of_its_own(broker, tmp_path):
    front = front_of(broker, tmp_path / "front")
    command = [*front.command, *front.state_options, "--state-dir", str(tmp_path)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=START_TIMEOUT_S
    )
    assert done.returncode == 2
    assert "--state-dir has no effect with --broker" in done.stderr


def name_of(pid):
    return Path(f"/proc/{pid}/comm").read_text(encoding="ascii").strip()
