"""What the kernel shows of taprio: schedules, frame size limits and counters, from its dump."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pyroute2 import IPRoute
from pyroute2.netlink.rtnl import TC_H_ROOT

from agent.kernel.clock import CLOCK_IDS
from agent.kernel.sched_taprio import SizeTable, size_table
from agent.mechanisms.gates import frame_lengths, taprio
from agent.mechanisms.gates.model import ClassCounters, GateEntry, GateSchedule, Taprio, TaprioMode
from agent.mechanisms.gates.openings import binding_max_sdu_octets
from agent.model import AgentError, Clock, EmulatedLink
from agent.root_qdisc import HANDLE
from agent.traffic_classes import QueueRange

_MODES = {flags: mode for mode, flags in taprio.FLAGS.items()}
_CLOCKS = {clock_id: clock for clock, clock_id in CLOCK_IDS.items()}
_OPERATIONS = {command: operation for operation, command in taprio.COMMANDS.items()}


@dataclass(frozen=True, slots=True)
class DumpedQdisc:
    """`taprio` is set when the qdisc is ours; `foreign` names one that the agent did not set.

    `drops` are frames that ours discarded, those longer than their class's limit among them, which
    the kernel counts for the port alone.
    """

    kind: str
    foreign: str | None
    taprio: Taprio | None = None
    running: GateSchedule | None = None
    pending: GateSchedule | None = None
    counters: tuple[ClassCounters, ...] = ()
    drops: int = 0


@dataclass(frozen=True, slots=True)
class _Queue:
    """What one transmit queue counted, and how many frames wait in it."""

    frames: int
    octets: int
    drops: int
    backlog_frames: int


@dataclass(frozen=True, slots=True)
class LinkSpeed:
    """What is known of a link beside its qdisc (`PortState`)."""

    speed_bps: int | None = None
    emulated: EmulatedLink | None = None


def read(
    ipr: IPRoute, now_ns: Callable[[Clock], int], links: Mapping[int, LinkSpeed]
) -> dict[int, DumpedQdisc]:
    """The root qdisc of every interface that has one, by interface index; so are the `links`.

    `ipr` must have received something before: the kernel begins a dump with a single page until it
    has seen that its reader has a larger buffer, and ends it where a qdisc does not fit
    (netlink_dump, tc_dump_qdisc).
    """
    roots = []
    queues: dict[int, dict[int, Any]] = {}
    for message in ipr.get_qdiscs():
        if message["parent"] == TC_H_ROOT:
            roots.append(message)
        elif message["parent"] & 0xFFFF_0000 == HANDLE:
            queue = (message["parent"] & 0xFFFF) - 1
            queues.setdefault(message["index"], {})[queue] = message
    return {
        root["index"]: _root_qdisc(
            ipr, root, queues.get(root["index"], {}), now_ns, links.get(root["index"], LinkSpeed())
        )
        for root in roots
    }


def _root_qdisc(
    ipr: IPRoute,
    message: Any,
    queues: Mapping[int, Any],
    now_ns: Callable[[Clock], int],
    link: LinkSpeed,
) -> DumpedQdisc:
    kind, handle = message.get("TCA_KIND"), message["handle"]
    if handle == 0:  # the kernel's own default, which gives way to any other
        return DumpedQdisc(kind, None)
    if (kind, handle) == ("mqprio", HANDLE):  # above children of a port without gates
        return DumpedQdisc(kind, None)
    if kind != "taprio" or handle != HANDLE:
        return DumpedQdisc(kind, f"{kind} {handle >> 16:x}:")
    options = message.get("TCA_OPTIONS")
    admin = options.get("TCA_TAPRIO_ATTR_ADMIN_SCHED")
    running, pending = _schedule(options), _schedule(admin) if admin else None
    newest = pending or running
    if newest is None:
        raise AgentError(f"interface {message['index']}: the kernel shows taprio without schedule")
    lengths = frame_lengths.emulated_by(_size_table(message), link.emulated)
    shown = replace(_taprio(options, running or newest, newest, link.speed_bps), emulated=lengths)
    if running and not pending and running.base_time_ns > now_ns(shown.clock):
        # With offload the kernel hands the list to the hardware and shows it as running at once.
        running, pending = None, running
    hardware = {}
    if shown.mode is TaprioMode.FULL_OFFLOAD:
        hardware = _hardware_counts(ipr, message["index"])
    counters = _class_counters(shown, queues, hardware)
    drops = _stats2(message, "TCA_STATS_QUEUE")["drops"] + sum(each.drops for each in counters)
    return DumpedQdisc(kind, None, shown, running, pending, counters, drops)


def _taprio(
    options: Any, limited: GateSchedule, newest: GateSchedule, speed_bps: int | None
) -> Taprio:
    """`limited` is the schedule whose frame size limits the dump holds: the running one's."""
    qopt = options.get("TCA_TAPRIO_ATTR_PRIOMAP")
    classes = qopt["num_tc"]
    max_sdu_octets = {
        entry.get("TCA_TAPRIO_TC_ENTRY_INDEX"): entry.get("TCA_TAPRIO_TC_ENTRY_MAX_SDU") or 0
        for entry in options.get_attrs("TCA_TAPRIO_ATTR_TC_ENTRY")
    }
    shown = tuple(max_sdu_octets.get(traffic_class, 0) for traffic_class in range(classes))
    return Taprio(
        priority_map=tuple(qopt["prio_tc_map"]),
        queues=tuple(
            QueueRange(count, offset)
            for count, offset in zip(qopt["count"][:classes], qopt["offset"][:classes], strict=True)
        ),
        mode=_MODES[options.get("TCA_TAPRIO_ATTR_FLAGS", 0)],
        clock=_CLOCKS[options.get("TCA_TAPRIO_ATTR_SCHED_CLOCKID", CLOCK_IDS[Clock.TAI])],
        schedule=newest,
        max_sdu_octets=binding_max_sdu_octets(shown, limited, speed_bps),
    )


def _size_table(message: Any) -> SizeTable | None:
    shown = message.get("TCA_STAB")  # pyroute2 writes each octet as two hexadecimal digits
    return size_table(bytes.fromhex(shown.replace(":", ""))) if shown else None


def _schedule(options: Any) -> GateSchedule | None:
    entries = options.get("TCA_TAPRIO_ATTR_SCHED_ENTRY_LIST")
    if entries is None:
        return None
    return GateSchedule(
        base_time_ns=options.get("TCA_TAPRIO_ATTR_SCHED_BASE_TIME"),
        cycle_time_ns=options.get("TCA_TAPRIO_ATTR_SCHED_CYCLE_TIME"),
        entries=tuple(
            GateEntry(gate_mask, interval_ns, _OPERATIONS[command])
            for gate_mask, interval_ns, command in entries
        ),
    )


def _class_counters(
    shown: Taprio, queues: Mapping[int, Any], hardware: Mapping[int, Any]
) -> tuple[ClassCounters, ...]:
    """The sums over each class's transmit queues, each of which has a qdisc of its own."""
    counted = {queue: _queue(message, shown) for queue, message in queues.items()}
    return tuple(
        ClassCounters(
            frames=sum(each.frames for each in own),
            octets=sum(each.octets for each in own),
            drops=sum(each.drops for each in own),
            tx_overruns=_sum(hardware, numbers, "TCA_TAPRIO_OFFLOAD_STATS_TX_OVERRUNS"),
            window_drops=_sum(hardware, numbers, "TCA_TAPRIO_OFFLOAD_STATS_WINDOW_DROPS"),
            backlog_frames=sum(each.backlog_frames for each in own),
        )
        for numbers in (range(each.offset, each.offset + each.count) for each in shown.queues)
        for own in [[counted[number] for number in numbers if number in counted]]
    )


def _queue(message: Any, shown: Taprio) -> _Queue:
    """Through a software taprio frames count with what its size table makes of them; not here."""
    basic = _stats2(message, "TCA_STATS_BASIC")
    frames, octets = basic["packets"], basic["bytes"]
    if shown.mode is TaprioMode.SOFTWARE:
        octets = frame_lengths.wire_octets(octets, frames, shown.emulated)
    waiting = _stats2(message, "TCA_STATS_QUEUE")
    return _Queue(frames, octets, waiting["drops"], waiting["qlen"])


def _stats2(message: Any, attribute: str) -> Any:
    return message.get("TCA_STATS2").get(attribute)


def _hardware_counts(ipr: IPRoute, ifindex: int) -> dict[int, Any]:
    """What the driver counts of each transmit queue; a driver need not."""
    counts = {}
    for message in ipr.get_classes(ifindex):
        if message["handle"] & 0xFFFF_0000 == HANDLE:
            app = _stats2(message, "TCA_STATS_APP")
            if app is not None:
                counts[(message["handle"] & 0xFFFF) - 1] = app
    return counts


def _sum(hardware: Mapping[int, Any], numbers: Iterable[int], attribute: str) -> int | None:
    values = [hardware[number].get(attribute) for number in numbers if number in hardware]
    known = [value for value in values if value is not None]
    return sum(known) if known else None
