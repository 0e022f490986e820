"""`launch-time` of an interface (`tsn-end-station.yang`): read from the configuration, and
reported. Pure."""

from __future__ import annotations

import time

from agent.kernel.sched_etf import OFFLOAD
from agent.mechanism import BRIDGE_PORT, Node, Refused, ReportContext, Tree
from agent.mechanisms.launch_time.model import ETF, Discarded, LaunchMode, LaunchTime
from agent.model import PortState
from agent.root_qdisc import ChildQdisc
from agent.traffic_classes import traffic_classes

LAUNCH_TIME = "tsn-end-station:launch-time"
BEST_EFFORT = 0  # the priority of frames whose program states none


def configured(interface: Tree, _state: PortState | None) -> LaunchTime:
    """An etf for each transmit queue of the priorities; raises `Refused` where frames without a
    time of transmission, which etf discards, have the same queue."""
    asked = interface.get(LAUNCH_TIME)
    if not asked:
        return LaunchTime()
    classes = traffic_classes(interface.get(BRIDGE_PORT, {}))
    of_best_effort = classes.priority_map[BEST_EFFORT]
    queues: dict[int, ChildQdisc] = {}
    for priority in sorted(asked["priority"]):
        if classes.priority_map[priority] == of_best_effort:
            raise Refused(
                f"launch-time: priority {priority} has traffic class {of_best_effort}, which is "
                f"that of priority {BEST_EFFORT}, too: frames without a time of transmission "
                "would be discarded; give it a class of its own (traffic-class-table)"
            )
        for queue in classes.queues_of(priority):
            queues[queue] = etf(queue, LaunchMode(asked["mode"]), int(asked["delta-ns"]))
    return LaunchTime(classes, tuple(queues[queue] for queue in sorted(queues)))


def etf(queue: int, mode: LaunchMode, delta_ns: int) -> ChildQdisc:
    """The qdisc of a transmit queue; its options are those of `agent.kernel.sched_etf`."""
    flags = OFFLOAD if mode is LaunchMode.HARDWARE else 0
    options = (("clockid", time.CLOCK_TAI), ("delta_ns", delta_ns), ("flags", flags))
    return ChildQdisc(queue, ETF, options)


def operational(state: PortState, _context: ReportContext) -> Node:
    """What the kernel has for each priority."""
    discarded = state[Discarded].frames
    rows = [
        {
            "priority": priority,
            "mode": str(mode_of(its)),
            "delta-ns": dict(its.options)["delta_ns"],
            "discarded-frames": str(discarded.get(its.queue, 0)),
        }
        for priority, its in state[LaunchTime].by_priority.items()
    ]
    return {LAUNCH_TIME: {"kernel": rows}} if rows else {}


def mode_of(its: ChildQdisc) -> LaunchMode:
    """What keeps to the time of transmission of frames of this queue."""
    flags = dict(its.options)["flags"]
    return LaunchMode.HARDWARE if flags & OFFLOAD else LaunchMode.SOFTWARE
