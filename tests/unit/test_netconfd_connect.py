"""How the front finds its broker, and what it says when there is none."""

from __future__ import annotations

import socket
import threading
import time

import pytest

from agent.netconfd.front import control
from agent.netconfd.front.control import BrokerGone, connect


def test_a_front_waits_for_a_broker_that_begins_to_listen(tmp_path):
    path = tmp_path / "socket"
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    def listen():
        time.sleep(0.2)
        listener.bind(str(path))
        time.sleep(0.2)
        listener.listen()

    thread = threading.Thread(target=listen)
    thread.start()
    with listener, connect(path) as connection:
        thread.join()
        assert connection.getpeername() == str(path)


def test_without_a_broker_it_says_where_it_has_looked(tmp_path, monkeypatch):
    monkeypatch.setattr(control, "CONNECT_TIMEOUT_S", 0.0)
    with pytest.raises(BrokerGone) as gone:
        connect(tmp_path / "socket")
    assert str(gone.value) == (
        f"no broker listens at {tmp_path}/socket (No such file or directory); "
        "start tsn-netconf-broker"
    )


def test_what_is_no_socket_of_a_broker_is_refused_at_once(tmp_path):
    path = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as other:
        other.bind(str(path))
        other.listen()
        with pytest.raises(BrokerGone, match="cannot connect to the broker at"):
            connect(path)
