"""What a mechanism is: one way in which the kernel treats frames, as a unit of its own.

It is a folder in `agent.mechanisms` and a line in its `MECHANISMS`, and knows no other mechanism.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pyroute2 import IPRoute

from agent.composition import Change, Contribution, KernelObject
from agent.events import Event
from agent.model import Clock, PortConfig, PortState, PtpStatus
from agent.wake_ups import WakeUps

# Nodes under an interface below which several mechanisms are configured and reported.
BRIDGE_PORT = "ieee802-dot1q-bridge:bridge-port"
TAPRIO = "tsn-linux:taprio"
# The split of the priority code points (IEEE Std 802.1Q-2022, table 6-2) without drop eligibility,
# which Linux does not have.
EIGHT_PRIORITIES = "8P0D"
# What is configured of the bridge that has the name of the interface.
BRIDGE = "ieee802-dot1q-bridge:bridge"
BRIDGES = "ieee802-dot1q-bridge:bridges"
# The entries of the Stream identity table (IEEE Std 802.1CB-2017, 9.1) that name the interface.
STREAM_IDENTITY = "ieee802-dot1cb-stream-identification:stream-identity"
# What the tables of replication and elimination (IEEE Std 802.1CB-2017, 10.3 to 10.5) say of the
# interface.
FRER = "ieee802-dot1cb-frer:frer"

# The instances of PTP (IEEE Std 1588-2019, clause 8) that the interface is a port of: for each the
# instance and the port.
PTP = "ieee1588-ptp-tt:ptp"

# The paths and settings of multipath TCP (tsn-multipath), with the path of the interface as `path`,
# and all of them as its child `PATHS`.
MULTIPATH = "tsn-multipath:multipath"
PATHS = "paths"

# All entries of that table, where the interface is a bridge.
STREAM_IDENTITIES = "stream-identities"

Tree = Mapping[str, Any]
Node = dict[str, Any]
Contributions = Iterable[tuple[KernelObject, Contribution]]
Replace = Callable[[KernelObject, Sequence[Contribution], Sequence[Contribution]], None]


class Refused(Exception):
    """The one reason why the configuration of a port cannot be taken; the caller names the port."""


@dataclass(frozen=True, slots=True)
class ReportContext:
    """What operational leaves are computed from, beside the state of the port.

    `memory` is what the agent remembers of the port (`GateHistory`), None where it has nothing.
    `on_interfaces`: the module with the gate table directly under the interface is installed.
    `wake_ups` is how late the kernel's timers woke up, None where that is not measured.
    """

    now_ns: Callable[[Clock], int]
    memory: Any = None
    on_interfaces: bool = False
    wake_ups: WakeUps | None = None


class Observation(NamedTuple):
    """What is to be told, and when to look again by `Clock.MONOTONIC`; None: nothing is due."""

    events: tuple[Event, ...] = ()
    next_ns: int | None = None


class KernelAdapter:
    """The kernel side of a mechanism; what it raises beside `AgentError` is an `OSError`.

    `objects` are the kinds of kernel objects that it replaces. When the kernel refuses, the object
    must be as before.
    """

    objects: Mapping[type[KernelObject], Replace]

    def read(self, states: Mapping[str, PortState]) -> dict[str, PortState]:
        """The states, with the part of this mechanism as the kernel shows it now."""
        raise NotImplementedError

    def capability(self) -> str | None:
        """None, or why this kernel cannot run the mechanism at all."""
        return None

    def problems(self, config: PortConfig) -> Iterator[str]:  # noqa: ARG002
        """Why this kernel cannot do what a port is asked, whatever the port; one line each."""
        yield from ()

    def observe(self, now_ns: int) -> Observation:  # noqa: ARG002
        """What has become of frames, where nothing else tells it (`Clock.MONOTONIC`)."""
        return Observation()

    def repairs(self) -> Iterator[Change]:
        """Changes for what the newest `read` found disturbed but no state of a port can show."""
        yield from ()

    def restart(
        self,
        states: Sequence[PortState],  # noqa: ARG002
        present: Mapping[KernelObject, Sequence[Contribution]],  # noqa: ARG002
    ) -> Mapping[str, str]:
        """Start again what stands still on these ports; the kernel's reason by port if refused."""
        return {}

    def leaves(self) -> Node:
        """What the mechanism fills of `/tsn-linux:agent`."""
        return {}

    def ptp_status(self) -> PtpStatus | None:
        """What a PTP daemon says that the mechanism runs; None where it runs none."""
        return None

    def unsettled(self, clock_error_ns: int) -> str | None:  # noqa: ARG002
        """What the clock lacks to run a plan that allows two clocks to differ by so much.

        None: it counts as settled, or the mechanism knows nothing of clocks.
        """
        return None

    def close(self) -> None:
        """Give back what it has opened for itself."""


@dataclass(frozen=True, slots=True)
class MemoryAdapter:
    """The mechanism on a port that is kept in memory. Pure functions.

    `applied` returns the state with these contents of the mechanism's contributions (none: it has
    ended), or raises `AgentError` as the kernel would; `at` what has become of a state by now.
    """

    applied: Callable[[PortState, Sequence[Any], Callable[[Clock], int]], PortState]
    at: Callable[[PortState, Callable[[Clock], int]], PortState] = field(
        default=lambda state, _now_ns: state
    )


@dataclass(frozen=True, slots=True)
class ByClock:
    """What a mechanism does at instants that it is told: by a wrong clock it does harm. Pure
    functions.

    `asked` returns that of a configuration, what is false where there is nothing; `is_in_force`
    whether a port does such things now; `without` the part of PortConfig that leaves them out.
    """

    asked: Callable[[PortConfig], object]
    is_in_force: Callable[[PortState], bool]
    without: Callable[[PortConfig], object]


@dataclass(frozen=True, slots=True)
class Mechanism:
    """The functions of one mechanism. All but `kernel` are pure.

    A port's part of the configuration and of the state are types of the mechanism's own, read with
    `config[Type]` and `state[Type]`.
    """

    name: str
    # The nodes under an interface that say that the mechanism is configured there; `BRIDGE`,
    # `STREAM_IDENTITY`, `FRER`, `PTP` and `MULTIPATH`, too.
    subtrees: tuple[str, ...]
    # The interface's configuration → the part of PortConfig; raises `Refused`. What is configured
    # of the bridge that has the name of the interface is its child `BRIDGE`, and what names it in
    # the Stream identity table its child `STREAM_IDENTITY`, in those of frame replication `FRER`; a
    # bridge has the whole Stream identity table as its child `STREAM_IDENTITIES`.
    configured: Callable[[Tree, PortState | None], object]
    # The part of PortConfig that asks for what the port does already.
    as_is: Callable[[PortState], object]
    # What the port has in kernel objects now.
    contributions: Callable[[PortState], Contributions]
    # The changes from the state to the configuration; none where they agree.
    diff: Callable[[PortConfig, PortState], Iterable[Change]]
    # Why the port cannot do what is asked, one line each, without its name.
    problems: Callable[[PortConfig, PortState], Iterable[str]]
    # The nodes that it fills under the interface in the operational datastore.
    operational: Callable[[PortState, ReportContext], Node]
    memory: MemoryAdapter
    kernel: Callable[[IPRoute], KernelAdapter]
    # What it does by the clock, and what therefore waits when a switch boots; None: nothing.
    by_clock: ByClock | None = None
    # The nodes that it fills under the component of a bridge in the operational datastore.
    operational_of_bridge: Callable[[PortState], Node] = lambda _state: {}
    # The top-level nodes that it fills in the operational datastore, from all ports.
    operational_of_switch: Callable[[Iterable[PortState]], Node] = lambda _states: {}


def present_objects(
    mechanisms: Collection[Mechanism], states: Iterable[PortState]
) -> dict[KernelObject, list[Contribution]]:
    """What these ports have in kernel objects now, of all mechanisms."""
    by_target: dict[KernelObject, list[Contribution]] = {}
    for state in states:
        for mechanism in mechanisms:
            for target, contribution in mechanism.contributions(state):
                by_target.setdefault(target, []).append(contribution)
    return by_target
