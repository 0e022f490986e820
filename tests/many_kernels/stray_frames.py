"""Frames that nobody has told when to leave: a program to run on an end station of a lab.

    python stray_frames.py PORT HEADER PERIOD_NS PHASE_NS COUNT

One in each period, at an instant of the station's clock. HEADER is that of Ethernet, in hexadecimal
digits.
"""

from __future__ import annotations

import socket
import sys

from cnc.talker import sleep_until, tai_ns

PAYLOAD_OCTETS = 100


def main(port: str, header: str, period_ns: int, phase_ns: int, count: int) -> None:
    frame = bytes.fromhex(header) + bytes(PAYLOAD_OCTETS)
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as talker:
        talker.bind((port, 0))
        begin_ns = (tai_ns() // period_ns + 2) * period_ns + phase_ns
        for number in range(count):
            sleep_until(begin_ns + number * period_ns)
            talker.send(frame)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:]))
