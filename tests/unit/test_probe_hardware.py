"""tsn-probe on a port with hardware stamps, as its driver would describe it: why one is missing.

No such port is at hand. What tsn-probe asks of a driver is answered by hardware_port.c.
"""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from cnc.testbed.traffic.probe import PROGRAM

# linux/net_tstamp.h: SOF_TIMESTAMPING_* of hardware, HWTSTAMP_TX_*, bits of HWTSTAMP_FILTER_*
TX, RX, RAW = 1 << 0, 1 << 2, 1 << 6
OFF, ON = 0, 1
NONE, ALL, PTP_V2_L2_EVENT, PTP_V2_EVENT = 0, 1, 9, 12
WORKS = {"ABLE": TX | RX | RAW, "FILTERS": 1 << ALL | 1, "TX_TYPE": ON, "RX_FILTER": ALL}


@pytest.fixture(scope="module")
def program(tmp_path_factory) -> Path:
    """tsn-probe with a driver of our own below it."""
    built = tmp_path_factory.mktemp("probe") / "tsn-probe"
    sources = [*PROGRAM.parent.glob("*.c"), Path(__file__).with_name("hardware_port.c")]
    options = ["-std=gnu17", "-O1", "-D_GNU_SOURCE", "-Wl,--wrap=ioctl"]
    subprocess.run(["gcc", *options, "-o", built, *sources, "-lm"], check=True)
    return built


@pytest.fixture
def port() -> int:
    """A UDP port that nobody has."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def run(
    program: Path, driver: Mapping[str, int], *arguments: object
) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **{name: str(value) for name, value in driver.items()}}
    command = [program, *map(str, arguments), "--hardware", "lo"]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=60, env=environment
    )


def without(key: str) -> dict[str, int]:
    return {name: value for name, value in WORKS.items() if name != key}


REFUSED: dict[str, tuple[str, Mapping[str, int], str]] = {
    "no stamps of sent packets": (
        "send",
        WORKS | {"ABLE": RX | RAW},
        "lo has no hardware time stamps: its driver igb stamps no sent packets (`ethtool -T lo`)",
    ),
    "no stamps of received packets": (
        "receive",
        WORKS | {"ABLE": TX | RAW},
        "lo has no hardware time stamps: its driver igb stamps no received packets",
    ),
    "tx type off": (
        "send",
        WORKS | {"TX_TYPE": OFF},
        "lo stamps no sent packets, its tx type is off: `hwstamp_ctl -i lo -t 1 -r 1` switches it",
    ),
    "filter none": (
        "receive",
        WORKS | {"RX_FILTER": NONE},
        "its filter of received ones is none: `hwstamp_ctl -i lo -t 1 -r 1` stamps all",
    ),
    "filter of a PTP daemon": (
        "receive",
        WORKS | {"RX_FILTER": PTP_V2_EVENT},
        "its filter of received ones is ptpv2-event: `hwstamp_ctl -i lo -t 1 -r 1` stamps all",
    ),
    "a driver for PTP messages alone": (
        "receive",
        WORKS | {"FILTERS": 1 << PTP_V2_L2_EVENT | 1, "RX_FILTER": PTP_V2_L2_EVENT},
        "and cannot: its driver igb has no filter for all received ones",
    ),
    "a driver that does not say": (
        "send",
        without("TX_TYPE"),
        "the driver igb of lo does not say whether it stamps: Operation not supported",
    ),
}


@pytest.mark.parametrize("which", REFUSED)
def test_a_port_that_stamps_no_such_packets_is_refused_with_the_reason(which, program, port):
    command, driver, why = REFUSED[which]
    address = ["127.0.0.1"] if command == "send" else []
    done = run(program, driver, command, *address, "--port", port)
    assert done.returncode == 2
    assert why in done.stderr


MISSING: dict[str, tuple[Mapping[str, int], str]] = {
    "too late": (WORKS, "lo gave none within 1000 ms of the last packet"),
    "switched off": (
        WORKS | {"LATER_TX_TYPE": OFF},
        "since the run began, lo stamps no sent packets, its tx type is off",
    ),
}


@pytest.mark.parametrize("which", MISSING)
def test_packets_without_a_hardware_stamp_are_counted_with_the_reason(
    which, program, port, tmp_path
):
    driver, why = MISSING[which]
    file = tmp_path / "sent.csv"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as there:
        there.bind(("127.0.0.1", port))
        options = ("--port", port, "--count", 3, "-o", file)
        done = run(program, driver, "send", "127.0.0.1", *options)
    assert done.returncode == 0, done.stderr
    assert f"3 packets have no hardware time stamp: {why}" in done.stderr
    assert f"# without_hardware_stamp 3 {why}" in file.read_text()


def test_a_receiver_counts_packets_without_a_hardware_stamp_with_the_reason(
    program, port, tmp_path
):
    file = tmp_path / "received.csv"
    environment = {**os.environ, **{name: str(value) for name, value in WORKS.items()}}
    options = ["--hardware", "lo", "--count", "2", "--port", str(port), "-o", str(file)]
    with subprocess.Popen(
        [program, "receive", *options], stderr=subprocess.PIPE, text=True, env=environment
    ) as receiver:
        assert receiver.stderr
        assert receiver.stderr.readline() == "ready\n"
        options = ["--port", str(port), "--count", "2", "-o", "/dev/null"]
        send = [PROGRAM, "send", "127.0.0.1", *options]
        subprocess.run(send, check=True, timeout=60)
        assert receiver.wait(60) == 0
    assert "# without_hardware_stamp 2 lo handed them over without" in file.read_text()
