"""What the page shows, as plain data. Nodes, ports and classes are named by their place in a list.

    {"name", "algorithm", "span_ns", "verdict": [violation, ...],
     "gate_margin": text or null            how long it is, and where that comes from
     "disturbance_ns", "recovery_ns": the second is how long after the first any stream may be late
                                            of those with a bound; both null where none has one
     "unbounded": text or null              which streams have no bound although one is asked for
     "classes": [{"name", "number", "role"}, ...]                   the highest queue first
     "nodes":   [{"name", "bridge", "x", "y", "dx", "dy"}, ...]     (dx, dy): where a label has room
     "ports":   [{"name", "node", "to", "rate", "load", "cycle_ns", "entries", "open": [[opens_ns,
                  closes_ns, opens_ns, ...], ...]}, ...]            an `open` for each class
                 "windows" as well where frames share some: [[class, opens_ns, closes_ns, cycle_ns,
                 [stream, ...]], ...], streams by their place in the list
     "rows":    n                          the first n ports carry something, those with gates first
     "streams": [{"name", "class", "period_ns", "payload", "talker", "listeners", "bound_ns",
                  "limit_ns", "recovery_ns", "hops": [...], "ways": [[node, ...], ...]}, ...]
                 "frames" as well where it sends several in a period, "shares": true where its
                 frames share windows, "jitter_ns" and "jitter_limit_ns" where its jitter is
                 limited; what `cnc.page.guards` finds; in a bridged network "address": {"mac",
                 "vlan", "pcp"} of its frames, and of those that its talker sends untagged
                 "translation": {"known_by", "at", "back_at"}
     "loops":   [{"name", "sensor", "actuator", "delay_ns", "deadline_ns", "parts_ns": [sample,
                  compute, wait, command]}, ...]                 control loops, by name
     "refused": [{"name", "talker", "listeners", "period_ns", "payload", "limit_ns", "why"}, ...]}

A hop is [port, offset_ns, planned_end_ns, latest_end_ns, ready_from_ns, ready_by_ns, received_ns,
parent]: the frame is planned to be on the wire from offset to planned end, and is off it at the
latest end whatever comes between; it lies in its queue from some time between the two `ready`; its
last bit is at the far end by `received`; `parent` is the place of the hop before, or -1. Of a
stream that shares windows both ends are that of its window, which opens at the offset. All count
from the start of the stream's period. They are the times that `cnc.check` works with, so a path
with a broken route has none, and the verdict has the reason. A stream with a "theory" has
no instants: it has no hops but "ports", and an "interval_ns" where switches forward its frames by
that. A port with a cycle of 0 has no gates.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import chain
from typing import Any

from cnc.account.frames import Transmission
from cnc.chart.axis import classes_of, open_times, ports_along_the_way, span_ns
from cnc.check import Judgement, judgement, unbounded
from cnc.check.lists import readable_lists
from cnc.check.streams import judge_streams
from cnc.loops.model import Loops
from cnc.mechanisms.registry import MEASURED
from cnc.mechanisms.terms import client_octets
from cnc.model import Plan, PortRef, Stream, StreamPlan
from cnc.page.guards import guards
from cnc.page.layout import positions
from cnc.plans.shared_windows import shared_windows
from cnc.support.format import duration, natural, rate


def page_data(plan: Plan, judged: Judgement | None = None) -> dict[str, Any]:
    """All of it, with nothing that `json` does not know; deterministic. `judged` is the judgement
    on the plan, if there is one."""
    return _Data(plan, judged or judgement(plan)).everything()


class _Data:
    def __init__(self, plan: Plan, judged: Judgement) -> None:
        self._plan = plan
        self._judged = judged
        self._network = plan.intent.network
        self._classes = classes_of(plan)
        self._nodes = [
            *sorted(self._network.bridges, key=natural),
            *sorted(self._network.end_stations, key=natural),
        ]
        self._node_number = {name: number for number, name in enumerate(self._nodes)}
        in_use = set(ports_along_the_way(plan))
        self._rows = len(in_use)
        self._ports = sorted(
            self._network.links,
            key=lambda port: (port not in in_use, port not in plan.gates, natural(str(port))),
        )
        self._port_number = {port: number for number, port in enumerate(self._ports)}
        self._guards = guards(plan)
        self._shared = shared_windows(plan)
        self._shown = [
            name for name in sorted(plan.streams, key=natural) if plan.streams[name].hops
        ]
        self._stream_number = {name: number for number, name in enumerate(self._shown)}
        self._frames: defaultdict[str, list[Transmission]] = defaultdict(list)
        for frame in judge_streams(plan, readable_lists(plan))[0]:
            self._frames[frame.stream].append(frame)

    def everything(self) -> dict[str, Any]:
        plan = self._plan
        return {
            "name": plan.intent.name,
            "algorithm": plan.algorithm,
            "span_ns": span_ns(plan),
            "verdict": [str(violation) for violation in self._judged.violations],
            "gate_margin": self._gate_margin(),
            "disturbance_ns": self._network.disturbance_ns if plan.recovery_ns else None,
            "unbounded": unbounded.warning(self._judged),
            "recovery_ns": max(plan.recovery_ns.values(), default=None),
            "classes": [
                {"name": c.name, "number": c.number, "role": c.role} for c in self._classes
            ],
            "nodes": self._placed_nodes(),
            "ports": [self._port(port, load) for port, load in self._loads().items()],
            "rows": self._rows,
            "streams": [self._stream(plan.intent.streams[name]) for name in self._shown],
            "loops": [self._loop(name) for name in sorted(plan.loops, key=natural)],
            "refused": [
                self._wanted(plan.intent.streams[name]) | {"why": plan.refused[name]}
                for name in sorted(plan.refused, key=natural)
            ],
        }

    def _loop(self, name: str) -> dict[str, Any]:
        loop, delay = self._plan.intent[Loops].by_name[name], self._plan.loops[name]
        return {
            "name": name,
            "sensor": loop.sensor,
            "actuator": loop.actuator,
            "delay_ns": delay.total_ns,
            "deadline_ns": loop.deadline_ns,
            "parts_ns": [delay.sensor_ns, delay.compute_ns, delay.wait_ns, delay.actuator_ns],
        }

    def _gate_margin(self) -> str | None:
        found = (figure for each in MEASURED for figure in each.figures(self._plan))
        taking = (f"{duration(its.value_ns)} ({its.source})" for its in found if its.takes_share)
        return next(taking, None)

    def _placed_nodes(self) -> list[dict[str, Any]]:
        places = positions(self._network)
        return [
            {
                "name": name,
                "bridge": name in self._network.bridges,
                "x": round(places[name].x, 2),
                "y": round(places[name].y, 2),
                "dx": round(places[name].label_x, 2),
                "dy": round(places[name].label_y, 2),
            }
            for name in self._nodes
        ]

    def _loads(self) -> dict[PortRef, float]:
        """The share of its time that each port spends on planned frames."""
        loads = dict.fromkeys(self._ports, 0.0)
        for name, planned in self._plan.streams.items():
            stream = self._plan.intent.streams[name]
            for hop in planned.hops:
                loads[hop.egress] += self._occupation_ns(stream, hop.egress) / stream.period_ns
        return loads

    def _port(self, port: PortRef, load: float) -> dict[str, Any]:
        link = self._network.links[port]
        gates = self._plan.gates.get(port)
        return {
            "name": str(port),
            "node": self._node_number[port.node],
            "to": self._node_number[link.target.node],
            "rate": rate(link.rate_bps),
            "load": round(load, 6),
            "cycle_ns": gates.cycle_ns if gates else 0,
            "entries": len(gates.entries) if gates else 0,
            "open": [list(chain(*open_times(gates, c.number))) for c in self._classes]
            if gates
            else [],
            **self._windows(port),
        }

    def _windows(self, port: PortRef) -> dict[str, Any]:
        """Those that frames share at a port; nothing where there are none."""
        if port not in self._shared:
            return {}
        numbers = [c.number for c in self._classes]
        return {
            "windows": [
                [
                    numbers.index(its.traffic_class),
                    its.opens_ns,
                    its.closes_ns,
                    its.cycle_ns,
                    [self._stream_number[name] for name in its.streams],
                ]
                for its in self._shared[port]
            ]
        }

    def _wanted(self, stream: Stream) -> dict[str, Any]:
        return {
            "name": stream.name,
            "talker": self._node_number[stream.talker],
            "listeners": [self._node_number[node] for node in stream.listeners],
            "period_ns": stream.period_ns,
            "payload": stream.payload_octets,
            **({"frames": stream.frames} if stream.frames > 1 else {}),
            "limit_ns": stream.max_latency_ns,
        }

    def _stream(self, stream: Stream) -> dict[str, Any]:
        planned = self._plan.streams[stream.name]
        hops = [self._hop(stream, frame) for frame in self._frames[stream.name]]
        return self._wanted(stream) | {
            "class": self._plan.class_of(stream.name).name,
            "bound_ns": planned.latency_bound_ns,
            "recovery_ns": self._plan.recovery_ns.get(stream.name),
            **({"shares": True} if planned.is_shared else {}),
            **self._jitter(stream),
            **self._forwarding(stream),
            **self._guards.get(stream.name, {}),
            "hops": hops,
            "ways": self._ways(stream, hops),
            **self._without_instants(planned, stream),
        }

    def _without_instants(self, planned: StreamPlan, stream: Stream) -> dict[str, Any]:
        """The way of a stream that has no instants; nothing of another."""
        if planned.has_instants:
            return {}
        links = self._network.links
        ways = []
        for path in planned.paths:
            before = {links[hop.egress].target.node: hop.egress.node for hop in path}
            for listener in stream.listeners:
                way = [listener]
                while (node := before.get(way[-1])) is not None:
                    way.append(node)
                ways.append([self._node_number[node] for node in reversed(way)])
        ports = [self._port_number[hop.egress] for hop in planned.hops]
        return {
            "theory": planned.theory,
            **({"interval_ns": planned.interval_ns} if planned.is_cyclic else {}),
            "ports": ports,
            "ways": ways,
        }

    def _jitter(self, stream: Stream) -> dict[str, int]:
        """Its greatest bound at any listener and its limit; nothing without a limit."""
        bounds_ns = self._plan.jitter_ns.get(stream.name)
        if stream.max_jitter_ns is None or not bounds_ns:
            return {}
        return {
            "jitter_ns": max(bounds_ns.values()),
            "jitter_limit_ns": stream.max_jitter_ns,
        }

    def _forwarding(self, stream: Stream) -> dict[str, Any]:
        """What switches know its frames by; nothing where they route."""
        address = self._plan.addresses.get(stream.name)
        if address is None:
            return {}
        found: dict[str, Any] = {
            "address": {
                "mac": address.destination_mac,
                "vlan": address.vlan_id,
                "pcp": self._plan.class_of(stream.name).priority,
            }
        }
        if stream.identification:
            first, *_, last = self._plan.streams[stream.name].hops
            found["translation"] = {
                "known_by": str(stream.identification),
                "at": str(self._network.links[first.egress].target),
                "back_at": str(last.egress),
            }
        return found

    def _hop(self, stream: Stream, frame: Transmission) -> list[int]:
        frames = self._frames[stream.name]
        before = (
            number
            for number, other in enumerate(frames)
            if (other.egress, other.offset_ns) == (frame.ingress, frame.ingress_offset_ns)
        )
        return [
            self._port_number[frame.egress],
            frame.offset_ns,
            frame.busy_until_ns
            if frame.is_shared
            else frame.offset_ns + self._occupation_ns(stream, frame.egress),
            frame.busy_until_ns,
            frame.earliest_ns,
            frame.latest_ns,
            frame.all_received_ns,
            next(before, -1),
        ]

    def _ways(self, stream: Stream, hops: list[list[int]]) -> list[list[int]]:
        """The nodes from the talker to each listener, once for each path."""
        ways = []
        for frame, last in zip(self._frames[stream.name], hops, strict=True):
            if frame.target in stream.listeners:
                way, hop = [self._node_number[frame.target]], last
                while True:
                    port, *_, parent = hop
                    way.append(self._node_number[self._ports[port].node])
                    if parent < 0:
                        break
                    hop = hops[parent]
                ways.append(way[::-1])
        return ways

    def _occupation_ns(self, stream: Stream, port: PortRef) -> int:
        """How long the frames of a period keep a link busy."""
        link = self._network.links[port]
        octets = client_octets(self._network, stream, link)
        return stream.frames * self._network.occupation_ns(link, octets)
