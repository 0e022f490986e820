"""Times of transmission at a port with gates.

taprio refuses a frame unless its time of transmission, and the end of the frame if it began then,
lie within one entry of the gate control list that is open for its class, and not at its begin,
whatever entry comes next (find_entry_to_transmit in net/sched/sch_taprio.c, Linux 6.12). An entry
holds each planned frame from its instant on: so the times are whole cycles later than the instants,
and 1 ns, since the first entry of a list begins with the cycle, where a frame may be planned, too.
"""

from __future__ import annotations

from collections.abc import Mapping

from cnc.mechanisms.launch_time.model import DELTA_MAX_NS, LaunchMode, LaunchTimes, StationLaunch
from cnc.model import GateControlList, Plan, PortRef
from cnc.model.transmissions import Transmission, transmissions
from cnc.support.format import duration

_AFTER_BEGIN_NS = 1


def delta_ns(launch: StationLaunch, gates: GateControlList | None) -> int:
    """The delta of a port with or without a list, no less than what is stated of its station."""
    if gates is None or launch.mode is LaunchMode.HARDWARE:
        return launch.delta_ns
    cycles = -(-(launch.delta_ns - _AFTER_BEGIN_NS) // gates.cycle_ns)
    return max(1, cycles) * gates.cycle_ns + _AFTER_BEGIN_NS


def refused(plan: Plan) -> Mapping[str, str]:
    """By end station why gates would refuse frames with a time of transmission."""
    found = {}
    stations = plan.intent[LaunchTimes].stations
    for sent in transmissions(plan) if stations else ():
        port = PortRef(sent.talker, sent.interface)
        gates, launch = plan.gates.get(port), stations.get(sent.talker)
        if gates and launch and (text := _obstacle(plan, port, sent, launch, gates)):
            found[sent.talker] = f"launch-time beside gates: {text}"
    return found


def _obstacle(
    plan: Plan, port: PortRef, sent: Transmission, launch: StationLaunch, gates: GateControlList
) -> str | None:
    least_ns = delta_ns(launch, gates)
    if least_ns > DELTA_MAX_NS:
        return (
            f"a delta of whole cycles of {port} is {least_ns} ns, and the kernel takes "
            f"{DELTA_MAX_NS} at most; state no `gates` of the station"
        )
    if not _is_within_an_entry(plan, port, sent, launch, gates):
        return (
            f"a frame of {sent.stream} that leaves at {duration(sent.offset_ns)} is not within one "
            f"entry of the list of {port}, where the kernel refuses it; state a `window` of the "
            "stream with an `earliest`, or no `gates` of the station"
        )
    return None


def _is_within_an_entry(
    plan: Plan, port: PortRef, sent: Transmission, launch: StationLaunch, gates: GateControlList
) -> bool:
    network = plan.intent.network
    late_ns = 0 if launch.mode is LaunchMode.HARDWARE else _AFTER_BEGIN_NS
    takes_ns = network.occupation_max_ns(network.links[port], sent.payload_octets)
    return all(
        _holds(gates, (sent.offset_ns + period_ns + late_ns) % gates.cycle_ns, takes_ns)
        for period_ns in range(0, gates.cycle_ns, sent.period_ns)
    )


def _holds(gates: GateControlList, begin_ns: int, takes_ns: int) -> bool:
    entry_ns = 0
    for entry in gates.entries:
        if entry_ns < begin_ns and begin_ns + takes_ns <= entry_ns + entry.interval_ns:
            return True
        entry_ns += entry.interval_ns
    return False
