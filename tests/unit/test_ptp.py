"""What the agent makes of ptp4l's replies, recorded from linuxptp 3.1.1."""

from __future__ import annotations

import errno
import socket
import threading
from contextlib import contextmanager

import pytest

from agent.kernel import ptp, ptp_management
from agent.kernel.ptp_management import (
    CurrentDataSet,
    Domain,
    GptpPort,
    ManagementId,
    ParentDataSet,
    PortDataSet,
    TimePropertiesDataSet,
    TimeStatus,
    parse,
    request,
)
from agent.model import PtpPortState

CLOCK = "7abc58fffe1bd97c"
MANAGEMENT = "00000000000000000000000002000001"


def recorded(data_set, port=0):
    """A response of the clock 7abc58.fffe.1bd97c, or of one of its ports."""
    length = 50 + len(data_set) // 2
    header = f"0d02{length:04x}" + "00" * 16 + f"{CLOCK}{port:04x}0000047f"
    return bytes.fromhex(header + MANAGEMENT + data_set)


DEFAULT_DATA_SET = recorded("001620000300000180fffeffff807abc58fffe1bd97c0000")
TIME_STATUS = recorded(
    "0034c0000000000000000100" + "18ea31753d112f09" + "00" * 22 + "000000015e1170fffed98142"
)
ON_THE_GRANDMASTER = recorded("0034c000" + "00" * 42 + CLOCK)
PARENT = recorded(
    "00222002" + "5e1170fffed98142" + "00010000ffff7fffffff80f8fe436a80" + "5e1170fffed98142"
)
PORT_1 = recorded("001c2004" + CLOCK + "000108000000000000000000010300010002", port=1)
REFUSAL = TIME_STATUS[:49] + bytes.fromhex("0200080001c00000000000")


@contextmanager
def ptp4l(path, *replies):
    """Somebody who answers the first question with all of these, and says nothing more."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
        server.bind(str(path))

        def answer():
            _, client = server.recvfrom(2048)
            for reply in replies:
                server.sendto(reply, client)

        thread = threading.Thread(target=answer)
        thread.start()
        yield (str(path),)
        thread.join()


def test_a_clock_that_follows_another_is_told_with_its_offset(tmp_path):
    with ptp4l(tmp_path / "ptp4l", DEFAULT_DATA_SET, PARENT, TIME_STATUS, PORT_1) as address:
        status = ptp.status(address)
    assert status.grandmaster_identity == "5e1170.fffe.d98142"
    assert (status.clock_identity, status.parent_identity) == (
        "7abc58.fffe.1bd97c",
        "5e1170.fffe.d98142",
    )
    assert not status.is_grandmaster
    assert status.offset_from_master_ns == 256
    assert status.ports == {1: PtpPortState.UNCALIBRATED}


def test_the_grandmaster_has_no_offset(tmp_path):
    with ptp4l(tmp_path / "ptp4l", PORT_1, PARENT, ON_THE_GRANDMASTER, DEFAULT_DATA_SET) as address:
        status = ptp.status(address)
    assert status.is_grandmaster
    assert status.offset_from_master_ns is None


def test_a_port_that_keeps_silent_is_left_out(tmp_path):
    with ptp4l(tmp_path / "ptp4l", DEFAULT_DATA_SET, PARENT, TIME_STATUS) as address:
        assert ptp.status(address).ports == {}


def test_nothing_of_use_is_no_answer(tmp_path):
    with ptp4l(tmp_path / "ptp4l", b"", b"\x0d" * 60, REFUSAL, PORT_1) as address:
        assert ptp.status(address) is None


def test_the_socket_of_a_daemon_that_has_ended_is_no_answer(tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
        server.bind(str(tmp_path / "ptp4l"))
    assert ptp.status((str(tmp_path / "ptp4l"), str(tmp_path / "nothing"))) is None


def test_the_read_only_socket_is_asked_before_the_other(tmp_path):
    with ptp4l(tmp_path / "other", DEFAULT_DATA_SET, PARENT, TIME_STATUS, PORT_1) as other:
        assert ptp.status((str(tmp_path / "ptp4lro"), *other)).ports


@pytest.mark.parametrize("length", range(len(TIME_STATUS)))
def test_a_reply_that_was_cut_short_is_none(length):
    assert parse(TIME_STATUS[:length]) is None


def test_a_request_of_somebody_else_is_no_reply():
    assert parse(TIME_STATUS[:46] + b"\0" + TIME_STATUS[47:]) is None  # <GET>, not <RESPONSE>
    assert parse(TIME_STATUS) == TimeStatus(256, 1, bytes.fromhex("5e1170fffed98142"))
    assert parse(PORT_1) == PortDataSet(bytes.fromhex(CLOCK), 1, 8, 0, 0, 1, 3, 0, 1, 0)


@pytest.mark.parametrize("state", [0, 10, 255])
def test_a_port_in_a_state_that_the_standard_reserves_is_left_out(tmp_path, state):
    odd = PORT_1[:-16] + bytes([state]) + PORT_1[-15:]
    assert parse(odd).state == state
    with ptp4l(tmp_path / "ptp4l", DEFAULT_DATA_SET, PARENT, TIME_STATUS, odd) as address:
        status = ptp.status(address)
    assert status.ports == {}
    assert status.offset_from_master_ns == 256


def test_without_a_free_descriptor_there_is_no_answer(monkeypatch):
    def used_up(*_):
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(ptp_management.socket, "socket", used_up)
    assert ptp.status() is None


# Of a ptp4l in domain 3 that follows another, without what its own client prints.
DATA_SETS = {
    "0014200100010000000002f300000000000000000000": CurrentDataSet(1, 0x2F30000, 0),
    "00222002f6b389fffe7a71aa00010000ffff7fffffff01f8feffff80f6b389fffe7a71aa": ParentDataSet(
        bytes.fromhex("f6b389fffe7a71aa"),
        *(1, 1, 248, 254, 0xFFFF, 128),
        bytes.fromhex("f6b389fffe7a71aa"),
    ),
    "00062003002500a0": TimePropertiesDataSet(37, 0, 0xA0),
    "000ac00201312d0000000001": GptpPort(1, 20_000_000, 1),
}


@pytest.mark.parametrize("data_set", DATA_SETS)
def test_each_data_set_is_read_as_ptp4l_sends_it(data_set):
    assert parse(recorded(data_set, port=1)) == DATA_SETS[data_set]


@pytest.mark.parametrize("data_set", DATA_SETS)
@pytest.mark.parametrize(
    ("place", "octets"),
    [
        pytest.param(2, "0000", id="the message has no length"),
        pytest.param(2, "0030", id="the message ends before the data set"),
        pytest.param(2, "ffff", id="the message is longer than what has come"),
        pytest.param(50, "0001", id="the data set has no length"),
        pytest.param(50, "0003", id="the data set is shorter than its kind"),
    ],
)
def test_a_reply_with_a_false_length_is_none(data_set, place, octets):
    reply = recorded(data_set, port=1)
    forged = reply[:place] + bytes.fromhex(octets) + reply[place + 2 :]

    assert parse(reply) is not None
    assert parse(forged) is None


def test_a_reply_of_another_version_of_ptp_is_none():
    assert parse(PORT_1[:1] + b"\x01" + PORT_1[2:]) is None


def test_a_request_names_the_profile_the_domain_and_the_data_set():
    sent = request(Domain(sdo=1, number=7), ManagementId.PARENT_DATA_SET)

    assert sent[0] == 0x1D
    assert sent[4] == 7
    assert sent[-4:] == bytes.fromhex("00022002")
    assert parse(sent) is None  # it is no response
