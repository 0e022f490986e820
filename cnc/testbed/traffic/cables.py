"""Record the frames on cables of a lab whose nodes are kernels, as a pcapng file.

The program that carries the frames writes them, so that no node knows of it. A cable has a frame
from the instant at which its sending begins, which is its time at both ends.
"""

from __future__ import annotations

import json
import os
import select
import socket
import struct
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import BinaryIO, NamedTuple

from cnc import intent as intents
from cnc.captures.pcapng import Address, CaptureFile, Direction
from cnc.errors import CncError
from cnc.model import NS_PER_S, Intent, PortRef
from cnc.testbed.lab import lifecycle
from cnc.testbed.lab.addressing import addresses
from cnc.testbed.lab.kernels import layout, own
from cnc.testbed.lab.running import substrate_of
from cnc.testbed.remote import client
from cnc.testbed.remote.frames import Decoder, Frame, Kind
from cnc.testbed.traffic.capture import Captured, check_ports
from cnc.version import __version__

_POLL_S = 0.05
_BLOCK = struct.Struct("=II")  # type, length
_FRAME = struct.Struct("=IIIII")  # interface, time, captured and original length
_OPTION = struct.Struct("=HH")  # code, length
_ALIGNMENT = 4
_ENHANCED_PACKET, _COMMENT = 6, 1
_ANSWER_OCTETS = 4096


def has_cables(lab: str) -> bool:
    """Whether frames of this lab are to be had from its cables.

    Raises:
        InputError: this user may not read the lab's directory.
    """
    return own.is_written(lifecycle.directory_of(lab, lifecycle.STATE_ROOT))


class CableFrame(NamedTuple):
    """A frame on a cable: the port that sends it, when its sending begins (true time, ns since
    1970), all of it without FCS, and what keeps it from its other end: `lost`, `damaged`, None."""

    sender: PortRef
    time_ns: int
    octets: bytes
    fate: str | None

    @property
    def arrives(self) -> bool:
        """Whether the cable brings it to its other end."""
        return self.fate is None


class CableFrames:
    """What is on cables of a lab of kernels from now on: those of some ports, or all. Use as a
    context manager.

    Raises:
        InputError: a node has no such port.
        CncError: the lab has ended, or one of the cables is being captured already.
    """

    def __init__(self, lab: str, ports: Sequence[PortRef] | None = None) -> None:
        directory = lifecycle.STATE_ROOT / lab
        self.nodes = substrate_of(lab, directory)
        lifecycle.check_alive(lab, self.nodes)
        home = directory / layout.HOME
        document = json.loads((home / "shared" / layout.INTENT_FILE).read_text())
        self.intent = intents.from_document(document, "the lab's intent")
        links = self.intent.network.links
        chosen = [*links] if ports is None else ports
        check_ports(lab, chosen, [str(port) for port in links])
        cables = sorted({min(port, links[port].target, key=str) for port in chosen}, key=str)
        # The interfaces of what is read: both ends of each cable.
        self._ends = [end for one in cables for end in (one, links[one].target)]
        self._stack = ExitStack()
        with self._stack:
            stream = self._stack.enter_context(closing(client.connect(str(home / layout.CONTROL))))
            request = json.dumps([str(each) for each in cables]).encode()
            stream.sendall(Frame(Kind.CAPTURE, 0, request).encoded())
            self._read = self._stack.enter_context(_answered(stream).open("rb"))
            self._stack = self._stack.pop_all()

    def __enter__(self) -> CableFrames:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def take(self) -> Iterator[CableFrame]:
        """Those that have come since, in the order of time."""
        for block in self._blocks():
            interface, high, low, size, _ = _FRAME.unpack_from(block)
            end = _FRAME.size + size
            yield CableFrame(
                sender=self._ends[interface],
                time_ns=high << 32 | low,
                octets=block[_FRAME.size : end],
                fate=_comment(block, end),
            )

    def _blocks(self) -> Iterator[bytes]:
        """The frames that have come since: each the body of an enhanced packet block."""
        while True:
            begin = self._read.tell()
            head = self._read.read(_BLOCK.size)
            kind, length = _BLOCK.unpack(head) if len(head) == _BLOCK.size else (0, 0)
            body = self._read.read(length - _BLOCK.size) if length else b""
            if len(head) + len(body) < max(length, 1):
                self._read.seek(begin)
                return
            if kind == _ENHANCED_PACKET:
                yield body


def _comment(block: bytes, end: int) -> str | None:
    """The comment on a frame that ends there: the first option behind it, if there is one."""
    start = -(-end // _ALIGNMENT) * _ALIGNMENT
    code, length = _OPTION.unpack_from(block, start)
    start += _OPTION.size
    return block[start : start + length].decode() if code == _COMMENT else None


class CableCapture:
    """Ports of a lab of kernels that are being captured; see `cnc.testbed.traffic.capture.Capture`.

    Raises what `CableFrames` does.
    """

    def __init__(self, lab: str, ports: Sequence[PortRef]) -> None:
        self._lab = lab
        self._ports = ports
        self._captured = [0] * len(ports)
        self._stack = ExitStack()
        self._stop = os.eventfd(0)
        self._stack.callback(os.close, self._stop)
        try:
            self._frames = self._stack.enter_context(CableFrames(lab, ports))
        except BaseException:
            self._stack.close()
            raise

    def __enter__(self) -> CableCapture:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def stop(self) -> None:
        """Let `run` return soon. It may be called in a signal handler."""
        os.eventfd_write(self._stop, 1)

    def run(
        self, file: BinaryIO, duration_ns: int | None = None, frames_max: int | None = None
    ) -> list[Captured]:
        """Write frames until so much virtual time has passed or there are so many, or until `stop`.

        Raises what writing to `file` does.
        CncError: the lab has ended.
        """
        nodes = self._frames.nodes
        written = self._begin(file)
        passing = None if duration_ns is None else self._let_pass(duration_ns)
        try:
            while sum(self._captured) != frames_max:
                is_over = passing is not None and passing.poll() is not None
                is_over = is_over or nodes.ended() is not None
                for frame in self._frames.take():
                    if sum(self._captured) != frames_max:
                        self._take(frame, written)
                if is_over or select.select([self._stop], [], [], _POLL_S)[0]:
                    break
        finally:
            if passing:
                passing.kill()
                passing.wait()
        lifecycle.check_alive(self._lab, nodes)
        return [Captured(*each, 0) for each in zip(self._ports, self._captured, strict=True)]

    def _let_pass(self, duration_ns: int) -> subprocess.Popen[bytes]:
        command = ["sleep", f"{duration_ns / NS_PER_S:.9f}"]
        return subprocess.Popen(
            self._frames.nodes.command(layout.CONTROLLER, command), stdin=subprocess.DEVNULL
        )

    def _begin(self, file: BinaryIO) -> CaptureFile:
        written = CaptureFile(
            file,
            application=f"cnc {__version__}",
            system="user-mode Linux",
            comment=f"lab {self._lab}; time stamps: true time (UTC) at which sending begins",
        )
        names = _names(self._frames.intent)
        macs = {name: str(address) for address, name in names.items()}
        for port in self._ports:
            name = str(port)
            written.add_interface(name, f"port {port.port} of {port.node}", mac=macs[name])
        written.add_names(names)
        return written

    def _take(self, frame: CableFrame, written: CaptureFile) -> None:
        ends = [(frame.sender, Direction.OUTBOUND)]
        if frame.arrives:
            target = self._frames.intent.network.links[frame.sender].target
            ends.append((target, Direction.INBOUND))
        comments = [frame.fate] if frame.fate else []
        for end, direction in ends:
            if end in self._ports:
                number = self._ports.index(end)
                written.add_frame(number, frame.time_ns, frame.octets, direction, comments=comments)
                self._captured[number] += 1


def _answered(stream: socket.socket) -> Path:
    """The file that is to be read.

    Raises:
        CncError: there is none; why.
    """
    decoder = Decoder()
    while octets := stream.recv(_ANSWER_OCTETS):
        for frame in decoder.feed(octets):
            if frame.kind is Kind.OUTPUT:
                return Path(frame.data.decode())
            raise CncError(frame.data.decode(), hint="wait for the other `cnc lab capture`")
    raise CncError("the lab ended before the capture began", hint="`cnc lab status` says more")


def _names(intent: Intent) -> dict[Address, str]:
    """The addresses of all nodes: of a port for Ethernet, of its node for IP."""
    names: dict[Address, str] = {}
    for kernel in layout.kernels(intent).values():
        names |= {
            card.mac: f"{card.node}/{card.port}" for card in (*kernel.ports, kernel.management)
        }
    for node, its in addresses(intent).items():
        names |= {its.v4: node, its.v6: node}
    return names
