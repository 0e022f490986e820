"""Streams that a lab's talkers send untagged: UDP by an ordinary socket, or plain frames."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address

from cnc.errors import InputError
from cnc.model import (
    IpIdentification,
    NextProtocol,
    NullIdentification,
    SourceMacIdentification,
    Stream,
)
from cnc.testbed.traffic.endpoint import IP_AND_UDP_OCTETS, PORT
from cnc.testbed.traffic.sockets import PROBE


@dataclass(frozen=True, slots=True)
class UdpPackets:
    """What the talker's ordinary socket sends; None: whatever the kernel chooses."""

    ip_version: int
    destination: str
    port: int
    source: str | None = None
    source_port: int | None = None
    dscp: int | None = None


@dataclass(frozen=True, slots=True)
class PlainFrames:
    """What the talker sends without a tag. None: the address of its port."""

    destination_mac: str
    source_mac: str | None = None


Sending = UdpPackets | PlainFrames


def sending_of(stream: Stream, listener_mac: str) -> Sending:
    """What the talker of an untagged stream sends, so that the first switch knows it.

    Raises:
        InputError: the lab cannot send that.
    """
    match stream.identification:
        case SourceMacIdentification(mac):
            return PlainFrames(listener_mac, mac)
        case NullIdentification(mac):
            return PlainFrames(mac)
        case IpIdentification() as ip:
            _check_packets(stream, ip)
            port = PORT if ip.destination_port is None else ip.destination_port
            version = ip_address(ip.destination).version
            return UdpPackets(version, ip.destination, port, ip.source, ip.source_port, ip.dscp)
    raise ValueError(f"stream {stream.name} is tagged by its talker")


def _check_packets(stream: Stream, ip: IpIdentification) -> None:
    if ip.protocol is NextProtocol.TCP:
        raise InputError(
            f"stream {stream.name} is known by TCP, and cnc lab sends UDP",
            hint="measure it with `protocol: udp`",
        )
    least = IP_AND_UDP_OCTETS[stream.ip_version] + PROBE.size
    if stream.payload_octets < least:
        raise InputError(
            f"stream {stream.name}: a payload of {stream.payload_octets} octets cannot hold a "
            f"probe over IPv{stream.ip_version}",
            hint=f"{least} octets or more: headers and a sequence number",
        )
