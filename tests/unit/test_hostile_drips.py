"""A switch that keeps a command waiting by always sending a little more: there is one deadline.

A test that fails here waits for ever: the switch never stops.
"""

from __future__ import annotations

import asyncio
import errno
import threading
from contextlib import contextmanager

import pytest
from click.testing import CliRunner
from lxml import etree

from cnc import app, cli
from cnc.model import Management
from cnc.switch.deadline import expires_after
from cnc.switch.device import Device, DeviceError, Managed
from cnc.switch.transport import _connection
from tests.unit.strange_switch import BASE, END_OF_MESSAGE, key_of, line, speaking, strange_switch
from tests.unit.test_netconf_hostile import options as hostile_options

TIMEOUT_S = 0.3
EVENT = (
    '<notification xmlns="urn:ietf:params:xml:ns:netconf:notification:1.0">'
    '<eventTime>2026-01-01T00:00:00Z</eventTime><e xmlns="urn:x"/></notification>'
)


@contextmanager
def impatient(switch):
    """A session that was given time to begin, and gives each request little."""
    with Device(switch.managed, switch.options()) as device:
        device.wait_at_most(TIMEOUT_S)
        yield device


async def silence(process):
    """Nothing, not even the end."""
    await process.stdin.read(-1)


async def octets(process):
    """A reply that begins, and goes on with an octet now and then."""
    process.stdout.write(f'<rpc-reply xmlns="{BASE}" message-id="'.encode())
    while True:
        process.stdout.write(b"x")
        await asyncio.sleep(0.02)


async def blanks(process):
    """White space before a reply."""
    while True:
        process.stdout.write(b" ")
        await asyncio.sleep(0.02)


async def notifications(process):
    """Whole messages, none of which is a reply."""
    while True:
        process.stdout.write(EVENT.encode() + END_OF_MESSAGE)
        await asyncio.sleep(0.02)


async def errors_output(process):
    """Octets of the other stream of the SSH channel."""
    while True:
        process.stderr.write(b"x" * 64)
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("talk", [silence, octets, blanks, notifications, errors_output])
def test_a_reply_that_does_not_come_is_given_up_whatever_comes_instead(talk, tmp_path):
    with (
        strange_switch(tmp_path, talk=talk) as switch,
        impatient(switch) as device,
        pytest.raises(DeviceError, match="no answer to lock running in time"),
    ):
        device.lock("running")


def test_a_peer_that_asks_whether_the_client_lives_does_not_extend_the_wait(tmp_path):
    with (
        strange_switch(
            tmp_path, talk=silence, keepalive_interval=0.02, keepalive_count_max=10**6
        ) as switch,
        impatient(switch) as device,
        pytest.raises(DeviceError, match="no answer to lock running in time"),
    ):
        device.lock("running")


GARBAGE = {
    "not UTF-8": b"\xff\xfe" + END_OF_MESSAGE,
    "a zero octet": b"<rpc-reply>\0</rpc-reply>" + END_OF_MESSAGE,
    "not XML": b"<<<" + END_OF_MESSAGE,
    "an entity": b'<!DOCTYPE x [<!ENTITY e "x">]><x>&e;</x>' + END_OF_MESSAGE,
    "an external entity": b'<!DOCTYPE x SYSTEM "file:///etc/passwd"><x>&e;</x>' + END_OF_MESSAGE,
    "no message-id": f'<rpc-reply xmlns="{BASE}"><ok/></rpc-reply>'.encode() + END_OF_MESSAGE,
    "another message-id": f'<rpc-reply xmlns="{BASE}" message-id="0"/>'.encode() + END_OF_MESSAGE,
    "300 levels": b"<x>" * 300 + b"</x>" * 300 + END_OF_MESSAGE,
    "nothing": END_OF_MESSAGE,
    "the end": b"",
}


@pytest.mark.parametrize("octets", GARBAGE.values(), ids=GARBAGE)
def test_what_is_no_reply_is_an_error_of_the_switch(octets, tmp_path):
    async def garbage(process):
        await process.stdin.readuntil(END_OF_MESSAGE)
        process.stdout.write(octets)
        process.exit(0)

    with (
        strange_switch(tmp_path, talk=garbage) as switch,
        Device(switch.managed, switch.options()) as device,
        pytest.raises(DeviceError, match=r"^s1: "),
    ):
        device.lock("running")


def packet(payload):
    """An SSH packet before keys are exchanged (RFC 4253 6)."""
    padding = 8 - (len(payload) + 5) % 8 + 8
    length = (1 + len(payload) + padding).to_bytes(4, "big")
    return length + bytes([padding]) + payload + bytes(padding)


COOKIE = b"\x14" + bytes(16)
HANDSHAKES = {
    "key exchange cut short": packet(b"\x14"),
    "names longer than the packet": packet(COOKIE + b"\xff" * 4),
    "names that are not ASCII": packet(COOKIE + b"\0\0\0\4\xff\xfe\xff\xfe" * 10 + bytes(5)),
    "no names": packet(COOKIE + bytes(4 * 10) + bytes(5)),
    "a reply that nobody asked for": packet(b"\x1f" + bytes(100)),
    "a disconnect that is not UTF-8": packet(b"\1\0\0\0\2\0\0\0\4\xff\xfe\xff\xfe" + bytes(4)),
    "a type that nobody knows": packet(b"\xff"),
    "a packet of 4 GiB": b"\xff" * 64,
    "a packet of nothing": bytes(64),
}


@pytest.mark.parametrize("first", HANDSHAKES.values(), ids=HANDSHAKES)
def test_a_handshake_that_makes_no_sense_is_an_error_of_the_switch(first, tmp_path):
    with (
        speaking(b"SSH-2.0-x\r\n" + first, b"") as management,
        pytest.raises(DeviceError, match="s1: cannot reach the NETCONF server at"),
    ):
        Device(Managed("s1", management), hostile_options(tmp_path, management.port))


async def slow_reader(process):
    """Takes a kilobyte of the request now and then."""
    while True:
        await process.stdin.read(1024)
        await asyncio.sleep(0.05)


# Whichever of the transport's own limits and the deadline comes first.
EDIT_GIVEN_UP = r"edit-config failed: (the peer does not take|timed out|the session ended)"


@pytest.mark.parametrize("talk", [silence, slow_reader])
def test_a_request_that_the_peer_takes_slowly_or_not_at_all_is_given_up(talk, tmp_path):
    config = etree.Element(f"{{{BASE}}}config")
    config.text = "x" * 4_000_000

    async def reads_nothing(process):
        process.channel.pause_reading()
        await asyncio.sleep(3600)

    talks = reads_nothing if talk is silence else talk
    with (
        strange_switch(tmp_path, talk=talks, window=4096, max_pktsize=1024) as switch,
        impatient(switch) as device,
        pytest.raises(DeviceError, match=EDIT_GIVEN_UP),
    ):
        device.edit(config)


def test_notifications_that_nobody_asked_for_are_not_kept(tmp_path):
    sent = threading.Event()

    async def many(process):
        process.stdout.write((EVENT.encode() + END_OF_MESSAGE) * 500)
        await process.stdout.drain()
        sent.set()

    with (
        strange_switch(tmp_path, talk=many) as switch,
        Device(switch.managed, switch.options()) as device,
    ):
        assert sent.wait(10)
        device.lock("running")  # its reply comes behind them
        assert device._transport._notification_q.empty()


def test_a_name_with_many_addresses_does_not_multiply_the_wait(monkeypatch):
    tried = []

    class Unanswered:
        """A connection that is never accepted: each attempt uses up its time."""

        def __init__(self, *_):
            pass

        def settimeout(self, timeout_s):
            tried.append(timeout_s)

        def connect(self, _):
            clock[0] += tried[-1]
            raise TimeoutError("timed out")

        def close(self):
            """There is nothing to close."""

    clock = [100.0]
    found = [(2, 1, 6, "", (f"10.0.0.{n}", 830)) for n in range(100)]
    monkeypatch.setattr("cnc.switch.transport.socket.getaddrinfo", lambda *_, **__: found)
    monkeypatch.setattr("cnc.switch.transport.socket.socket", Unanswered)
    monkeypatch.setattr("cnc.switch.transport.time.monotonic", lambda: clock[0])
    with pytest.raises(TimeoutError):
        _connection("switch.example", 830, 130.0)
    assert tried == [30.0]


def test_without_a_free_descriptor_the_switch_is_not_reached(tmp_path, monkeypatch):
    def used_up(*_):
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr("cnc.switch.transport.socket.socket", used_up)
    with pytest.raises(DeviceError, match=r"cannot reach the NETCONF server .*Too many open files"):
        Device(
            Managed("s1", Management("127.0.0.1", 830, "operator")),
            hostile_options(tmp_path, 830),
        )


def test_a_deadline_that_is_met_never_expires_and_another_does():
    expired, other = threading.Event(), threading.Event()
    with expires_after(0.05, expired.set) as met:
        pass
    with expires_after(0.0, other.set) as missed:
        assert other.wait(10)
    with expires_after(0.1, threading.Event().set):
        assert not expired.wait(0.2)
    assert (met.has_expired, missed.has_expired) == (False, True)


INTENT = """
name: one
defaults: {{rate: 1Gbps, propagation: 100ns, processing: {{min: 1us, max: 5us}},
           clock-error: 1us, gate-margin: 0ns, gates: software, user: tsn, netconf-port: {port}}}
classes:
  cyclic: {{traffic-class: 1, priority: 6, dscp: 46, role: scheduled}}
  best-effort: {{traffic-class: 0, priority: 0, dscp: 0, role: best-effort, max-frame: 1522B}}
switches: {{s1: {{management: 127.0.0.1, ports: [t1, l1]}}}}
end-stations: [t1, l1]
links: [[t1/eth0, s1/t1], [s1/l1, l1/eth0]]
streams:
  motion: {{talker: t1, listeners: [l1], class: cyclic, period: 1ms, payload: 200B,
           max-latency: 500us}}
"""


@pytest.fixture
def arranged(tmp_path):
    """Files of an operator whose only switch is a host that may be anything."""

    def arrange(port):
        (tmp_path / "one.yaml").write_text(INTENT.format(port=port))
        app.dump_plan(app.plan(app.load_intent(tmp_path / "one.yaml")), tmp_path / "plan.json")
        key_of("ssh-ed25519").write_private_key(str(tmp_path / "identity"))
        (tmp_path / "known_hosts").write_text(f"[127.0.0.1]:{port} {line(key_of('ssh-ed25519'))}")
        return tmp_path

    return arrange


def run(directory, command, port):
    """The result of a `cnc` command whose time-out is short."""
    plan, state = str(directory / "plan.json"), str(directory / "state")
    words = {
        "status": ["status", plan, "--state-dir", state],
        "push": ["push", plan, "--state-dir", state],
        "push --dry-run": ["push", "--dry-run", plan, "--state-dir", state],
        "doctor": ["doctor", plan],
        "discover": ["discover", f"127.0.0.1:{port}"],
        "plan --ask-switches": ["plan", "--ask-switches", str(directory / "one.yaml")],
    }[command]
    keys = ["--identity", directory / "identity", "--known-hosts", directory / "known_hosts"]
    return CliRunner().invoke(
        cli.cnc, [*words, *map(str, keys), "--timeout", str(TIMEOUT_S)], catch_exceptions=True
    )


COMMANDS = ("status", "push", "push --dry-run", "doctor", "discover", "plan --ask-switches")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_ends_although_the_host_never_stops_talking(command, arranged):
    with speaking(b"", b"x" * 4096) as management:
        directory = arranged(management.port)
        result = run(directory, command, management.port)
    told = result.output if result.exception is None else f"{result.output}{result.exception}"
    assert result.exit_code != 0
    assert "no NETCONF session within 0.3 s" in told


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_ends_although_the_switch_never_finishes_a_reply(command, arranged, tmp_path):
    with strange_switch(tmp_path, talk=octets) as switch:
        directory = arranged(switch.port)
        result = run(directory, command, switch.port)
    told = result.output if result.exception is None else f"{result.output}{result.exception}"
    assert result.exit_code != 0
    # On a busy machine the session itself takes longer.
    assert "in time" in told or "no NETCONF session within" in told


def test_what_a_push_to_such_switches_leaves_in_the_history_is_its_refusal(arranged, tmp_path):
    with strange_switch(tmp_path, talk=octets) as switch:
        directory = arranged(switch.port)
        run(directory, "push", switch.port)
    with app.open_history(directory / "state") as history:
        (noted,) = history.rollouts()
    assert noted.refused
    assert "no switch was changed" in noted.detail or "no NETCONF session" in noted.detail
