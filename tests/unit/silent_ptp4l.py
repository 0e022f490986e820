"""A ptp4l that answers PTP management messages with what it is given, and keeps no clock.

Answers are built from linuxptp's tlv.h (4.4) and IEEE Std 1588-2019, clause 15, not recorded.
"""

from __future__ import annotations

import socket
import struct
import threading
from dataclasses import dataclass, field
from pathlib import Path

from agent.kernel.ptp_management import (
    ANYBODY,
    CONTROL_MANAGEMENT,
    HEADER,
    MANAGEMENT,
    NO_INTERVAL,
    REQUEST,
    RESPONSE,
    TLV_LENGTH,
    TLV_MANAGEMENT,
    VERSION,
)

TIME_PROPERTIES, TIME_STATUS_NP, PORT_PROPERTIES_NP = 0x2003, 0xC000, 0xC004
MASTER, UNCALIBRATED, SLAVE = 6, 8, 9
SOFTWARE, HARDWARE = 0, 1
PTP_TIMESCALE = 1 << 3
GRANDMASTER = bytes.fromhex("001122fffe334455")


@dataclass
class SilentPtp4l:
    """While it is used as a context manager, it answers at `address`, in domain `domain`."""

    address: Path
    ahead_ns: int = 0
    state: int = SLAVE
    stamps: int = SOFTWARE
    interface: str = "lo"
    utc_offset_s: int = 37
    grandmaster: bytes = GRANDMASTER
    domain: int = 0
    says: set[int] = field(
        default_factory=lambda: {TIME_PROPERTIES, TIME_STATUS_NP, PORT_PROPERTIES_NP}
    )

    def __enter__(self) -> SilentPtp4l:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(self.address))
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
            end.sendto(b"", str(self.address))
        self._thread.join()
        self._socket.close()

    def _serve(self) -> None:
        while True:
            asked, client = self._socket.recvfrom(2048)
            if not asked:
                return
            domain, sdo = asked[4], asked[0] >> 4
            (management_id,) = struct.unpack_from("!H", asked, len(asked) - 2)
            if domain == self.domain and sdo == 0 and management_id in self.says:
                self._socket.sendto(self._answer(management_id), client)

    def _answer(self, management_id: int) -> bytes:
        data = self._data(management_id)
        octets = HEADER.size + REQUEST.size + len(data)
        header = HEADER.pack(
            *(MANAGEMENT, VERSION, octets, self.domain, 0, 0, 0, 0),
            *(self.grandmaster, 1, 0, CONTROL_MANAGEMENT, NO_INTERVAL),
        )
        tlv = TLV_MANAGEMENT, TLV_LENGTH + len(data), management_id
        return header + REQUEST.pack(*ANYBODY, 0, 0, RESPONSE, *tlv) + data

    def _data(self, management_id: int) -> bytes:
        if management_id == TIME_STATUS_NP:
            follows = self.state != MASTER
            return struct.pack("!q30xi8s", self.ahead_ns, follows, self.grandmaster)
        if management_id == TIME_PROPERTIES:
            return struct.pack("!hBB", self.utc_offset_s, PTP_TIMESCALE, 0xA0)
        name = self.interface.encode()
        return struct.pack("!8sHBBB", bytes(8), 1, self.state, self.stamps, len(name)) + name
