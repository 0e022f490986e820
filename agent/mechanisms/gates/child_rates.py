"""The rates of the qdiscs below gates that make frames count for longer than they are. Pure.

Every qdisc of a port sees the length that the size table of the root gives a frame
(`frame_lengths`; qdisc_pkt_len in net/sched). On an emulated link a child that is to pass a rate
therefore has to be told a multiple of it, and of every other number of octets, too.
"""

from __future__ import annotations

from dataclasses import replace

from agent.mechanisms.gates.frame_lengths import length_factor
from agent.model import AgentError, EmulatedLink
from agent.root_qdisc import ChildQdisc

# What counts octets, or octets or bits in a time, in the words of tc; other options count frames,
# times or shares. A kind that is missing here is refused below a size table with entries, rather
# than left to pass a tenth of what it was told.
OCTET_OPTIONS = {
    "pfifo": frozenset[str](),
    "bfifo": frozenset({"limit"}),
    "tbf": frozenset({"rate", "burst", "limit", "peak", "mtu"}),
    "cbs": frozenset[str](),  # it reckons in the time of a frame on the device (credits_from_len)
    "htb": frozenset({"rate", "ceil", "burst", "cburst", "quantum", "mtu"}),  # of its classes
    "netem": frozenset({"rate"}),
    "etf": frozenset[str](),
}


def scaled(child: ChildQdisc, emulated: EmulatedLink | None) -> ChildQdisc:
    """The child as the kernel has to be told on this link.

    Raises `AgentError` for a kind whose options are not known.
    """
    factor = length_factor(emulated)
    if factor == 1:
        return child
    if child.kind not in OCTET_OPTIONS:
        raise AgentError(
            f"a {child.kind} qdisc on transmit queue {child.queue}: on an emulated link its rates "
            f"would be wrong; {', '.join(OCTET_OPTIONS)} are possible"
        )
    octets = OCTET_OPTIONS[child.kind]
    return replace(
        child,
        options=tuple(
            (name, round(value * factor) if name in octets else value)
            for name, value in child.options
        ),
    )
