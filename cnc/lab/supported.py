"""Checks that the lab can emulate an intent, beside its addresses (`cnc.addressing`)."""

from __future__ import annotations

from collections.abc import Iterator

from cnc.addressing import next_hops
from cnc.errors import InputError
from cnc.format import rate
from cnc.lab.management import SWITCH_PORT
from cnc.model import Intent, Link

# The kernel reckons gates with a veth's 10 Gb/s. The lab's agents make frames count for longer, as
# on a slower link, and the kernel takes no frame for longer than 1 MiB (tsn-agent --emulate): that
# is 9,000 octets at a hundredth of the speed.
GATES_LEAST_BPS = 100_000_000
GATES_MOST_BPS = 10_000_000_000


def check_streams(intent: Intent) -> None:
    """Refuse streams that the lab cannot forward as a network of switches would.

    Raises:
        InputError: a stream is to be sent over two paths.
    """
    for stream in intent.streams.values():
        if stream.paths > 1:
            raise InputError(
                f"stream {stream.name} asks for {stream.paths} paths, and cnc lab does not "
                "replicate frames yet",
                hint="to emulate it over one path, leave out its key paths",
            )


def check_ports(intent: Intent) -> None:
    """Refuse ports named as an interface that every node of the lab has.

    Raises:
        InputError: a port has such a name.
    """
    for port in intent.network.links:
        reserved = ("lo", SWITCH_PORT) if port.node in intent.network.managed else ("lo",)
        if port.port in reserved:
            raise InputError(
                f"port {port}: a node of the lab has an interface {port.port} of its own",
                hint="give the port another name",
            )


def check_rates(intent: Intent) -> None:
    """Refuse streams over links whose rate the lab's gates cannot reckon with.

    Raises:
        InputError: a switch sends a stream over a link below 100 Mb/s or above 10 Gb/s.
    """
    for stream in intent.streams.values():
        for listener in stream.listeners:
            for link in _gated(intent, stream.talker, listener):
                if not GATES_LEAST_BPS <= link.rate_bps <= GATES_MOST_BPS:
                    raise InputError(
                        f"stream {stream.name}: port {link.source} would need gates for a link of "
                        f"{rate(link.rate_bps)}, and those of cnc lab can reckon with "
                        f"{rate(GATES_LEAST_BPS)} to {rate(GATES_MOST_BPS)} only: the kernel "
                        "counts no frame for longer than 1 MiB at the 10 Gb/s of a veth",
                        hint="give the link another `rate`; without streams (`streams: {}`) the "
                        "lab carries any rate, and has no gates",
                    )


def _gated(intent: Intent, talker: str, listener: str) -> Iterator[Link]:
    """The links from switches on the way that the lab routes (`cnc.addressing`)."""
    hops = next_hops(intent.network, listener)
    node = talker
    while node != listener and (link := hops.get(node)):
        if node in intent.network.bridges:
            yield link
        node = link.target.node
