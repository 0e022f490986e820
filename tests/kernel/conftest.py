"""Network namespaces with 8-queue veth ports, and traffic through gates.

    namespace "tsn-switch": p1, p2 (under test)  ══ veth ══  namespace "tsn-far": q1, q2

Port i is 10.0.i.1 and fd00:i::1, its far end .2 and ::2; neighbours are permanent, so that no
address resolution waits behind a gate.
"""

from __future__ import annotations

import socket
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyroute2 import IPRoute, netns

import cnc.testbed.lab.namespaces  # noqa: F401  gives what pyroute2 forks enough time
from agent.kernel.ports import KernelPorts
from agent.mechanisms import MECHANISMS
from agent.mechanisms.classification.classifier import Classifier
from agent.mechanisms.classification.iptables_legacy import LegacyTables
from agent.mechanisms.classification.iptables_restore import Flavour, RestoreTables
from agent.mechanisms.gates.model import GateEntry, GateOperation, GateSchedule, Taprio, TaprioMode
from agent.model import Clock
from agent.switch import Switch
from agent.traffic_classes import QueueRange
from tests.kernel.line3_lab import scheduled, unscheduled  # noqa: F401  fixtures
from tests.stack.conftest import (  # noqa: F401
    client,
    sysrepo_place,
    sysrepo_repository,
    sysrepo_template,
)

SWITCH, FAR = "tsn-switch", "tsn-far"
QUEUES = 8
IP_AND_UDP_OCTETS = 28
IFA_F_NODAD = 0x02
NUD_PERMANENT = 0x80
NS_PER_S = 1_000_000_000
MS = 1_000_000
SO_TIMESTAMPNS, SO_RCVBUFFORCE, SO_SNDBUFFORCE = 35, 33, 32  # asm-generic/socket.h
VIRTUAL_TIME = "time-travel" in Path("/proc/cmdline").read_text(encoding="utf-8")


def pytest_collection_modifyitems(config, items):
    """Leave out what only the other kind of time can show."""
    unfit = "real_time" if VIRTUAL_TIME else "virtual_time"
    left_out = [item for item in items if item.get_closest_marker(unfit)]
    items[:] = [item for item in items if not item.get_closest_marker(unfit)]
    config.hook.pytest_deselected(items=left_out)


@contextmanager
def inside(namespace: str) -> Iterator[None]:
    netns.pushns(namespace)
    try:
        yield
    finally:
        netns.popns()


@contextmanager
def new_namespace(name: str) -> Iterator[None]:
    """A new namespace. pyroute2 would fork all that this process is: seven times as much work."""
    subprocess.run(["ip", "netns", "add", name], check=True)
    try:
        yield
    finally:
        netns.remove(name)


@contextmanager
def routes_of(name: str) -> Iterator[IPRoute]:
    """The interfaces and addresses of a namespace. pyroute2 would fork for this, too."""
    with inside(name):
        opened = IPRoute()
    with opened:
        yield opened


def _mac(side: str, number: int) -> str:
    return f"02:00:00:00:{'01' if side == 'p' else '02'}:{number:02x}"


def _configure(ipr: IPRoute, side: str, number: int) -> None:
    own, other = (1, 2) if side == "p" else (2, 1)
    index = ipr.link_lookup(ifname=f"{side}{number}")[0]
    ipr.link("set", index=index, address=_mac(side, number), state="up")
    neighbour = {"ifindex": index, "state": NUD_PERMANENT}
    neighbour["lladdr"] = _mac("q" if side == "p" else "p", number)
    for prefix, mask in ((f"10.0.{number}.", 24), (f"fd00:{number}::", 64)):
        ipr.addr("add", index=index, address=f"{prefix}{own}", prefixlen=mask, flags=IFA_F_NODAD)
        ipr.neigh("add", dst=f"{prefix}{other}", **neighbour)


def _quieten() -> None:
    """The kernel's own frames would be counted with a test's: none of some, the others at once."""
    for key, value in (
        *(("accept_dad", 0), ("dad_transmits", 0), ("router_solicitations", 0)),
        *(("mldv1_unsolicited_report_interval", 1), ("mldv2_unsolicited_report_interval", 1)),
    ):
        for scope in ("all", "default"):  # interfaces copy the latter when they are made
            Path("/proc/sys/net/ipv6/conf", scope, key).write_text(f"{value}\n", encoding="ascii")


@pytest.fixture
def ports() -> Iterator[tuple[str, str]]:
    """p1 and p2, up; the test runs in their namespace."""
    with ExitStack() as cleanup:
        for name in (SWITCH, FAR):
            cleanup.enter_context(new_namespace(name))
            with inside(name):
                _quieten()
        cleanup.enter_context(inside(SWITCH))
        with IPRoute() as switch, routes_of(FAR) as far:
            queues = {"num_tx_queues": QUEUES, "num_rx_queues": QUEUES}
            for number in (1, 2):
                peer = {"ifname": f"q{number}", "net_ns_fd": FAR, **queues}
                switch.link("add", ifname=f"p{number}", kind="veth", peer=peer, **queues)
                _configure(switch, "p", number)
                _configure(far, "q", number)
        yield "p1", "p2"


@pytest.fixture(params=["python-iptables", "iptables-legacy-restore", "iptables-nft-restore"])
def classifier(request, ports) -> Classifier:
    ways = {
        "python-iptables": LegacyTables,
        "iptables-legacy-restore": lambda: RestoreTables(Flavour.LEGACY),
        "iptables-nft-restore": lambda: RestoreTables(Flavour.NFT),
    }
    return Classifier(ways[request.param]())


@pytest.fixture
def kernel(ports) -> Iterator[Switch]:
    opened = Switch(KernelPorts(MECHANISMS))
    yield opened
    opened.ports.close()


@pytest.fixture
def offloading_port(ports) -> Iterator[str]:
    """A netdevsim port of 8 queues, whose driver takes any full offload."""
    bus = Path("/sys/bus/netdevsim")
    if not bus.exists():
        pytest.skip("this kernel has no netdevsim")
    with IPRoute() as ipr:
        before = {link.get("IFLA_IFNAME") for link in ipr.get_links()}
        (bus / "new_device").write_text(f"7 1 {QUEUES}", encoding="ascii")
        try:
            (name,) = {link.get("IFLA_IFNAME") for link in ipr.get_links()} - before
            yield name
        finally:
            (bus / "del_device").write_text("7", encoding="ascii")


@pytest.fixture
def switch_ports(ports) -> Iterator[list[str]]:
    """Two ports of one switch, as the kernel says of netdevsim, in the bridge br0."""
    bus = Path("/sys/bus/netdevsim")
    if not bus.exists():
        pytest.skip("this kernel has no netdevsim")
    with IPRoute() as ipr:
        before = {link.get("IFLA_IFNAME") for link in ipr.get_links()}
        (bus / "new_device").write_text("8 2 8", encoding="ascii")
        try:
            names = sorted({link.get("IFLA_IFNAME") for link in ipr.get_links()} - before)
            ipr.link("add", ifname="br0", kind="bridge")
            (bridge,) = ipr.link_lookup(ifname="br0")
            for name in names:
                ipr.link("set", index=ipr.link_lookup(ifname=name)[0], master=bridge, state="up")
            yield names
            ipr.link("del", index=bridge)
        finally:
            (bus / "del_device").write_text("8", encoding="ascii")


@pytest.fixture
def eventually() -> Callable[[Callable[[], bool]], None]:
    """Wait for a condition, 10 s at most."""

    def wait(condition: Callable[[], bool]) -> None:
        for _ in range(1000):
            if condition():
                return
            time.sleep(0.01)
        pytest.fail("did not happen within 10 s")

    return wait


@pytest.fixture
def two_classes() -> Callable[..., Taprio]:
    """A taprio of two classes: skb priority 1 leads to class 1, all others to class 0."""

    def build(
        *entries: tuple[int, int] | tuple[int, int, GateOperation], base_time_ns: int = 0
    ) -> Taprio:
        listed = tuple(GateEntry(*entry) for entry in entries)
        schedule = GateSchedule(base_time_ns, sum(entry.interval_ns for entry in listed), listed)
        return Taprio(
            priority_map=(0, 1, *[0] * 14),
            queues=(QueueRange(1, 0), QueueRange(1, 1)),
            mode=TaprioMode.SOFTWARE,
            clock=Clock.TAI,
            schedule=schedule,
        )

    return build


@dataclass(frozen=True)
class Frame:
    """`class_` is the skb priority it was sent with; instants are TAI ns."""

    class_: int
    sent_ns: int
    arrived_ns: int


@dataclass(frozen=True)
class Traffic:
    """`sent` frames left the socket; `wakeup_errors_ns` says how late the sender woke each time."""

    sent: int
    frames: tuple[Frame, ...]
    wakeup_errors_ns: tuple[int, ...]


def _arrivals(receiver: socket.socket) -> Iterator[Frame]:
    tai_offset_ns = NS_PER_S * round(
        (time.clock_gettime_ns(time.CLOCK_TAI) - time.clock_gettime_ns(time.CLOCK_REALTIME))
        / NS_PER_S
    )
    while True:
        try:
            payload, ancillary, _, _ = receiver.recvmsg(64, 64)
        except TimeoutError:
            return
        class_, sent_ns = struct.unpack("=Bq", payload)
        seconds, nanoseconds = struct.unpack("=qq", ancillary[0][2])
        yield Frame(class_, sent_ns, seconds * NS_PER_S + nanoseconds + tai_offset_ns)


@pytest.fixture
def send_both_classes(ports) -> Callable[[int, int], Traffic]:
    """Send one frame of each class out of p1 in every one of so many cycles.

    The instants drift through the cycle by a step that is prime to it, so that every part of it is
    visited.
    """

    def run(cycles: int, cycle_ns: int) -> Traffic:
        with ExitStack() as stack:
            with inside(FAR):
                receiver = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            receiver.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
            receiver.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 8 << 20)
            receiver.settimeout(1)
            receiver.bind(("10.0.1.2", 5000))
            senders = {}
            for class_ in (0, 1):
                sender = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
                sender.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, class_)
                senders[class_] = sender
            late = []
            start_ns = time.clock_gettime_ns(time.CLOCK_TAI) // cycle_ns * cycle_ns + 2 * cycle_ns
            for cycle in range(cycles):
                target_ns = start_ns + cycle * cycle_ns + cycle * 7919 % cycle_ns
                now_ns = time.clock_gettime_ns(time.CLOCK_TAI)
                time.sleep(max(0, target_ns - now_ns) / NS_PER_S)
                now_ns = time.clock_gettime_ns(time.CLOCK_TAI)
                late.append(max(0, now_ns - target_ns))
                for class_, sender in senders.items():
                    sender.sendto(struct.pack("=Bq", class_, now_ns), ("10.0.1.2", 5000))
            return Traffic(2 * cycles, tuple(_arrivals(receiver)), tuple(late))

    return run


@pytest.fixture
def passes(ports):
    """Whether a frame of class 1 with so many octets of service data arrives beyond p1."""
    with ExitStack() as stack:
        with inside(FAR):
            receiver = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        receiver.settimeout(0.2)
        receiver.bind(("10.0.1.2", 5000))
        sender = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        sender.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, 1)

        def send(sdu_octets):
            sender.sendto(bytes(sdu_octets - IP_AND_UDP_OCTETS), ("10.0.1.2", 5000))
            try:
                return len(receiver.recv(2000)) == sdu_octets - IP_AND_UDP_OCTETS
            except TimeoutError:
                return False

        yield send


@pytest.fixture
def payload_bps(ports):
    """What arrives of packets of class 1 that never leave its queue empty, in bit/s."""
    with ExitStack() as stack:
        with inside(FAR):
            receiver = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        receiver.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 64 << 20)
        receiver.bind(("10.0.1.2", 5000))
        receiver.setblocking(False)
        sender = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        sender.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, 1)
        sender.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 64 << 20)

        def measure(packet_octets, for_ms, *, offered_each_ms):
            """Packets of that size, counted while the queue holds more than can leave."""
            data = bytes(packet_octets - IP_AND_UDP_OCTETS)

            def received():
                count = 0
                while True:
                    try:
                        receiver.recv(65536)
                    except BlockingIOError:
                        return count
                    count += 1

            def advance(milliseconds):
                """Keep the queue full for so long; what arrived by then."""
                count = 0
                for _ in range(milliseconds):
                    for _ in range(offered_each_ms):
                        sender.sendto(data, ("10.0.1.2", 5000))
                    now_ns = time.clock_gettime_ns(time.CLOCK_TAI)
                    time.sleep((MS - now_ns % MS) / NS_PER_S)
                    count += received()
                return count

            advance(10)
            return advance(for_ms) * packet_octets * 8 * NS_PER_S / (for_ms * MS)

        yield measure
