"""What experiments share that push a plan, and send its streams beside best effort."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

from cnc.errors import InputError
from cnc.model import NS_PER_S, Intent, Plan, StreamPlan
from cnc.testbed.experiments import planned
from cnc.testbed.experiments.description import BesideLoadDescription
from cnc.testbed.experiments.experiment import Progress, read_rows
from cnc.testbed.lab.platform import Platform
from cnc.testbed.lab.running import Lab
from cnc.testbed.traffic.flows import BridgedFlow
from cnc.testbed.traffic.measure import Summary, summarise, wake_up_error
from cnc.testbed.traffic.recording import AnyFlow, flows


@dataclass(frozen=True, slots=True)
class Measured:
    """What became of the frames of one flow that has a bound, and of the way that they took."""

    summary: Summary
    planned: StreamPlan
    switches: int
    bound_ns: int
    latencies_ns: Sequence[int]

    @property
    def name(self) -> str:
        return self.summary.flow.name

    def disagreements(self) -> Iterator[str]:
        """What is not as planned."""
        yield from self.summary.violations()
        if self.summary.out_of_order:
            yield f"{self.name}: {self.summary.out_of_order} frames out of order"
        if self.summary.latency is None:
            yield f"{self.name}: nothing arrived"

    def document(self) -> dict[str, Any]:
        latency = self.summary.latency
        return {
            "id": self.name,
            "switches": self.switches,
            "frames": self.summary.sent,
            "lost": self.summary.lost,
            "late": self.summary.late,
            "out_of_order": self.summary.out_of_order,
            "min_ns": latency.min_ns if latency else None,
            "mean_ns": latency.mean_ns if latency else None,
            "max_ns": latency.max_ns if latency else None,
            "bound_ns": self.bound_ns,
        }


@dataclass(frozen=True, slots=True)
class BesideLoad:
    """An experiment whose rows are the frames of all streams, in all phases of their classes."""

    description: BesideLoadDescription
    plan: Plan
    sent: Sequence[AnyFlow]

    # What is said of a stream that is none of the experiment's, and what to do.
    refused: ClassVar[tuple[str, str]]

    @staticmethod
    def is_subject(_its: StreamPlan) -> bool:
        """Whether a stream is what is measured."""
        raise NotImplementedError

    @classmethod
    def of(cls, description: BesideLoadDescription, file: Path) -> Self:
        """The experiment of `file`.

        Raises:
            InputError: its network cannot be read, or not be emulated, or has a stream that is not
                what is measured.
            Unschedulable: its network has no plan.
        """
        plan = planned.plan(description.network, file, description.name, description.seed)
        if others := [name for name, its in plan.streams.items() if not cls.is_subject(its)]:
            what, hint = cls.refused
            raise InputError(
                f"{file}: network: stream {others[0]} of {description.network} {what}", hint=hint
            )
        return cls(description, plan, _loaded(plan.intent, flows(plan), description.load))

    @property
    def emulated(self) -> Intent:
        return self.plan.intent

    @property
    def duration_ns(self) -> int:
        """How long to send until there are frames enough."""
        of_streams = (flow for flow in self.sent if _is_bound(flow))
        per_s = sum(NS_PER_S * flow.frames // flow.period_ns for flow in of_streams)
        return -(-self.description.frames * NS_PER_S // per_s)

    def run_in(self, running: Lab, directory: Path, progress: Progress) -> None:
        """Push the plan and send; times in rows count from the start of sending."""
        planned.run(
            *(self.plan, running, self.sent),
            duration_ns=self.duration_ns,
            directory=directory,
            progress=progress,
        )

    def measured(
        self, directory: Path, platform: Platform
    ) -> tuple[list[Measured], Mapping[str, Any], str]:
        """Each flow that has a bound, in the order of the switches that it crosses; what a summary
        says of all together; and a remark on what was sent beside them."""
        frames = list(planned.frames(read_rows(directory)))
        latencies_ns: defaultdict[str, list[int]] = defaultdict(list)
        for frame in frames:
            if frame.received_ns is not None:
                latencies_ns[frame.flow].append(frame.received_ns - frame.planned_ns)
        summaries = summarise(self.plan, self.sent, frames, timed_wires=platform.exact)
        found = [
            Measured(
                its,
                self.plan.streams[its.flow.stream],
                self._switches_to(its.flow),
                bound_ns,
                latencies_ns[its.flow.name],
            )
            for its in summaries
            if isinstance(its.flow, BridgedFlow) and (bound_ns := its.flow.latency_bound_ns)
        ]
        beside = [its for its in summaries if not _is_bound(its.flow)]
        of_all = {
            "background": {
                "frames": sum(its.sent for its in beside),
                "lost": sum(its.lost for its in beside),
            },
            "clock": platform.clock,
            "wake_up_error_ns": asdict(wake_up_error(self.sent, frames)),
        }
        remark = (
            f"Beside the streams best effort took {self.description.load} % of each cable, "
            f"{sum(its.sent for its in beside):,} frames at all listeners together."
        )
        return sorted(found, key=lambda its: (its.switches, its.name)), of_all, remark

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
