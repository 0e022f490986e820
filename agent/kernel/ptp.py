"""What the PTP daemon (linuxptp's ptp4l) says of itself, asked over its management socket.

ptp4l answers PTP management messages (IEEE Std 1588-2019, clause 15) on a UNIX datagram socket, all
of these together in less than a millisecond. Its own client, pmc, speaks the same protocol, but
prints text for people and waits 100 ms for more answers before it ends.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator
from contextlib import suppress
from enum import IntEnum
from itertools import product
from typing import Any, NamedTuple

from agent.model import PtpPortState, PtpStatus

# uds_ro_address (since linuxptp 4.0) and uds_address; ptp4l(8)
ADDRESSES = ("/var/run/ptp4lro", "/var/run/ptp4l")
TIMEOUT_S = 0.1
REPLY_OCTETS_MAX = 2048

# ptp4l is silent when this differs from its transportSpecific: 0 for IEEE 1588, 1 for IEEE 802.1AS.
SDO_IDS = (0, 1)
DOMAIN = 0  # the default of both standards

MANAGEMENT = 0xD
VERSION = 2
CONTROL_MANAGEMENT = 4
NO_INTERVAL = 0x7F
GET, RESPONSE = 0, 2
TLV_MANAGEMENT = 1
ANYBODY = b"\xff" * 8, 0xFFFF

# 13.3.1: sdo id with message type, version, length, domain, minor sdo id, flags, correction, type
# specific, clock and port of the sender, sequence, control, interval
HEADER = struct.Struct("!BBHBBHqI8sHHBb")
# 15.4.1: clock and port asked, starting hops, hops, action; then type, length and id of the TLV
REQUEST = struct.Struct("!8sHBBBxHHH")
TLV_LENGTH = 2  # of the id alone


class ManagementId(IntEnum):
    """Table 59; TIME_STATUS_NP is linuxptp's own (tlv.h)."""

    DEFAULT_DATA_SET = 0x2000
    PORT_DATA_SET = 0x2004
    TIME_STATUS_NP = 0xC000


DATA_SETS = {
    ManagementId.DEFAULT_DATA_SET: struct.Struct("!2xH"),  # number of ports
    ManagementId.PORT_DATA_SET: struct.Struct("!8xHB"),  # port, state
    # offset from the master (ns), whether the grandmaster is another clock, the grandmaster
    ManagementId.TIME_STATUS_NP: struct.Struct("!q30xi8s"),
}

# 8.2.15.3.1, table 20
PORT_STATES = dict(enumerate(PtpPortState, start=1))


class Reply(NamedTuple):
    """A data set, as far as it is of use here: `values` are those of `DATA_SETS`."""

    of: ManagementId
    values: tuple[Any, ...]


def status(addresses: tuple[str, ...] = ADDRESSES) -> PtpStatus | None:
    """What the ptp4l of this network namespace says; None where none answers in `TIMEOUT_S`."""
    for address in addresses:
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as client:
            # An address that the kernel chooses, in this network namespace: nothing to remove, and
            # the ptp4l of another namespace, whose socket is the same file, cannot answer.
            client.bind("")
            client.connect(address)
            return _collect(_ask(client))
    return None


def _ask(client: socket.socket) -> Iterator[Reply]:
    """Whatever comes back in time; the caller stops when it has all."""
    deadline = time.monotonic() + TIMEOUT_S
    client.settimeout(TIMEOUT_S)
    for sdo_id, management_id in product(SDO_IDS, ManagementId):
        client.send(_get(sdo_id, management_id))
    while (left_s := deadline - time.monotonic()) > 0:
        client.settimeout(left_s)
        try:
            message = client.recv(REPLY_OCTETS_MAX)
        except TimeoutError:
            return
        if reply := parse(message):
            yield reply


def _collect(replies: Iterator[Reply]) -> PtpStatus | None:
    ports: dict[int, PtpPortState] = {}
    number_of_ports, time_status = None, None
    for reply in replies:
        match reply.of:
            case ManagementId.DEFAULT_DATA_SET:
                (number_of_ports,) = reply.values
            case ManagementId.TIME_STATUS_NP:
                time_status = reply.values
            case ManagementId.PORT_DATA_SET:
                number, state = reply.values
                if state in PORT_STATES:  # others are reserved
                    ports[number] = PORT_STATES[state]
        if time_status and len(ports) == number_of_ports:
            break
    if time_status is None:
        return None
    offset_ns, has_master, grandmaster = time_status
    return PtpStatus(
        grandmaster_identity=_identity(grandmaster),
        is_grandmaster=not has_master,
        offset_from_master_ns=offset_ns if has_master else None,
        ports=ports,
    )


def _get(sdo_id: int, management_id: ManagementId) -> bytes:
    """A request for a data set of the clock, or of each of its ports."""
    header = HEADER.pack(
        *(sdo_id << 4 | MANAGEMENT, VERSION, HEADER.size + REQUEST.size, DOMAIN, 0, 0, 0, 0),
        *(bytes(8), 0, 0, CONTROL_MANAGEMENT, NO_INTERVAL),
    )
    request = REQUEST.pack(*ANYBODY, 0, 0, GET, TLV_MANAGEMENT, TLV_LENGTH, management_id)
    return header + request


def parse(message: bytes) -> Reply | None:
    """The data set in a response; None for a refusal, and for what is no response."""
    start = HEADER.size + REQUEST.size
    if len(message) < start or message[0] & 0xF != MANAGEMENT:
        return None
    *_, action, tlv_type, _, number = REQUEST.unpack_from(message, HEADER.size)
    layout = DATA_SETS.get(number)
    if action & 0xF != RESPONSE or tlv_type != TLV_MANAGEMENT or layout is None:
        return None
    if len(message) < start + layout.size:
        return None
    return Reply(ManagementId(number), layout.unpack_from(message, start))


def _identity(clock: bytes) -> str:
    """As ptp4l writes it: 001122.fffe.334455 (cid2str of its util.c)."""
    text = clock.hex()
    return f"{text[:6]}.{text[6:10]}.{text[10:]}"
