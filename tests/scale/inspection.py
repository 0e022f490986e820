"""What simulated switches run and hold, seen from beside the controller that is tested."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager

from agent.model import Schedule
from cnc.model import GateControlList, GateEntry, PortRef
from cnc.netconf.device import Device
from tests.scale.line import PORTS
from tests.scale.simulation import Simulation, Switch

Lists = Mapping[PortRef, GateControlList]


class Inspector:
    """Sessions of its own with all switches; made by `inspector`."""

    def __init__(self, simulation: Simulation, sessions: Mapping[str, Device]) -> None:
        self._switches = simulation.switches
        self._sessions = sessions

    def lists(self) -> Lists:
        """What the running datastores have. Fails if a kernel has anything else on a port."""
        stored = self._stored_lists()
        assert kernel_lists(self._switches.values()) == stored
        return stored

    def lists_if_they_agree(self) -> Lists | None:
        """What the running datastores have; None while some kernel has something else."""
        stored = self._stored_lists()
        return stored if kernel_lists(self._switches.values()) == stored else None

    def _stored_lists(self) -> Lists:
        return {
            PortRef(name, port): its.configuration.gates
            for name, device in self._sessions.items()
            for port, its in device.stored(PORTS).ports.items()
            if its.configuration
        }

    def marks(self) -> set[str | None]:
        """The rollouts that the switches say they run; one where all is well."""
        marks = [device.mark() for device in self._sessions.values()]
        return {mark and mark.id for mark in marks}

    def nothing_is_held(self) -> bool:
        """Whether nobody holds a lock, and no candidate or confirmed commit waits for anybody.

        Raises DeviceError naming who has the lock. A candidate that differs cannot be locked.
        """
        for device in self._sessions.values():
            device.lock("running")
            device.lock("candidate")
            device.unlock()
        return not any(
            (switch.chassis.directory / "netconfd/confirmed-commit.xml").exists()
            for switch in self._switches.values()
        )


@contextmanager
def inspector(simulation: Simulation) -> Iterator[Inspector]:
    """Look at the switches during a `with` block."""
    intent = simulation.intent()
    with ExitStack() as stack:
        sessions = {
            name: stack.enter_context(Device(bridge, simulation.connect))
            for name, bridge in intent.network.bridges.items()
        }
        yield Inspector(simulation, sessions)


def kernel_lists(switches: Iterable[Switch]) -> Lists:
    """The newest list on every port that has one, running or waiting for its base time."""
    return {
        PortRef(switch.name, port): _gates(state.taprio.schedule)
        for switch in switches
        for port, state in switch.kernel.ports.items()
        if state.taprio
    }


def _gates(schedule: Schedule) -> GateControlList:
    entries = (GateEntry(each.gate_states, each.interval_ns) for each in schedule.entries)
    return GateControlList(schedule.cycle_time_ns, tuple(entries))
