"""An example talker: sends a stream over UDP when the schedule says, and tells how punctual it was.

Each datagram has the IP packet size of the stream, and begins with its sequence number in 8 octets.
Of a stream with several frames in a period it sends all, one after the other. It waits for the
stream to be planned, follows it where a push moves it, and ends after --frames, or with Ctrl-C.
Then it prints how much later than planned it woke, or with --launch which frames did not leave.
"""

from __future__ import annotations

import argparse
import contextlib
import socket
import sys
from collections.abc import Iterator, Sequence
from itertools import islice, repeat
from pathlib import Path

from cnc.talker.clock import be_punctual, sleep_until, tai_ns
from cnc.talker.launch import LaunchSocket
from cnc.talker.marking import marked_socket
from cnc.talker.offsets import DEFAULT_PATH, Departure, OffsetFile, OffsetsError, StreamOffset
from cnc.talker.talker import Talker

HEADER_OCTETS = {socket.AF_INET: 20 + 8, socket.AF_INET6: 40 + 8}  # IP and UDP
SEQUENCE_OCTETS = 8
LEAD_NS = 2_000_000  # in which the program wakes up on a loaded machine
SETTLED_NS = 10_000_000  # in which the kernel has reported the last frame


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status 0, 1: the offsets cannot be read, or the kernel refuses to send."""
    options = _parser().parse_args(arguments)
    lead_ns = LEAD_NS if options.launch else 0
    talker = Talker(OffsetFile(options.offsets), options.stream, options.path, lead_ns=lead_ns)
    late_ns: list[int] = []
    try:
        stream = talker.wait_until_told(options.wait)
        with marked_socket(stream, options.listener, options.port) as sock:
            launch = talker.launching(sock) if options.launch else None
            if launch is None:
                talker.refuse_launch()
            be_punctual(go_first=True)
            with contextlib.suppress(KeyboardInterrupt):
                _send(talker, sock, options.frames, late_ns, launch)
    except (OffsetsError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(_report(options.stream, late_ns, talker.skipped, launch))
    return 0


def _send(
    talker: Talker,
    sock: socket.socket,
    frames: int | None,
    late_ns: list[int],
    launch: LaunchSocket | None,
) -> None:
    def put(payload: bytes, instant_ns: int) -> None:
        if launch:
            launch.send(payload, instant_ns)
        else:
            sock.send(payload)

    for number, departure in enumerate(islice(_frames(talker), frames)):
        woke_ns = tai_ns()
        payload = _payload(number, departure.stream, sock)
        try:
            put(payload, departure.instant_ns)
        except ConnectionRefusedError:  # of the frame before: its listener does not run yet
            put(payload, departure.instant_ns)
        late_ns.append(woke_ns - departure.instant_ns)
    if launch:
        sleep_until(tai_ns() + LEAD_NS + launch.ahead_ns + SETTLED_NS)
        launch.drain()


def _frames(talker: Talker) -> Iterator[Departure]:
    """The departure of each frame: the same for all of a period."""
    for departure in talker.departures():
        yield from repeat(departure, departure.stream.frames)


def _payload(number: int, stream: StreamOffset, sock: socket.socket) -> bytes:
    octets = max(SEQUENCE_OCTETS, stream.payload_octets - HEADER_OCTETS[sock.family])
    return number.to_bytes(SEQUENCE_OCTETS, "big").ljust(octets, b"\0")


def _report(stream: str, late_ns: Sequence[int], skipped: int, launch: LaunchSocket | None) -> str:
    if not late_ns:
        return f"{stream}: no frame sent"
    if launch:
        missed, refused = launch.missed, launch.refused
        return (
            f"{stream}: {len(late_ns)} frames, {skipped} periods skipped; {missed} missed their "
            f"time, {refused} were refused"
        )
    mean_us, max_us = sum(late_ns) / len(late_ns) / 1000, max(late_ns) / 1000
    return (
        f"{stream}: {len(late_ns)} frames, {skipped} periods skipped; "
        f"woke {mean_us:.1f} us after the instant on average, {max_us:.1f} us at most"
    )


def _parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(
        prog="python -m cnc.talker",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    result.add_argument("stream", help="its name in the intent")
    result.add_argument("listener", help="host name or IP address to send to")
    result.add_argument("--port", type=int, default=5005, help="UDP port (default: %(default)s)")
    result.add_argument("--frames", type=_positive, help="how many to send (default: no end)")
    result.add_argument(
        "--path", type=int, choices=(1, 2), default=1, help="2: the other copy of each frame"
    )
    result.add_argument(
        "--launch",
        action="store_true",
        help="give each frame a time of transmission, which the kernel keeps to (`launch-time` of "
        "the station in the intent; needs CAP_NET_ADMIN)",
    )
    result.add_argument(
        "--wait",
        type=float,
        metavar="SECONDS",
        help="how long to wait for the stream to be planned (default: no end)",
    )
    result.add_argument(
        "--offsets",
        type=Path,
        default=DEFAULT_PATH,
        help="the file that tsn-agent writes (default: %(default)s)",
    )
    return result


def _positive(text: str) -> int:
    number = int(text)
    if number <= 0:
        raise argparse.ArgumentTypeError(f"{text} is not positive")
    return number


if __name__ == "__main__":
    sys.exit(main())
