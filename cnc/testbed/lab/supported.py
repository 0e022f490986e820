"""Checks that the lab can emulate an intent, beside its addresses (`lab.addressing`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from cnc.errors import InputError
from cnc.model import ORDINARY_MTU_OCTETS, ClassRole, Forwarding, Intent, Link, Stream
from cnc.support.format import rate
from cnc.testbed.intent.lab_model import Clocks, ImpairedLinks, Impairments
from cnc.testbed.lab.addressing import next_hops
from cnc.testbed.lab.kernels.layout import CONTROLLER
from cnc.testbed.lab.management import SWITCH_PORT

# The kernel reckons gates with a veth's 10 Gb/s. The lab's agents make frames count for longer, as
# on a slower link, and the kernel takes no frame for longer than 1 MiB (tsn-agent --emulate): that
# is 9,000 octets at a hundredth of the speed.
GATES_LEAST_BPS = 100_000_000
GATES_MOST_BPS = 10_000_000_000


def check_clocks(intent: Intent) -> None:
    """Refuse clocks that differ: all nodes are namespaces of one kernel, which has one clock.

    Raises:
        InputError: a node states a `clock`.
    """
    for name in intent[Clocks].by_node:
        raise InputError(
            f"{intent.network.described(name)} has a clock of its own, and all nodes of cnc lab "
            "are namespaces of one kernel, whose clock they share",
            hint="leave out its key clock, or give each node a kernel: --kernels own",
        )


def check_cables(intent: Intent, *, timed_wires: bool) -> None:
    """Refuse what cables between namespaces of one kernel do not do to frames.

    Raises:
        InputError: a link states other `impairments` than a delay; or a delay, without
            `timed_wires`.
    """
    for port, its in intent[ImpairedLinks].by_port.items():
        if replace(its, pareto_ns=0) != Impairments():
            raise InputError(
                f"the link of {port} has impairments, and all nodes of cnc lab are namespaces of "
                "one kernel, between which the lab loses and damages no frame, and has no jitter",
                hint="leave out all but delay, or give each node a kernel: --kernels own",
            )
        if its.pareto_ns and not timed_wires:
            raise InputError(
                f"the link of {port} has a delay, and on a real clock cables of cnc lab take no "
                "time",
                hint="run the lab in virtual time (scripts/vm --virtual-time), or leave out delay",
            )


def check_kernels(intent: Intent) -> None:
    """Refuse what a lab cannot emulate whose nodes are kernels of their own.

    Raises:
        InputError: a node has the name of the controller, or packets are longer than Ethernet's.
    """
    network = intent.network
    if CONTROLLER in (*network.bridges, *network.end_stations):
        raise InputError(
            f"{network.described(CONTROLLER)}: in a lab with a kernel for each node that is the "
            "name of the one from which switches are managed",
            hint="give the node another name",
        )
    if (longest := mtu_octets(intent)) > ORDINARY_MTU_OCTETS:
        raise InputError(
            f"packets of {longest} octets are longer than the {ORDINARY_MTU_OCTETS} that the cards "
            "of a lab with a kernel for each node carry",
            hint="use smaller payloads and a smaller max-frame of best effort, or one kernel",
        )


def check_streams(intent: Intent) -> None:
    """Refuse streams that the lab cannot forward as a network of switches would.

    Raises:
        InputError: a stream of a routed network is to be sent over two paths.
    """
    if intent.network.forwarding is Forwarding.BRIDGED:
        return
    for stream in intent.streams.values():
        if stream.paths > 1:
            raise InputError(
                f"stream {stream.name} asks for {stream.paths} paths, and cnc lab does not "
                "replicate frames yet",
                hint="to emulate it over one path, leave out its key paths; a lab whose switches "
                "bridge (`forwarding: bridged`) sends it over both",
            )


def check_ports(intent: Intent) -> None:
    """Refuse ports and bridges named as an interface that their node has beside them.

    Raises:
        InputError: a port or a bridge has such a name.
    """
    network = intent.network
    is_bridged = network.forwarding is Forwarding.BRIDGED
    for bridge in network.bridges.values() if is_bridged else ():
        if bridge.bridge_device in {"lo", SWITCH_PORT}:
            raise InputError(
                f"switch {bridge.name}: its bridge cannot be called {bridge.bridge_device}, a node "
                "of the lab has an interface of that name",
                hint="give the bridge another name",
            )
    for port in network.links:
        reserved = {"lo"}
        if port.node in network.managed:
            reserved.add(SWITCH_PORT)
        if is_bridged and port.node in network.bridges:
            reserved.add(network.bridges[port.node].bridge_device)
        if port.port in reserved:
            raise InputError(
                f"port {port}: a node of the lab has an interface {port.port} of its own",
                hint="give the port another name",
            )


def check_rates(intent: Intent) -> None:
    """Refuse streams over links whose rate the lab's gates cannot reckon with.

    Raises:
        InputError: a node with gates sends a stream over a link below 100 Mb/s or above 10 Gb/s.
    """
    for stream in intent.streams.values():
        for listener in stream.listeners:
            for link in _gated(intent, stream, listener):
                if not GATES_LEAST_BPS <= link.rate_bps <= GATES_MOST_BPS:
                    raise InputError(
                        f"stream {stream.name}: port {link.source} would need gates for a link of "
                        f"{rate(link.rate_bps)}, and those of cnc lab can reckon with "
                        f"{rate(GATES_LEAST_BPS)} to {rate(GATES_MOST_BPS)} only: the kernel "
                        "counts no frame for longer than 1 MiB at the 10 Gb/s of a veth",
                        hint="give the link another `rate`; without streams (`streams: {}`) the "
                        "lab carries any rate, and has no gates",
                    )


def _gated(intent: Intent, stream: Stream, listener: str) -> Iterator[Link]:
    """The gated links that a stream may take to a listener.

    In a routed lab they are those of its route (`lab.addressing`). In a bridged one the plan
    chooses: it may be any between two switches.
    """
    network = intent.network
    if network.forwarding is Forwarding.BRIDGED:
        ends = {*network.bridges, listener}
        starts = {*network.bridges, stream.talker}
        for each in network.links.values():
            node = each.source.node
            if node in starts and network.gate_mode(node) and each.target.node in ends:
                yield each
        return
    hops = next_hops(network, listener)
    node = stream.talker
    while node != listener and (link := hops.get(node)):
        if network.gate_mode(node):
            yield link
        node = link.target.node


def mtu_octets(intent: Intent) -> int:
    """The MTU of all ports of a lab: that of Ethernet, or what the longest packet of a stream or of
    best effort needs."""
    overhead_octets = intent.network.overhead.link_layer_octets
    best_effort = intent.classes_with(ClassRole.BEST_EFFORT)
    return max(
        ORDINARY_MTU_OCTETS,
        *(stream.payload_octets for stream in intent.streams.values()),
        *(each.max_frame_octets - overhead_octets for each in best_effort),
    )
