"""Record the frames at ports of the lab that is up, as a pcapng file."""

from __future__ import annotations

import os
import platform
import selectors
import time
from collections.abc import Collection, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from ipaddress import ip_address
from typing import BinaryIO

from pyroute2 import IPRoute

from cnc.captures.pcapng import Address, CaptureFile, Direction, tai_comment
from cnc.errors import InputError
from cnc.model import NS_PER_S, PortRef
from cnc.testbed.lab import lifecycle, namespaces, rehearsed
from cnc.testbed.lab.kernels import beside
from cnc.testbed.traffic.tap import Tap
from cnc.version import __version__

# linux/if_arp.h, linux/rtnetlink.h
_ARPHRD_ETHER = 1
_RT_SCOPE_UNIVERSE = 0
_STOP = -1  # in place of a port's number


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
            self._taps = [self._stack.enter_context(closing(Tap(lab, port))) for port in ports]
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
            for number, tap in enumerate(self._taps):
                selector.register(tap.socket, selectors.EVENT_READ, number)
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
        frame = self._taps[number].take()
        direction = Direction.OUTBOUND if frame.is_leaving else Direction.INBOUND
        written.add_frame(number, frame.time_ns, frame.octets, direction)
        self._frames[number] += 1

    def _finish(self, number: int, written: CaptureFile) -> Captured:
        dropped = self._taps[number].dropped()
        frames = self._frames[number]
        written.add_statistics(number, received=frames + dropped, dropped=dropped)
        return Captured(self._ports[number], frames, dropped)


def _examine(lab: str, ports: Sequence[PortRef]) -> dict[Address, str]:
    """The addresses of all nodes: of a port for Ethernet, of its node for IP. Raises InputError."""
    rehearsed.refuse(lab, lifecycle.directory_of(lab, lifecycle.STATE_ROOT))
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
