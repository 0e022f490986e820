"""What is known of the switches now, as documents: by the last look of the watch at each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from cnc.data_tree.tree import GatesReport, PtpReport
from cnc.mechanisms.registry import WATCHED
from cnc.model import Plan, PortRef
from cnc.rollout.compare import told_at
from cnc.rollout.stream_counts import Look, bridges_of, compared
from cnc.watch.condition import Condition, Event
from cnc.watch.observation import Poll
from cnc.watch.observer import Snapshot


def live(now: Snapshot | None, plan: Plan) -> dict[str, Any]:
    """Document `live`: switches and their clocks, ports, and the conditions of `cnc watch`.

    {"clock_error_ns", "unfinished": rollouts that wait for an operator,
     "switches": [{"name", "answers", "agent": it runs, "clock_offset_ns": from the median, by
                   NETCONF, "tai_offset_s", "ptp": {"locked", "is_grandmaster", "grandmaster",
                   "offset_ns": from its time transmitter} or null}, ...]
     "ports": [{"port", "agrees": with the plan, null: not known, "link",
                "told": [text, ...] by mechanisms, such as the connections there}, ...]
     "conditions": [{"kind", "switch", "port", "text", "since"}, ...]   null: all of the network
     "watched": false while nothing is known, and these lists are empty}
    """
    network = plan.intent.network
    if now is None:
        known = {"watched": False, "unfinished": 0, "switches": [], "ports": [], "conditions": []}
        return {**known, "clock_error_ns": network.clock_error_ns}
    return {
        "watched": True,
        "clock_error_ns": network.clock_error_ns,
        "unfinished": now.unresolved,
        "switches": [_switch(name, now) for name in sorted(network.managed)],
        "ports": [
            _port(port, now)
            for port in sorted(network.links, key=str)
            if port.node in network.managed
        ],
        "conditions": [_condition(each) for each in now.conditions],
    }


def counters(now: Snapshot, plan: Plan, stream: str) -> dict[str, Any]:
    """What is counted on the way of a stream that has a place.

    {"ports": [{"port", "class", "sent", "waiting", "dropped", "overruns"}, ...]   frames of its
     class since the gates of the port were set; null: not known
     "streams": [text, ...]     what switches count of its frames alone
    """
    number = plan.class_of(stream).number
    ports = dict.fromkeys(hop.egress for hop in plan.streams[stream].hops)
    return {
        "ports": [
            {
                "port": str(port),
                "class": plan.class_of(stream).name,
                **_counted(port, number, now.polls.get(port.node)),
            }
            for port in ports
        ],
        "streams": [*_of_stream(now, stream, {port.node for port in ports})],
    }


def _switch(name: str, now: Snapshot) -> dict[str, Any]:
    poll, offset = now.polls.get(name), now.clocks.get(name)
    agent = poll.state.agent if poll else None
    return {
        "name": name,
        "answers": poll is not None,
        "agent": agent is not None,
        "clock_offset_ns": offset.estimate_ns if offset else None,
        "tai_offset_s": agent.tai_offset_s if agent else None,
        "ptp": _ptp(agent.ptp) if agent and agent.ptp else None,
    }


def _ptp(its: PtpReport) -> dict[str, Any]:
    return {
        "locked": its.is_locked,
        "is_grandmaster": its.is_grandmaster,
        "grandmaster": its.grandmaster,
        "offset_ns": None if its.is_grandmaster else its.offset_from_master_ns,
    }


def _port(port: PortRef, now: Snapshot) -> dict[str, Any]:
    poll = now.polls.get(port.node)
    report = poll.state.ports.get(port.port) if poll and poll.state.agent else None
    desired = now.desired.get(port.node, {}).get(port.port)
    return {
        "port": str(port),
        "agrees": None if report is None else port not in now.drifted,
        "link": report.oper_status if report else None,
        "told": told_at(desired, report) if desired and report else [],
    }


def _condition(its: Condition) -> dict[str, Any]:
    return {
        "kind": str(its.kind),
        "switch": its.switch or None,
        "port": its.port or None,
        "text": its.text,
        "since": its.since.isoformat(),
    }


def notice(its: Event) -> dict[str, Any]:
    """A momentary event: {"kind", "switch", "port", "text", "at"}, as a condition."""
    return {
        "kind": str(its.kind),
        "switch": its.switch or None,
        "port": its.port or None,
        "text": its.text,
        "at": its.at.isoformat(),
    }


def _counted(port: PortRef, number: int, poll: Poll | None) -> Mapping[str, int | None]:
    report = poll.state.ports.get(port.port) if poll else None
    counted = poll.counters.get(port.port) if poll else None
    traffic = report[GatesReport].traffic.get(number) if report else None
    return {
        "sent": traffic.sent_frames if traffic else None,
        "waiting": traffic.backlog_frames if traffic else None,
        "dropped": counted.drops.get(number) if counted else None,
        "overruns": counted.overruns.get(number) if counted else None,
    }


def _of_stream(now: Snapshot, stream: str, nodes: set[str]) -> Iterator[str]:
    """The rows of `cnc status` about a stream, in words."""
    for node in sorted(nodes & now.desired.keys()):
        if not (poll := now.polls.get(node)):
            continue
        look = Look(poll.state, poll.counters)
        for bridge, desired in bridges_of(now.desired[node]).items():
            counts = compared(bridge, desired, look, look)
            for each in WATCHED:
                rows = (row for row in counts.of(each.row) if row.stream == stream)
                if each.table:
                    for row in rows:
                        cells, _ = each.table.cells(node, row)
                        named = zip(each.table.columns, cells, strict=True)
                        words = ", ".join(f"{key.lstrip('>')} {text}" for key, text in named)
                        yield f"{each.table.title}: {words}"
