"""Record the frames at ports of the lab that is up, as a pcapng file.

A packet socket sees a frame that leaves when the port's queueing discipline has let it go, so its
time stamp is later than the gate; it sees one that arrives before the switch does.
"""

from __future__ import annotations

import os
import platform
import selectors
import socket
import struct
import time
from collections.abc import Collection, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from ipaddress import ip_address
from typing import BinaryIO

from pyroute2 import IPRoute

from cnc.errors import InputError
from cnc.lab import lifecycle, namespaces
from cnc.lab.kernels import beside
from cnc.model import NS_PER_S, PortRef
from cnc.traffic.pcapng import Address, CaptureFile, Direction, tai_comment
from cnc.traffic.sockets import RECEIVE_BUFFER_OCTETS, SO_RCVBUFFORCE, SO_TIMESTAMPNS, TIMESPEC
from cnc.version import __version__

# linux/if_ether.h, linux/if_arp.h, linux/rtnetlink.h, linux/if_packet.h
_ETH_P_ALL = 3
_ARPHRD_ETHER = 1
_RT_SCOPE_UNIVERSE = 0
_SOL_PACKET = 263
_PACKET_STATISTICS, _PACKET_AUXDATA = 6, 8
_STATISTICS = struct.Struct("=II")  # struct tpacket_stats: received, dropped
_AUXDATA = struct.Struct("=IIIHHHH")  # struct tpacket_auxdata; at last vlan_tci and vlan_tpid
_VLAN_VALID = 1 << 4
_MAC_ADDRESSES_OCTETS = 12
_FRAME_OCTETS_MAX = 1 << 16
_STOP = -1  # in place of a port's number
_CONTROL_OCTETS = socket.CMSG_SPACE(TIMESPEC.size) + socket.CMSG_SPACE(_AUXDATA.size)


@dataclass(frozen=True, slots=True)
class Captured:
    """Number of frames of one port in a capture, and of those that are missing in it."""

    port: PortRef
    frames: int
    dropped: int


class Capture:
    """The ports of a lab that are being captured. Use as a context manager.

    Raises:
        InputError: a node has no such port.
    """

    def __init__(self, lab: str, ports: Sequence[PortRef]) -> None:
        self._lab = lab
        self._frames = [0] * len(ports)
        self._ports = ports
        self._stack = ExitStack()
        self._stop = os.eventfd(0)
        self._stack.callback(os.close, self._stop)
        try:
            self._names = _examine(lab, ports)
            self._sockets = [
                self._stack.enter_context(closing(_opened(lab, port))) for port in ports
            ]
        except BaseException:
            self._stack.close()
            raise

    def __enter__(self) -> Capture:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def stop(self) -> None:
        """Let `run` return soon. It may be called in a signal handler."""
        os.eventfd_write(self._stop, 1)

    def run(
        self, file: BinaryIO, duration_ns: int | None = None, frames_max: int | None = None
    ) -> list[Captured]:
        """Write frames until the time is over or there are so many, or until `stop`.

        Raises what writing to `file` does.
        """
        written = self._begin(file)
        end_ns = None if duration_ns is None else time.monotonic_ns() + duration_ns
        with selectors.DefaultSelector() as selector:
            for number, each in enumerate(self._sockets):
                selector.register(each, selectors.EVENT_READ, number)
            selector.register(self._stop, selectors.EVENT_READ, _STOP)
            while sum(self._frames) != frames_max:
                left_s = None if end_ns is None else (end_ns - time.monotonic_ns()) / NS_PER_S
                if left_s is not None and left_s <= 0:
                    break
                ready = [key.data for key, _ in selector.select(left_s)]
                if _STOP in ready:
                    break
                for number in ready:
                    if sum(self._frames) != frames_max:
                        self._take(number, written)
        return [self._finish(number, written) for number in range(len(self._ports))]

    def _begin(self, file: BinaryIO) -> CaptureFile:
        written = CaptureFile(
            file,
            application=f"cnc {__version__}",
            system=f"Linux {platform.release()}",
            comment=f"lab {self._lab}; {tai_comment()}",
        )
        for port in self._ports:
            mac = next(each for each, name in self._names.items() if name == str(port))
            written.add_interface(str(port), f"port {port.port} of {port.node}", mac=str(mac))
        written.add_names(self._names)
        return written

    def _take(self, number: int, written: CaptureFile) -> None:
        octets, control, _, address = self._sockets[number].recvmsg(
            _FRAME_OCTETS_MAX, _CONTROL_OCTETS
        )
        is_leaving = address[2] == socket.PACKET_OUTGOING
        time_ns, tag = _time_and_tag(control)
        octets = octets[:_MAC_ADDRESSES_OCTETS] + tag + octets[_MAC_ADDRESSES_OCTETS:]
        direction = Direction.OUTBOUND if is_leaving else Direction.INBOUND
        written.add_frame(number, time_ns, octets, direction)
        self._frames[number] += 1

    def _finish(self, number: int, written: CaptureFile) -> Captured:
        raw = self._sockets[number].getsockopt(_SOL_PACKET, _PACKET_STATISTICS, _STATISTICS.size)
        _, dropped = _STATISTICS.unpack(raw)
        frames = self._frames[number]
        written.add_statistics(number, received=frames + dropped, dropped=dropped)
        return Captured(self._ports[number], frames, dropped)


def _opened(lab: str, port: PortRef) -> socket.socket:
    def open_here() -> socket.socket:
        # With a protocol it would get frames of all ports before `bind`.
        opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        opened.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, RECEIVE_BUFFER_OCTETS)
        opened.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        opened.setsockopt(_SOL_PACKET, _PACKET_AUXDATA, 1)
        opened.bind((port.port, _ETH_P_ALL))
        return opened

    return namespaces.inside(namespaces.of_node(lab, port.node), open_here)


def _time_and_tag(control: Sequence[tuple[int, int, bytes]]) -> tuple[int, bytes]:
    """When the frame was seen, in ns since 1970, and the VLAN tag that the kernel has taken out."""
    time_ns, tag = 0, b""
    for level, kind, data in control:
        if (level, kind) == (socket.SOL_SOCKET, SO_TIMESTAMPNS):
            seconds, nanoseconds = TIMESPEC.unpack(data)
            time_ns = seconds * NS_PER_S + nanoseconds
        elif (level, kind) == (_SOL_PACKET, _PACKET_AUXDATA):
            status, *_, control_information, ethertype = _AUXDATA.unpack(data)
            if status & _VLAN_VALID:
                tag = struct.pack("!HH", ethertype, control_information)
    return time_ns, tag


def _examine(lab: str, ports: Sequence[PortRef]) -> dict[Address, str]:
    """The addresses of all nodes: of a port for Ethernet, of its node for IP. Raises InputError."""
    if beside.is_written(lifecycle.STATE_ROOT / lab):
        raise InputError(
            f"the cables of lab {lab} are not on this node, which is one of its kernels",
            hint="run `cnc lab capture` on the machine that has started the lab",
        )
    names: dict[Address, str] = {}
    for node in (status.node for status in lifecycle.status(lab)):
        with IPRoute(netns=namespaces.of_node(lab, node)) as ip:
            for link in ip.get_links():
                if link["ifi_type"] == _ARPHRD_ETHER:
                    names[link.get("address")] = f"{node}/{link.get('ifname')}"
            for address in ip.get_addr(scope=_RT_SCOPE_UNIVERSE):
                names[ip_address(address.get("address"))] = node
    check_ports(lab, ports, names.values())
    return names


def check_ports(lab: str, ports: Sequence[PortRef], known: Collection[str]) -> None:
    """Refuse ports that are not among these.

    Raises:
        InputError: a node has no such port; those that there are.
    """
    for port in ports:
        if str(port) not in known:
            of_node = sorted(name for name in known if name.startswith(f"{port.node}/"))
            among = of_node or sorted({name.partition("/")[0] for name in known})
            what = "port" if of_node else "node"
            raise InputError(
                f"lab {lab} has no {what} {port if of_node else port.node}",
                hint=f"it has {', '.join(among)}",
            )
