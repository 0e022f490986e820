"""How long frames are on their way that are forwarded once each interval.

The plan is pushed like every other; then all streams are sent, in all phases of the intervals, and
beside them the first switch floods the network with best effort.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from cnc.errors import InputError
from cnc.model import NS_PER_S, Intent, Plan
from cnc.rollout import push
from cnc.support.format import duration
from cnc.testbed.experiments import planned, sending
from cnc.testbed.experiments.cyclic_queuing.figures import Way
from cnc.testbed.experiments.cyclic_queuing.pictures import cyclic_queuing_pictures
from cnc.testbed.experiments.description import CyclicQueuingDescription
from cnc.testbed.experiments.experiment import (
    Progress,
    Report,
    Sheet,
    not_judged,
    read_rows,
    write_rows,
)
from cnc.testbed.lab.platform import Platform
from cnc.testbed.lab.running import Lab
from cnc.testbed.traffic.flows import BridgedFlow
from cnc.testbed.traffic.measure import summarise, wake_up_error
from cnc.testbed.traffic.recording import AnyFlow, flows

_NOTHING = "–"  # noqa: RUF001


@dataclass(frozen=True, slots=True)
class CyclicQueuing:
    """The experiment of a file of kind cyclic-queuing."""

    description: CyclicQueuingDescription
    plan: Plan
    sent: Sequence[AnyFlow]

    @classmethod
    def of(cls, description: CyclicQueuingDescription, file: Path) -> CyclicQueuing:
        """The experiment of `file`.

        Raises:
            InputError: its network cannot be read, or not be emulated, or has a stream that is not
                forwarded once each interval.
            Unschedulable: its network has no plan.
        """
        plan = planned.plan(description.network, file, description.name, description.seed)
        if others := [name for name, its in plan.streams.items() if not its.is_cyclic]:
            raise InputError(
                f"{file}: network: stream {others[0]} of {description.network} is not forwarded "
                "once each interval",
                hint="choose a network all of whose streams have a class with `shaping: cqf`",
            )
        return cls(description, plan, _loaded(plan.intent, flows(plan), description.load))

    @property
    def emulated(self) -> Intent:
        return self.plan.intent

    @property
    def duration_ns(self) -> int:
        """How long to send until there are frames enough."""
        of_streams = (flow for flow in self.sent if flow.latency_bound_ns is not None)
        per_s = sum(NS_PER_S * flow.frames // flow.period_ns for flow in of_streams)
        return -(-self.description.frames * NS_PER_S // per_s)

    def run_in(self, running: Lab, directory: Path, progress: Progress) -> None:
        """Push the plan and send; times in rows count from the start of sending."""
        sending.await_schedule(
            push(self.plan, connect=running.connect, listener=lambda event: progress(str(event)))
        )
        progress(f"sending for {duration(self.duration_ns)}")
        recording = sending.record(running, self.sent, self.duration_ns)
        write_rows(directory, planned.FRAME_COLUMNS, planned.frame_rows(recording))

    def report(self, directory: Path, platform: Platform) -> Report:
        frames = list(planned.frames(read_rows(directory)))
        latencies_ns: defaultdict[str, list[int]] = defaultdict(list)
        for frame in frames:
            if frame.received_ns is not None:
                latencies_ns[frame.flow].append(frame.received_ns - frame.planned_ns)
        summaries = summarise(self.plan, self.sent, frames, timed_wires=platform.exact)
        ways = [
            Way(
                its,
                self._switches_to(its.flow),
                self.plan.streams[its.flow.stream].interval_ns,
                bound_ns,
                latencies_ns[its.flow.name],
            )
            for its in summaries
            if isinstance(its.flow, BridgedFlow) and (bound_ns := its.flow.latency_bound_ns)
        ]
        ways.sort(key=lambda way: (way.switches, way.name))
        beside = [its for its in summaries if its.flow.latency_bound_ns is None]
        wrong = [line for way in ways for line in way.disagreements()]
        wake_up = wake_up_error(self.sent, frames)
        interval_ns = ways[0].interval_ns
        return Report(
            summary={
                "interval_ns": interval_ns,
                "streams": [way.document() for way in ways],
                "background": {
                    "frames": sum(its.sent for its in beside),
                    "lost": sum(its.lost for its in beside),
                },
                "clock": platform.clock,
                "wake_up_error_ns": asdict(wake_up),
            },
            sheets=[_table(ways)],
            pictures=cyclic_queuing_pictures(ways),
            disagreements=wrong if platform.exact else [],
            remarks=[
                (
                    f"Intervals of {duration(interval_ns)}. Beside the streams best effort took "
                    f"{self.description.load} % of each cable, {sum(i.sent for i in beside):,} "
                    "frames at all listeners together."
                ),
                *not_judged(platform),
            ],
            modelled=sending.modelled(self.emulated.network, platform),
        )

    def _switches_to(self, flow: BridgedFlow) -> int:
        """How many switches the frames of a flow cross."""
        links, crossed = self.emulated.network.links, {flow.talker: 0}
        for hop in self.plan.streams[flow.stream].hops:
            is_switch = hop.egress.node in self.emulated.network.bridges
            crossed[links[hop.egress].target.node] = crossed[hop.egress.node] + is_switch
        return crossed[flow.listener]


def _loaded(intent: Intent, sent: Sequence[AnyFlow], load: int) -> list[AnyFlow]:
    """The flows, of which those of best effort take so many per cent of each cable together."""
    network = intent.network
    slowest = min(network.links.values(), key=lambda link: link.rate_bps)
    sources = {
        flow.stream for flow in sent if isinstance(flow, BridgedFlow) and not _is_bound(flow)
    }
    return [
        flow
        if _is_bound(flow)
        else replace(
            flow,
            period_ns=network.occupation_ns(slowest, flow.payload_octets)
            * 100
            * len(sources)
            // load,
        )
        for flow in sent
    ]


def _is_bound(flow: AnyFlow) -> bool:
    return flow.latency_bound_ns is not None


def _table(ways: Sequence[Way]) -> Sheet:
    def intervals(way: Way, time_ns: float | None) -> str:
        return _NOTHING if time_ns is None else f"{time_ns / way.interval_ns:.3f}"

    rows = []
    for way in ways:
        its = way.document()
        rows.append(
            [
                *(way.name, str(way.switches), str(its["frames"])),
                *(str(its[key]) for key in ("lost", "late", "out_of_order")),
                *(intervals(way, its[f"{key}_ns"]) for key in ("min", "mean", "max", "bound")),
            ]
        )
    return Sheet(
        "Latency from the planned start of sending to reception, in intervals T; annex T says "
        "h - 1 to h + 1",
        [
            *("stream", ">switches h", ">frames", ">lost", ">late", ">out of order"),
            *(">least, T", ">mean, T", ">greatest, T", ">bound, T"),
        ],
        rows,
    )
