"""Captures of ports of a network: pcap and pcapng files, each frame with its port and TAI."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from cnc.captures.capture_file import Record, records, refused
from cnc.captures.verdict import Captured
from cnc.errors import InputError
from cnc.model import NS_PER_S, Network, PortRef

LINKTYPE_ETHERNET = 1
TAI_AHEAD_S = 37  # of UTC, since 2017
# What `cnc lab capture` and `cnc lab trace` say of the clock of their time stamps.
_AHEAD = re.compile(r"CLOCK_TAI, the clock of gates, is (-?\d+) s ahead")

# A capture on cables of a lab has frames of both ends, by when their sending begins.
_AT_BEGIN = "at which sending begins"


def frames(
    network: Network, file: Path, port: PortRef | None = None, *, tai_ahead_s: int | None = None
) -> Iterator[Captured]:
    """The frames of a capture of ports of a network, in its order.

    The port of a frame is `port`, or the one that its interface in the file is named by, as
    NODE/PORT. Time stamps are UTC; TAI is `tai_ahead_s` ahead, by default what the capture says of
    itself, or 37 s.

    Raises:
        InputError: the file cannot be read, is no capture of Ethernet frames, or has a frame of a
            port that is not one of the network.
    """
    port_of = _ports(network, file)
    if port is not None:
        port_of(str(port))
    for record in records(file):
        if record.link_type != LINKTYPE_ETHERNET:
            expected = f"{LINKTYPE_ETHERNET}, Ethernet"
            refused(file, record.number, f"link type {record.link_type}", expected)
        if record.is_sent is False and _AT_BEGIN in (record.comment or ""):
            continue  # it has left the far end then, and not come yet
        ahead_s = _ahead_s(record) if tai_ahead_s is None else tai_ahead_s
        yield Captured(
            file=str(file),
            number=record.number,
            at_ns=record.at_ns + ahead_s * NS_PER_S,
            port=port or port_of(record.interface),
            is_leaving=record.is_sent,
            length=record.length,
            octets=record.octets,
            tai_ahead_s=ahead_s,
        )


def _ports(network: Network, file: Path) -> Callable[[str | None], PortRef]:
    """The port that an interface of a file is named by."""
    known = {str(port): port for port in network.links}

    def port_of(name: str | None) -> PortRef:
        found = known.get(name or "")
        if found is None:
            what = "no name of an interface" if name is None else f"interface {name}"
            raise InputError(
                f"{file}: found {what}, expected a port of the network as NODE/PORT, such as "
                f"{min(known, default='s1/p1')}",
                hint=f"name the port of a capture of one port: s1/p1={file}",
            )
        return found

    return port_of


def _ahead_s(record: Record) -> int:
    stated = _AHEAD.search(record.comment or "")
    return int(stated[1]) if stated else TAI_AHEAD_S
