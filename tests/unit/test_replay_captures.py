"""Captures of other networks: what is read of them, and what is refused, with its packet."""

from __future__ import annotations

import gzip
import struct
import subprocess
from collections.abc import Sequence
from ipaddress import ip_address
from pathlib import Path

import pytest

from cnc.errors import InputError
from cnc.testbed.traffic.replay.ip_packets import Packet, packets
from tests.unit.captures import (
    ETHERNET,
    block,
    enhanced,
    ethernet,
    interface,
    ip_packet,
    pcap,
    section,
)

CHECKOUT = Path(__file__).parents[2]
MICROSECONDS = 0xA1B2C3D4
S = 1_000_000_000


def read(directory: Path, octets: bytes) -> list[Packet]:
    file = directory / "a.pcap"
    file.write_bytes(octets)
    return [*packets(file)]


def refusal(directory: Path, octets: bytes) -> str:
    """Why a file is refused, without its name, and with the hint."""
    with pytest.raises(InputError) as refused:
        read(directory, octets)
    message = str(refused.value)
    assert message.startswith(f"{directory / 'a.pcap'}: ")
    return f"{message.removeprefix(str(directory / 'a.pcap'))[2:]} ({refused.value.hint})"


@pytest.mark.parametrize("order", ["<", ">"])
def test_times_of_pcap_are_exact_in_nanoseconds_and_in_microseconds(tmp_path: Path, order: str):
    """A float of seconds since 1970 is 238 ns wide."""
    at_ns = 1_796_000_000 * S + 123_456_789
    its = (at_ns, ip_packet()), (at_ns + 1, ip_packet())
    assert [p.at_ns for p in read(tmp_path, pcap(*its, order=order))] == [at_ns, at_ns + 1]
    (one, _) = read(tmp_path, pcap(*its, order=order, magic=MICROSECONDS))
    assert one.at_ns == at_ns // 1000 * 1000


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(
    ("resolution", "units", "at_ns"), [(9, 5, 5), (6, 5, 5_000), (0x80 | 10, 512, S // 2)]
)
def test_times_of_pcapng_are_in_the_units_of_their_interface(
    tmp_path: Path, order: str, resolution: int, units: int, at_ns: int
):
    octets = section(order) + interface(resolution=resolution, add_s=7, order=order)
    octets += block(0xBAD, b"of a kind that no one knows", order)
    octets += enhanced(units, ip_packet(), order=order)
    assert [p.at_ns for p in read(tmp_path, octets)] == [7 * S + at_ns]


def test_each_section_of_pcapng_has_interfaces_and_a_byte_order_of_its_own(tmp_path: Path):
    octets = section("<") + interface(ETHERNET) + enhanced(1, ethernet(ip_packet(80)))
    octets += section(">") + interface(order=">") + enhanced(2, ip_packet(90), order=">")
    assert [(p.number, p.octets) for p in read(tmp_path, octets)] == [(1, 80), (2, 90)]


def test_a_capture_that_gzip_has_compressed_is_the_same(tmp_path: Path):
    octets = pcap((1, ip_packet()), (2, ip_packet()))
    assert read(tmp_path, gzip.compress(octets)) == read(tmp_path, octets)


@pytest.mark.parametrize(
    ("link_type", "begun"),
    [
        (1, ethernet(b"")),
        (1, ethernet(b"", tags=(0x88A8, 0x8100))),
        (0, struct.pack("<I", 2)),
        (101, b""),
        (113, bytes(14) + b"\x08\x00"),
        (276, b"\x08\x00" + bytes(18)),
    ],
    ids=str,
)
def test_a_packet_is_found_behind_the_header_of_its_link(
    tmp_path: Path, link_type: int, begun: bytes
):
    packet = begun + ip_packet(1234, "10.1.0.1", "10.2.0.1", dscp=46)
    (found,) = read(tmp_path, pcap((3, packet), link_type=link_type))
    ends = ip_address("10.1.0.1"), ip_address("10.2.0.1")
    assert found == Packet(1, 3, 1234, 46, *ends)


def test_a_packet_of_ipv6_has_its_length_class_and_addresses(tmp_path: Path):
    packet = ip_packet(1234, "2001:db8::1", "2001:db8::2", dscp=34)
    (found,) = read(tmp_path, pcap((3, ethernet(packet, 0x86DD)), link_type=ETHERNET))
    ends = ip_address("2001:db8::1"), ip_address("2001:db8::2")
    assert found == Packet(1, 3, 1234, 34, *ends)


def test_what_is_no_ip_packet_is_as_long_as_the_frame_was_and_has_no_addresses(tmp_path: Path):
    arp = ethernet(bytes(28), 0x0806)
    (found,) = read(tmp_path, pcap((3, arp), link_type=ETHERNET, length=60))
    assert found == Packet(1, 3, 46, 0, None, None)


def test_a_capture_of_first_octets_alone_has_the_lengths_of_the_cable(tmp_path: Path):
    """Headers say them; where the sender's card cut a packet they do not."""
    cut_by_card = ip_packet(0)
    (found,) = read(tmp_path, pcap((3, cut_by_card), length=1400))
    assert found.octets == 1400


TWO = pcap((1, ip_packet()), (2, ip_packet()))
DAMAGED = section() + interface()


@pytest.mark.parametrize(
    ("octets", "why"),
    [
        (b"", "found no capture, its first octets are '', expected pcap or pcapng"),
        (b"\0" * 50, "found no capture, its first octets are '00 00 00 00', expected pcap or"),
        (TWO[:10], "packet 1: found the end of the file within it, expected 14 octets more"),
        (TWO[:-1], "packet 2: found the end of the file within it, expected 1 octets more"),
        (TWO[:-25], "packet 2: found the end of the file within it, expected 5 octets more"),
        (
            pcap((5, ip_packet()), (2, ip_packet())),
            (
                "packet 2: found 3 ns less than of the packet before it, expected packets in the "
                "order of time (`reordercap"
            ),
        ),
        (
            pcap((1, ip_packet()), link_type=105),
            "packet 1: found link type 105, expected Ethernet (1), raw IP (101), Linux cooked",
        ),
        (
            pcap((1, ip_packet()[:19])),
            (
                "packet 1: found 19 octets, less than its headers, expected a capture with whole "
                "headers (capture at least 64 octets"
            ),
        ),
        (
            pcap((1, bytes(13)), link_type=ETHERNET),
            "packet 1: found 13 octets, less than its headers",
        ),
        (
            TWO[:24] + struct.pack("<IIII", 0, 0, 300_000, 300_000),
            "packet 1: found 300000 captured octets, expected 262144 or less: the file is damaged",
        ),
        (
            DAMAGED + enhanced(1, ip_packet(), number=3),
            "packet 1: found interface 3, expected one of the 1 that the file describes before it",
        ),
        (
            DAMAGED + block(3, bytes(8)),
            "packet 1: found a packet block of type 3, expected one of type 6, which has a time",
        ),
        (
            DAMAGED + struct.pack("<II", 6, 13),
            "packet 1: found before it a block of 13 octets, expected a multiple of 4",
        ),
        (
            DAMAGED + block(6, struct.pack("<IIIII", 0, 0, 1, 99, 99) + bytes(20)),
            "packet 1: found 99 captured octets in a block with room for 20, expected as many",
        ),
        (
            DAMAGED + enhanced(1, ip_packet()) + enhanced(2, ip_packet())[:-4],
            "packet 2: found the end of the file within it, expected 4 octets more",
        ),
        (section()[:8] + bytes(20), "packet 1: found before it a section without a byte order"),
        (gzip.compress(TWO)[:-9], "cannot be read: Compressed file ended before"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_what_is_wrong_in_a_capture_is_said_with_the_number_of_the_packet(
    tmp_path: Path, octets: bytes, why: str
):
    assert refusal(tmp_path, octets).startswith(why)


def test_a_capture_that_is_not_there_is_refused(tmp_path: Path):
    with pytest.raises(InputError, match=r"none\.pcap: cannot be read: No such file"):
        [*packets(tmp_path / "none.pcap")]


# --- those that are shipped ----------------------------------------------------------------------


def shipped(name: str) -> Sequence[Packet]:
    return [*packets(CHECKOUT / "schedules" / "captures" / name)]


def test_the_shipped_captures_are_those_that_the_script_makes(tmp_path: Path):
    (tmp_path / "scripts").mkdir()
    for name in ("captures", "python"):
        (tmp_path / "scripts" / name).write_bytes((CHECKOUT / "scripts" / name).read_bytes())
        (tmp_path / "scripts" / name).chmod(0o755)
    (tmp_path / "schedules").mkdir()
    (tmp_path / ".venv").symlink_to(CHECKOUT / ".venv")
    subprocess.run([tmp_path / "scripts" / "captures"], check=True)
    for name in ("bursty.pcap.gz", "suturing.pcap.gz"):
        made = gzip.decompress((tmp_path / "schedules" / "captures" / name).read_bytes())
        there = (CHECKOUT / "schedules" / "captures" / name).read_bytes()
        assert made == gzip.decompress(there)


def test_the_shipped_access_has_nine_and_a_half_megabits_in_bursts_above_ten():
    its = shipped("bursty.pcap.gz")
    lasts_ns = its[-1].at_ns - its[0].at_ns
    assert 9.2e-3 < sum(p.octets for p in its) * 8 / lasts_ns < 9.6e-3
    tenths = [0] * 20
    for packet in its:
        tenths[packet.at_ns // 100_000_000] += packet.octets * 8
    rates = [octets / 1e8 for octets in tenths]
    assert 0.016 < max(rates) < 0.019
    assert min(rates) < 0.005


def test_the_kinematics_of_a_data_set_become_a_capture(tmp_path: Path):
    """JIGSAWS: 76 numbers a line, 30 lines a second."""
    (tmp_path / "S1.txt").write_text("\n".join([" ".join(["0.5"] * 76)] * 4) + "\n")
    command = [CHECKOUT / "scripts" / "captures", tmp_path / "S1.txt", tmp_path / "a.pcap.gz"]
    subprocess.run(command, check=True)
    its = [*packets(tmp_path / "a.pcap.gz")]
    assert [p.at_ns for p in its] == [0, 33_333_000, 66_666_000, 100_000_000]
    assert {p.octets for p in its} == {20 + 8 + 76 * 4}
    (tmp_path / "S1.txt").write_text("0.5 0.5\n")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (
        1,
        f"{tmp_path / 'S1.txt'}:1: found 2 numbers, expected 76\n",
    )
