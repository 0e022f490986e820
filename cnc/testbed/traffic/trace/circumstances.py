"""What the account of a trace rests on beside the stamps: the network, and in which kind of lab."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from cnc.model import GateControlList, Link, Network, Plan, PortRef
from cnc.testbed.lab import wires
from cnc.testbed.lab.kernels import layout
from cnc.testbed.traffic.trace.clocks import Clocks, OneClock, OwnClocks

CLOCK_READ_NS = 256  # in virtual time, which stamps are multiples of
CONVERTED_NS = 10  # how far an instant by a node's clock may be off in true time: see `OwnClocks`


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What an account rests on beside the stamps.

    `gates` are the lists that were pushed. With `timed_wires` cables take their time, one frame
    after the other, and have the least processing of the switch behind them, which is counted as
    processing; `occupied_ns` is how long a frame of so many octets, from the MAC header on, is on
    one. `resolution_ns` is how much later than its stamp says a frame may have come to a port,
    `stamps_off_ns` how far a stamp of an end station may be from the passage of its port, and
    `durations_off_ns` by how much a duration may be off.
    """

    network: Network
    gates: Mapping[PortRef, GateControlList]
    timed_wires: bool
    occupied_ns: Callable[[Link, int], int]
    clocks: Clocks
    resolution_ns: int
    stamps_off_ns: int
    durations_off_ns: int


def of_one_kernel(plan: Plan, *, timed_wires: bool) -> Circumstances:
    """Those of a lab whose nodes are namespaces."""
    network = plan.intent.network
    return Circumstances(
        network=network,
        gates=plan.gates,
        timed_wires=timed_wires,
        occupied_ns=partial(wires.occupied_ns, network),
        clocks=OneClock(),
        resolution_ns=CLOCK_READ_NS,
        stamps_off_ns=0,
        durations_off_ns=0,
    )


def of_own_kernels(plan: Plan, clocks: OwnClocks) -> Circumstances:
    """Those of a lab with a kernel for each node, whose cables are tapped in true time."""
    return Circumstances(
        network=plan.intent.network,
        gates=plan.gates,
        timed_wires=True,
        occupied_ns=layout.occupied_ns,
        clocks=clocks,
        resolution_ns=CONVERTED_NS,
        # A clock that is being set is further off: then a stamp of it tells nothing.
        stamps_off_ns=CLOCK_READ_NS,
        durations_off_ns=CONVERTED_NS,
    )
