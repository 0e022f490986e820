"""Ports without a schedule that send at the rate of their link: in order of arrival, or the
scheduled classes first (strict priority, IEEE 802.1Q 8.6.8.1)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby

from cnc.model import ClassRole, Intent, PortRef
from cnc.testbed.lab.iproute2 import batch
from cnc.testbed.lab.running import Lab
from cnc.testbed.lab.wires import SHAPED_FRAMES, SHAPER_LIMIT_OCTETS, WIRE_OVERHEAD_OCTETS

BURST_OCTETS = 1_600  # one frame: more would stand on the wire, before whatever comes next
DSCP_SHIFT, DSCP_MASK = 2, "0xfc"
FIRST, SECOND = "2:1", "2:2"
PRIORITIES = 16  # of the kernel's
SHAPER, BUFFERED = "1:", "5:1"
OSCILLATORS_APART = 20_000  # one part in so many: 50 ppm


def fifo(running: Lab) -> None:
    """Give every port of a switch one queue.

    Raises:
        CncError: the kernel refused.
    """

    def lines(port: PortRef) -> Iterator[str]:
        yield _shaper(running.intent, port)
        yield _queue(port.port, SHAPER, SHAPED_FRAMES)

    _at_every_port(running, lines)


def strict_priority(running: Lab) -> None:
    """Give every port of a switch two queues, of which the first is for the scheduled classes.

    Raises:
        CncError: the kernel refused.
    """

    def lines(port: PortRef) -> Iterator[str]:
        yield _shaper(running.intent, port)
        yield from _two_queues(running.intent, port.port, SHAPER, SHAPED_FRAMES)

    _at_every_port(running, lines)


def buffered(running: Lab, frames: int, *, scheduled_first: bool) -> None:
    """Give every port of a switch a buffer for so many frames, 2 or more, the one that it sends
    among them; in place of what is there.

    With `scheduled_first` that is the buffer of all other classes, and the scheduled ones have a
    queue of their own, as in `strict_priority`.

    A token bucket (tbf) lets a short frame follow a long one while that is still on the cable, and
    so has room for one more than it should. An htb without a burst sends what is next, and then
    nothing for as long as that takes (net/sched/sch_htb.c: a class may borrow from its own future).

    Each switch is 50 ppm faster than the one before it by name, as oscillators differ. At one rate
    a frame would come from one full port to the next just when a place becomes free, and from run
    to run the nanosecond would differ that decides.

    Raises:
        CncError: the kernel refused.
    """

    switches = sorted(running.intent.network.bridges)

    def lines(port: PortRef) -> Iterator[str]:
        rate_bps = running.intent.network.links[port].rate_bps
        rate_bps += switches.index(port.node) * rate_bps // OSCILLATORS_APART
        at = f"dev {port.port}"
        overhead = f"stab overhead {WIRE_OVERHEAD_OCTETS}"
        yield f"qdisc replace {at} root handle 5: {overhead} htb default 1"
        yield (
            f"class add {at} parent 5: classid {BUFFERED} htb rate {rate_bps}bit burst 1 cburst 1"
        )
        if scheduled_first:
            yield from _two_queues(running.intent, port.port, BUFFERED, frames - 1)
        else:
            yield _queue(port.port, BUFFERED, frames - 1)

    _at_every_port(running, lines)


def remove(running: Lab) -> None:
    """Take the queues away again.

    Raises:
        CncError: there are none.
    """
    _at_every_port(running, lambda port: iter([f"qdisc del dev {port.port} root"]))


def _at_every_port(running: Lab, lines: Callable[[PortRef], Iterator[str]]) -> None:
    network = running.intent.network
    ports = sorted(port for port in network.links if port.node in network.bridges)
    for node, its in groupby(ports, lambda port: port.node):
        batch(
            running.command(node, ["tc"]),
            [line for port in its for line in lines(port)],
            aim=f"change the queues of {node}",
            needs="sch_tbf, sch_htb, sch_prio and cls_u32",
        )


def _shaper(intent: Intent, port: PortRef) -> str:
    return (
        f"qdisc add dev {port.port} root handle 1: stab overhead {WIRE_OVERHEAD_OCTETS} tbf rate "
        f"{intent.network.links[port].rate_bps}bit burst {BURST_OCTETS} limit {SHAPER_LIMIT_OCTETS}"
    )


def _queue(port: str, parent: str, frames: int) -> str:
    return f"qdisc add dev {port} parent {parent} pfifo limit {frames}"


def _two_queues(intent: Intent, port: str, parent: str, others: int) -> Iterator[str]:
    """The first is for the scheduled classes; the second, for all others, has room for so many."""
    second = " ".join(["1"] * PRIORITIES)
    yield f"qdisc add dev {port} parent {parent} handle 2: prio bands 2 priomap {second}"
    yield _queue(port, FIRST, SHAPED_FRAMES)
    yield _queue(port, SECOND, others)
    scheduled = intent.classes_with(ClassRole.SCHEDULED)
    for dscp in sorted({dscp for its in scheduled for dscp in its.dscps}):
        value = f"{dscp << DSCP_SHIFT:#04x} {DSCP_MASK} flowid {FIRST}"
        yield f"filter add dev {port} parent 2: protocol ip prio 1 u32 match ip dsfield {value}"
        yield f"filter add dev {port} parent 2: protocol ipv6 prio 2 u32 match ip6 priority {value}"
