"""What the kernel of a switch runs after a commit, before the change is confirmed."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from cnc.data_tree.state import SwitchState
from cnc.mechanisms.composition import is_bridge
from cnc.model import NS_PER_S, PortSettings
from cnc.rollout.compare import difference_of, pends
from cnc.rollout.timing import Deadlines
from cnc.switch.device import Device, DeviceError

# Between two reads of a list that is about to start, and how long it may be late.
START_POLL_S = 0.02
START_LATE_MAX_NS = 1 * NS_PER_S


def read_back(
    device: Device,
    desired_ports: Mapping[str, PortSettings],
    deadlines: Deadlines,
    least_tai_ns: Callable[[], int],
) -> SwitchState:
    """The state of a switch that does what was committed: of a change at once, that runs it.

    `least_tai_ns` is the lower bound of the clocks of all switches now. Raises DeviceError.
    """
    state = device.state(desired_ports)
    while deadlines.runs_ns is not None and (port := _waiting(desired_ports, state)):
        late_ns = least_tai_ns() - deadlines.runs_ns
        if late_ns > START_LATE_MAX_NS:
            raise DeviceError(
                device.name,
                f"the list of {port} does not run {late_ns / NS_PER_S:.3f} s after it was to start",
                hint=f"`cnc doctor` compares the clock of {device.name} with those of others",
            )
        clock = state.tai_minus_monotonic_ns()
        left_ns = deadlines.runs_ns - time.monotonic_ns() - clock[0] if clock else 0
        time.sleep(max(START_POLL_S, left_ns / NS_PER_S))
        state = device.state(desired_ports)
    for port, desired in desired_ports.items():
        report = state.ports.get(port)
        if difference := difference_of(desired, report, deadlines.base_time_ns):
            raise DeviceError(
                device.name,
                f"{kind(desired)} {port} does not run what was committed: {difference}",
                hint=_where_to_look(device),
            )
    return state


def _where_to_look(device: Device) -> str:
    if device.profile:
        return f"the log of {device.name} may have the reason; is its profile right?"
    return f"see the journal of tsn-agent on {device.name} for the kernel's reason"


def _waiting(desired_ports: Mapping[str, PortSettings], state: SwitchState) -> str | None:
    """A port on which something waits for its base time."""
    ports = desired_ports.items()
    return next((port for port, its in ports if pends(its, state.ports.get(port))), None)


def kind(settings: PortSettings) -> str:
    """What to call a place in messages."""
    return "bridge" if is_bridge(settings) else "port"
