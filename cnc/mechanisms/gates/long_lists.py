"""Gate control lists that a port may not take although no limit is known, and lists that hardly
ever begin a cycle together: what a plan warns of."""

from __future__ import annotations

from math import lcm

from cnc.model import PHASE_WAIT_MAX_NS, SOFTWARE_ENTRIES_MAX, Plan
from cnc.support.format import counted, duration

HINT = (
    "state the port's `gate-entries-max`, as its data sheet says, or plan with `--ask-switches`: "
    "the plan then keeps to it. Periods that divide one another, and none much shorter than the "
    "others, make lists shorter"
)
PHASE_HINT = "choose periods that divide one another, also for streams that meet at no port"
_MESSAGE_MAX_OCTETS = 4 << 20  # the default of max-message (yang/tsn-netconf-server.yang)


def phase_warning(plan: Plan) -> str | None:
    """What to say of lists that share no instant at which a push may start them all."""
    common_ns = lcm(*(gates.cycle_ns for gates in plan.gates.values()))
    if common_ns <= PHASE_WAIT_MAX_NS:
        return None
    return (
        f"a push starts all gate control lists at one instant, and their cycles share one only "
        f"every {duration(common_ns)}: it is refused unless the next is within "
        f"{duration(PHASE_WAIT_MAX_NS)}"
    )


def warning(plan: Plan) -> str | None:
    """What to say of the longest of those lists that the kernel takes and does not show; None if
    there is none."""
    from cnc.mechanisms.gates.tree import gate_table_octets  # noqa: PLC0415

    links = plan.intent.network.links
    long = {
        port: len(gates.entries)
        for port, gates in plan.gates.items()
        if len(gates.entries) > SOFTWARE_ENTRIES_MAX
        and port in links
        and plan.intent.network.gate_entries_max(links[port]) is None
    }
    if not long:
        return None
    port = max(long, key=lambda each: (long[each], each))
    others = f", {counted(len(long) - 1, 'other port')} a long one, too" if len(long) > 1 else ""
    octets = gate_table_octets(plan.gates[port])
    too_much = (
        ", more than tsn-netconfd takes in a message (max-message, 4.2 MB by default)"
        if octets > _MESSAGE_MAX_OCTETS
        else ""
    )
    return (
        f"port {port} has a gate control list of {long[port]:,} entries{others}, and no limit of "
        f"the port is known. Drivers whose limit is known take 64 to 256; of a list above "
        f"{SOFTWARE_ENTRIES_MAX} the kernel shows nothing, so that it cannot be read back; "
        f"and its part of the edit has {octets / 1e6:.1f} MB{too_much}"
    )
