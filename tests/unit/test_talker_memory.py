"""What a talker of the lab keeps of a long run."""

from __future__ import annotations

import socket
import tracemalloc
from typing import Any

from cnc.model import NS_PER_S
from cnc.talker import tai_ns
from cnc.talker.clock import tai_offset_ns
from cnc.talker.error_queue import EXTENDED_ERROR, IP_RECVERR, LEFT, SCHEDULED, SO_TIMESTAMPING
from cnc.testbed.traffic import endpoint
from cnc.testbed.traffic.sockets import TIMESPEC, SendingSocket

MS = 1_000_000
FRAMES = 5_000
STAMPS_FROM_S = 1_800_000_000


class Stamping(SendingSocket):
    """A talker's socket, of whose frames `read_stamp` takes one stamp after the other."""

    def __init__(self, flow: dict[str, Any]) -> None:
        self.flow = flow
        self.told = [(kind, seq) for seq in range(FRAMES) for kind in (SCHEDULED, LEFT)]
        super().__init__(self)  # type: ignore[arg-type]  # the kernel's part is `recvmsg`

    def send_probe(self, number: int, seq: int, *, due_ns: int) -> None:
        pass

    def recvmsg(self, *_: object) -> tuple[bytes, list[tuple[int, int, bytes]], int, None]:
        if not self.told:
            raise BlockingIOError
        kind, seq = self.told.pop(0)
        stamp = TIMESPEC.pack(STAMPS_FROM_S + seq, kind)
        error = EXTENDED_ERROR.pack(0, 0, 0, 0, 0, kind, seq)
        return b"", [(socket.SOL_SOCKET, SO_TIMESTAMPING, stamp), (*IP_RECVERR, error)], 0, None


def test_a_talker_keeps_a_frame_and_its_stamps_in_few_octets() -> None:
    flow = {"id": 0, "period_ns": MS, "offset_ns": 0, "frames": 1}
    outlet: Any = Stamping(flow)
    start_ns = tai_ns() - FRAMES * MS  # all of them are due at once
    tracemalloc.start()
    try:
        sent = endpoint.keep_to([outlet], start_ns, start_ns + FRAMES * MS)
        while outlet.read_stamp():
            pass
        kept_octets, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert [row[:3] for row in sent] == [(0, n, start_ns + n * MS) for n in range(FRAMES)]
    left_ns = (STAMPS_FROM_S + 7) * NS_PER_S + tai_offset_ns()
    assert outlet.stamps(7) == (left_ns + SCHEDULED, left_ns + LEFT, None)
    assert outlet.stamps(FRAMES) == (None, None, None)
    assert kept_octets < 60 * FRAMES
