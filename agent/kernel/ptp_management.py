"""PTP management messages (IEEE Std 1588-2019, clause 15) as ptp4l answers them on its socket.

The socket is a UNIX datagram socket; ptp4l answers all questions of this module together in less
than a millisecond. Its own client, pmc, speaks the same protocol, but prints text for people and
waits 100 ms for more answers before it ends.

Whoever may bind the socket's address can answer: each length is compared with what has come.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

TIMEOUT_S = 0.1
REPLY_OCTETS_MAX = 2048

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
    """Table 59; those from 0xC000 on are linuxptp's own (tlv.h)."""

    DEFAULT_DATA_SET = 0x2000
    CURRENT_DATA_SET = 0x2001
    PARENT_DATA_SET = 0x2002
    TIME_PROPERTIES_DATA_SET = 0x2003
    PORT_DATA_SET = 0x2004
    TIME_STATUS_NP = 0xC000
    PORT_DATA_SET_NP = 0xC002


class DefaultDataSet(NamedTuple):
    """Table 61."""

    flags: int
    number_of_ports: int
    priority1: int
    clock_class: int
    clock_accuracy: int
    offset_scaled_log_variance: int
    priority2: int
    clock_identity: bytes
    domain: int


class CurrentDataSet(NamedTuple):
    """Table 63; intervals are nanoseconds multiplied by 65536 (5.3.2)."""

    steps_removed: int
    offset_from_master: int
    mean_path_delay: int


class ParentDataSet(NamedTuple):
    """Table 64."""

    parent_clock: bytes
    parent_port: int
    grandmaster_priority1: int
    grandmaster_clock_class: int
    grandmaster_clock_accuracy: int
    grandmaster_offset_scaled_log_variance: int
    grandmaster_priority2: int
    grandmaster_identity: bytes


class TimePropertiesDataSet(NamedTuple):
    """Table 65; `flags` are those of table 66."""

    current_utc_offset_s: int
    flags: int
    time_source: int


class PortDataSet(NamedTuple):
    """Table 67; intervals are nanoseconds multiplied by 65536."""

    clock_identity: bytes
    port_number: int
    state: int
    log_min_delay_req_interval: int
    peer_mean_path_delay: int
    log_announce_interval: int
    announce_receipt_timeout: int
    log_sync_interval: int
    delay_mechanism: int
    log_min_pdelay_req_interval: int


class TimeStatus(NamedTuple):
    """How far the clock is ahead of its master, whether the grandmaster is another, and which."""

    offset_from_master_ns: int
    has_master: int
    grandmaster_identity: bytes


class GptpPort(NamedTuple):
    """linuxptp's additions to a port, which only the header of the message names."""

    port_number: int
    mean_link_delay_threshold_ns: int
    as_capable: int


DataSet = (
    DefaultDataSet
    | CurrentDataSet
    | ParentDataSet
    | TimePropertiesDataSet
    | PortDataSet
    | TimeStatus
    | GptpPort
)

_LAYOUTS: dict[ManagementId, tuple[struct.Struct, Any]] = {
    ManagementId.DEFAULT_DATA_SET: (struct.Struct("!BxHBBBHB8sBx"), DefaultDataSet),
    ManagementId.CURRENT_DATA_SET: (struct.Struct("!Hqq"), CurrentDataSet),
    ManagementId.PARENT_DATA_SET: (struct.Struct("!8sH8xBBBHB8s"), ParentDataSet),
    ManagementId.TIME_PROPERTIES_DATA_SET: (struct.Struct("!hBB"), TimePropertiesDataSet),
    ManagementId.PORT_DATA_SET: (struct.Struct("!8sHBbqbBbBbx"), PortDataSet),
    ManagementId.TIME_STATUS_NP: (struct.Struct("!q30xi8s"), TimeStatus),
    ManagementId.PORT_DATA_SET_NP: (struct.Struct("!Ii"), GptpPort),
}


class Domain(NamedTuple):
    """Whom ptp4l answers: its messages have both numbers, and it is silent to others.

    `sdo` is 0 for IEEE 1588, 1 for IEEE 802.1AS (linuxptp's transportSpecific).
    """

    sdo: int
    number: int


def request(domain: Domain, management_id: ManagementId) -> bytes:
    """A request for a data set of the clock, or of each of its ports."""
    header = HEADER.pack(
        *(domain.sdo << 4 | MANAGEMENT, VERSION, HEADER.size + REQUEST.size, domain.number),
        *(0, 0, 0, 0, bytes(8), 0, 0, CONTROL_MANAGEMENT, NO_INTERVAL),
    )
    return header + REQUEST.pack(*ANYBODY, 0, 0, GET, TLV_MANAGEMENT, TLV_LENGTH, management_id)


def parse(message: bytes) -> DataSet | None:
    """The data set in a response; None for a refusal, and for what is no whole response."""
    start = HEADER.size + REQUEST.size
    if len(message) < start:
        return None
    message_type, version, message_octets, *_, sender_port, _, _, _ = HEADER.unpack_from(message)
    if message_type & 0xF != MANAGEMENT or version & 0xF != VERSION:
        return None
    *_, action, tlv_type, tlv_octets, number = REQUEST.unpack_from(message, HEADER.size)
    if action & 0xF != RESPONSE or tlv_type != TLV_MANAGEMENT or number not in _LAYOUTS:
        return None
    layout, kind = _LAYOUTS[ManagementId(number)]
    end = start + layout.size
    if tlv_octets < TLV_LENGTH + layout.size or not end <= message_octets <= len(message):
        return None
    values = layout.unpack_from(message, start)
    if kind is GptpPort:
        return GptpPort(sender_port, *values)
    data_set: DataSet = kind(*values)
    return data_set


def ask(
    address: str, domains: Sequence[Domain], management_ids: Sequence[ManagementId]
) -> Iterator[DataSet]:
    """What the ptp4l of this network namespace with this socket answers within `TIMEOUT_S`.

    The caller stops when it has all. Raises OSError where no ptp4l has the socket.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as client:
        # An address that the kernel chooses, in this network namespace: nothing to remove, and the
        # ptp4l of another namespace, whose socket may be the same file, cannot answer.
        client.bind("")
        client.connect(address)
        deadline = time.monotonic() + TIMEOUT_S
        client.settimeout(TIMEOUT_S)
        for domain in domains:
            for management_id in management_ids:
                client.send(request(domain, management_id))
        while (left_s := deadline - time.monotonic()) > 0:
            client.settimeout(left_s)
            try:
                message = client.recv(REPLY_OCTETS_MAX)
            except TimeoutError:
                return
            if (data_set := parse(message)) is not None:
                yield data_set


def identity(clock: bytes) -> str:
    """As ptp4l writes it: 001122.fffe.334455 (cid2str of its util.c)."""
    text = clock.hex()
    return f"{text[:6]}.{text[6:10]}.{text[10:]}"
