"""How a switch sees a connection end: what `cnc` gives up is not delivered later by its TCP."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from cnc.switch import transport
from cnc.switch.device import Device, DeviceError, Managed
from cnc.switch.transport import PromptSession
from tests.unit.strange_switch import END_OF_MESSAGE, HELLO, StrangeSwitch, strange_switch

CHECKOUT = Path(__file__).parents[2]
# A controller with a session, which a test kills.
CONTROLLER = """
import signal
import sys
from pathlib import Path
from cnc.model import Management
from cnc.switch import ConnectOptions
from cnc.switch.device import Device, Managed

port, identity, known_hosts = sys.argv[1:]
switch = Managed("s1", Management("127.0.0.1", int(port), "operator"))
device = Device(switch, ConnectOptions(Path(identity), Path(known_hosts), 60.0))
print("ready", flush=True)
signal.pause()
"""


# ncclient asks no switch for what it does not announce.
CONFIRMING = HELLO.replace(
    "</capabilities>",
    "".join(
        f"<capability>urn:ietf:params:netconf:capability:{each}</capability>"
        for each in ("candidate:1.0", "confirmed-commit:1.1")
    )
    + "</capabilities>",
)


class Relay:
    """Stands before a switch and passes everything on; `ended` is how its client's end came."""

    def __init__(self, to: StrangeSwitch) -> None:
        self.ended = ""
        self._switch = to
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._pass_on, daemon=True)
        self._thread.start()

    @property
    def managed(self) -> Managed:
        where = self._switch.managed.management
        return Managed("s1", replace(where, port=self._listening.getsockname()[1]))

    def _pass_on(self) -> None:
        client, _ = self._listening.accept()
        switch = socket.create_connection(("127.0.0.1", self._switch.port))
        with client, switch:
            back = threading.Thread(target=self._pass_back, args=(switch, client), daemon=True)
            back.start()
            try:
                while octets := client.recv(65_536):
                    switch.sendall(octets)
                self.ended = "in order"
            except ConnectionResetError:
                self.ended = "reset"
            switch.shutdown(socket.SHUT_RDWR)
            back.join(10)

    def _pass_back(self, switch: socket.socket, client: socket.socket) -> None:
        with suppress(OSError):
            while octets := switch.recv(65_536):
                client.sendall(octets)

    def end(self) -> str:
        """How the client's connection ended, when it has."""
        self._thread.join(30)
        self._listening.close()
        return self.ended


@pytest.fixture
def switch(tmp_path):
    with strange_switch(tmp_path, hello=CONFIRMING) as running:
        yield running


@pytest.fixture
def relay(switch):
    made = Relay(switch)
    # By its port, the host is another one.
    switch.known_hosts.write_text(
        switch.known_hosts.read_text().replace(
            f":{switch.port}", f":{made.managed.management.port}"
        )
    )
    return made


def test_a_session_that_was_answered_ends_in_order(switch, relay):
    with Device(relay.managed, switch.options()) as device:
        device.confirm("rollout")
    assert relay.end() == "in order"


def test_a_session_that_is_given_up_is_reset(switch, relay):
    device = Device(relay.managed, switch.options())
    device.abandon()
    assert relay.end() == "reset"
    device.close()


def test_a_session_without_an_answer_is_reset(switch, relay):
    async def silence(_process):
        await asyncio.sleep(60)

    switch.talk = silence
    device = Device(relay.managed, switch.options())
    device.wait_at_most(0.2)
    with pytest.raises(DeviceError, match="no answer"):
        device.confirm("rollout")
    assert relay.end() == "reset"


@pytest.fixture
def torn(switch):
    """A session that ends by what the switch sends once it is told to, and the call for that."""
    ending = threading.Event()

    async def talk(process):
        await asyncio.to_thread(ending.wait, 30)
        process.stdout.write(b"no XML" + END_OF_MESSAGE)
        await process.stdin.read()

    switch.talk = talk
    return Device(switch.managed, switch.options(timeout_s=3.0)), ending.set


def test_a_request_of_a_session_whose_end_was_just_told_waits_for_no_reply(torn, monkeypatch):
    device, end = torn
    told, requested = threading.Event(), threading.Event()
    tell = PromptSession._dispatch_error

    def tell_and_wait(session, error):
        tell(session, error)
        told.set()
        requested.wait(30)

    monkeypatch.setattr(PromptSession, "_dispatch_error", tell_and_wait)
    end()
    assert told.wait(30)
    try:
        with pytest.raises(DeviceError, match="failed: not connected"):
            device.confirm("rollout")
    finally:
        requested.set()


def test_a_request_during_which_the_session_ends_says_why_it_ended(torn, monkeypatch):
    device, end = torn
    limited = transport.expires_after

    @contextmanager
    def after_the_end(*limits):
        end()
        device._transport.join(30)
        with limited(*limits) as deadline:
            yield deadline

    monkeypatch.setattr(transport, "expires_after", after_the_end)
    with pytest.raises(DeviceError, match="Start tag expected"):
        device.confirm("rollout")


def test_the_session_of_a_controller_that_is_killed_is_reset(switch, relay):
    where = [relay.managed.management.port, switch.identity, switch.known_hosts]
    command = [sys.executable, "-c", CONTROLLER, *map(str, where)]
    with subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.PIPE) as controller:
        assert controller.stdout is not None
        assert controller.stdout.readline() == b"ready\n"
        controller.send_signal(signal.SIGKILL)
    assert relay.end() == "reset"
