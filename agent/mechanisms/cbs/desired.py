"""The idle slopes of a bridge port (`ieee802-dot1q-cbsa-bridge`): read from the configuration, and
reported. Pure.

The kernel is told four figures of a class (tc-cbs(8)): the idle slope, the send slope, which is
that less the rate of the link, and how high and how low the credit may be. It is as high as a class
gets while the longest ordinary frame of another one is sent, and as low as the longest frame of the
port makes it; a lower bound that is nearer would let the class send more than its idle slope.
"""

from __future__ import annotations

from agent.mechanism import BRIDGE_PORT, TAPRIO, Node, Refused, ReportContext, Tree
from agent.mechanisms.cbs.model import CBS, SLOPE_UNIT_BPS, CreditQdisc, Shapers
from agent.model import PortState
from agent.traffic_classes import traffic_classes

CBSA = "ieee802-dot1q-cbsa-bridge:cbsa"
TABLE = "cbsa-parameter-table"

_ORDINARY_MTU_OCTETS = 1_500
_AROUND_OCTETS = 42  # MAC header with VLAN tag, frame check sequence, preamble and gap
_DOWN_FACTOR = 10  # of the slope is the rate of a link that is not there


def configured(interface: Tree, state: PortState | None) -> Shapers:
    """A cbs for the transmit queue of each class with an idle slope; raises `Refused`."""
    bridge_port = interface.get(BRIDGE_PORT, {})
    rows = bridge_port.get(CBSA, {}).get(TABLE, [])
    asked = {row["traffic-class"]: int(row.get("admin-idle-slope", 0)) for row in rows}
    asked = {traffic_class: slope for traffic_class, slope in asked.items() if slope}
    if not asked or state is None:
        return Shapers()
    classes = traffic_classes(bridge_port).queues
    found = []
    for traffic_class, slope_bps in sorted(asked.items()):
        where = f"{TABLE}: traffic class {traffic_class}"
        if traffic_class >= len(classes):
            raise Refused(f"{where}: the port has {len(classes)} (0..{len(classes) - 1})")
        if (its := classes[traffic_class]).count != 1:
            raise Refused(
                f"{where} has {its.count} transmit queues, and each would send at the idle slope; "
                "give the class one queue (taprio/queue)"
            )
        if slope_bps % SLOPE_UNIT_BPS:
            raise Refused(f"{where}: the kernel counts an idle slope in kbit/s, not {slope_bps}")
        if state.link_speed_bps is not None and slope_bps >= state.link_speed_bps:
            raise Refused(
                f"{where}: its idle slope of {slope_bps} bit/s is not less than the rate of the "
                f"link, {state.link_speed_bps} bit/s"
            )
        found.append(credit(its.offset, traffic_class, slope_bps, state))
    return Shapers(tuple(sorted(found, key=lambda each: each.queue)))


def credit(queue: int, traffic_class: int, slope_bps: int, state: PortState) -> CreditQdisc:
    """The qdisc of a class; its options are those of `agent.kernel.sched_cbs`. Rates are those of
    the link, also where that is emulated: the kernel reckons with the time of a frame."""
    rate_bps = state.link_speed_bps or slope_bps * _DOWN_FACTOR
    longest = max(state.mtu_octets or 0, _ORDINARY_MTU_OCTETS) + _AROUND_OCTETS
    highest = (_ORDINARY_MTU_OCTETS + _AROUND_OCTETS) * slope_bps
    options = (
        ("offload", 0),
        ("hicredit", -(-highest // rate_bps)),
        ("locredit", -longest),
        ("idleslope", slope_bps // SLOPE_UNIT_BPS),
        ("sendslope", (slope_bps - rate_bps) // SLOPE_UNIT_BPS),
    )
    return CreditQdisc(queue, CBS, options, traffic_class)


def operational(state: PortState, _context: ReportContext) -> Node:
    """What the kernel has, by traffic class; the idle slopes in the standard's table, too."""
    shown = sorted(state[Shapers].queues, key=lambda each: each.traffic_class)
    if not shown:
        return {}
    rows = [
        {"traffic-class": its.traffic_class, "oper-idle-slope": str(its.idle_slope_bps)}
        for its in shown
    ]
    kernel = {"credit-based-shaper": [_in_kernel(its) for its in shown]}
    return {BRIDGE_PORT: {CBSA: {TABLE: rows}, TAPRIO: {"kernel": kernel}}}


def _in_kernel(its: CreditQdisc) -> Node:
    options = dict(its.options)
    return {
        "traffic-class": its.traffic_class,
        "idle-slope": str(its.idle_slope_bps),
        "send-slope": str(options["sendslope"] * SLOPE_UNIT_BPS),
        "highest-credit": options["hicredit"],
        "lowest-credit": options["locredit"],
    }
