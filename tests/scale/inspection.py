"""What simulated switches run and hold, seen from beside the controller that is tested."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager

from agent.mechanisms.gates.model import GateSchedule, GateState
from cnc.model import GateControlList, GateEntry, PortRef, StoredGates
from cnc.switch.device import Device, DeviceError
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
            PortRef(name, port): gates.configuration.gates
            for name, device in self._sessions.items()
            for port, its in device.stored(PORTS).ports.items()
            if (gates := its[StoredGates]).configuration
        }

    def rollout_ids(self) -> set[str | None]:
        """The rollouts that the switches say they run; one where all is well."""
        rollout_ids = [device.rollout_id() for device in self._sessions.values()]
        return {rollout_id and rollout_id.id for rollout_id in rollout_ids}

    def held(self) -> str | None:
        """Who has a lock, a changed candidate or an unconfirmed commit; None: nobody has any.

        A candidate that differs from running cannot be locked, nor what a commit is pending for.
        """
        for name, device in self._sessions.items():
            try:
                device.lock("running")
                device.lock("candidate")
            except DeviceError as error:
                return str(error)
            finally:
                device.unlock()
            if (self._switches[name].chassis.directory / "netconfd/confirmed-commit.xml").exists():
                return f"{name}: a confirmed commit is kept for a restart"
        return None


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
        PortRef(switch.name, port): _gates(state[GateState].taprio.schedule)
        for switch in switches
        for port, state in switch.kernel.ports.items()
        if state[GateState].taprio
    }


def _gates(schedule: GateSchedule) -> GateControlList:
    entries = (GateEntry(each.gate_states, each.interval_ns) for each in schedule.entries)
    return GateControlList(schedule.cycle_time_ns, tuple(entries))
