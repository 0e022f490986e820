"""Whether every frame keeps the bound that the planner promised its stream.

The plan is pushed like every other; then all streams are sent, with best effort beside them that
wanders through the cycle. A frame's latency runs from its planned start of sending to reception.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from cnc.model import Intent, Plan, Stream
from cnc.support.format import duration
from cnc.testbed.experiments import planned, sending
from cnc.testbed.experiments.bound_check.figures import Verdict
from cnc.testbed.experiments.bound_check.pictures import bound_check_pictures
from cnc.testbed.experiments.description import BoundCheckDescription
from cnc.testbed.experiments.experiment import Progress, Report, Sheet, read_rows
from cnc.testbed.lab.platform import Platform
from cnc.testbed.lab.running import Lab
from cnc.testbed.traffic.measure import Spread, summarise, wake_up_error
from cnc.testbed.traffic.recording import AnyFlow, flows

# Best effort's period is this many times that of `flows`: fewer frames to wait for. It shares no
# factor with the steps in which they wander, so they still visit all phases.
BACKGROUND_STRETCH = 7

_NOTHING = "–"  # noqa: RUF001


@dataclass(frozen=True, slots=True)
class BoundCheck:
    """The experiment of a file of kind bound-check."""

    description: BoundCheckDescription
    plan: Plan
    sent: Sequence[AnyFlow]

    @classmethod
    def of(cls, description: BoundCheckDescription, file: Path) -> BoundCheck:
        """The experiment of `file`.

        Raises:
            InputError: its network cannot be read, or not be emulated.
            Unschedulable: its network has no plan.
        """
        plan = planned.plan(description.network, file, description.name, description.seed)
        return cls(description, plan, _fewer(flows(plan)))

    @property
    def emulated(self) -> Intent:
        return self.plan.intent

    @property
    def cycles(self) -> int:
        """How often the schedule goes round until there are frames enough."""
        intent = self.plan.intent
        cycle_ns = intent.hyperperiod_ns()
        per_cycle = sum(cycle_ns // stream.period_ns for stream in intent.streams.values())
        return -(-self.description.frames // per_cycle)

    def run_in(self, running: Lab, directory: Path, progress: Progress) -> None:
        """Push the plan and send; times in rows count from the start of sending."""
        duration_ns = self.cycles * self.plan.intent.hyperperiod_ns()
        planned.run(
            *(self.plan, running, self.sent),
            duration_ns=duration_ns,
            directory=directory,
            progress=progress,
        )

    def report(self, directory: Path, platform: Platform) -> Report:
        frames = list(planned.frames(read_rows(directory)))
        summaries = summarise(self.plan, self.sent, frames, timed_wires=platform.exact)
        verdicts = [Verdict(s, bound) for s in summaries if (bound := s.flow.latency_bound_ns)]
        background = [s for s in summaries if s.flow.latency_bound_ns is None]
        wake_up = wake_up_error(self.sent, frames)
        wrong = [line for verdict in verdicts for line in verdict.summary.violations()]
        return Report(
            summary={
                "frames": sum(v.summary.sent for v in verdicts),
                "late": sum(v.summary.late for v in verdicts),
                "lost": sum(v.summary.lost for v in verdicts),
                "out_of_window": sum(v.summary.outside for v in verdicts),
                "streams": [verdict.document() for verdict in verdicts],
                "background": {
                    "frames": sum(s.sent for s in background),
                    "lost": sum(s.lost for s in background),
                    "out_of_window": sum(s.outside for s in background),
                },
                "clock": platform.clock,
                "wake_up_error_ns": asdict(wake_up),
            },
            sheets=[_table(self.plan.intent, verdicts)],
            pictures=bound_check_pictures(verdicts),
            disagreements=wrong if platform.exact else [],
            remarks=self._remarks(platform, wake_up, sum(s.sent for s in background)),
            modelled=sending.modelled(self.emulated.network, platform),
        )

    def _remarks(self, platform: Platform, wake_up: Spread, background: int) -> list[str]:
        beside = f"Beside the streams {background:,} best-effort frames wandered through the cycle."
        if not platform.exact:
            return [beside, sending.not_exact(wake_up)]
        clock_error = duration(self.plan.intent.network.clock_error_ns)
        reserve = (
            "Switches hand frames on as fast as they may; gates hold them back to their planned "
            "times in any case. What is left of a "
            "bound is what the plan keeps for what did not happen: clocks that differ by "
            f"{clock_error}, and control frames at the last switch. Talkers woke "
            f"{duration(wake_up.max_ns)} late at worst, which counts as latency."
        )
        return [beside, reserve]


def _table(intent: Intent, verdicts: Sequence[Verdict]) -> Sheet:
    return Sheet(
        "Latency from the planned start of sending to reception; slack is bound less greatest",
        [
            *("stream", "way", ">period", ">packet, B", ">frames", ">late", ">lost"),
            *(">least, µs", ">mean, µs", ">greatest, µs", ">bound, µs", ">slack, µs", ">slack, %"),
        ],
        [_row(intent.streams[verdict.name], verdict) for verdict in verdicts],
    )


def _row(stream: Stream, verdict: Verdict) -> list[str]:
    figures = verdict.document()
    slack = verdict.slack_ns
    return [
        *(stream.name, f"{stream.talker} → {stream.listeners[0]}"),
        *(duration(stream.period_ns), str(stream.payload_octets)),
        *(str(figures[key]) for key in ("frames", "late", "lost")),
        *(
            _NOTHING if figures[key] is None else f"{figures[key] / 1000:.1f}"
            for key in ("min_ns", "mean_ns", "max_ns", "bound_ns", "slack_ns")
        ),
        _NOTHING if slack is None else f"{100 * slack / verdict.bound_ns:.1f}",
    ]


def _fewer(sent: Sequence[AnyFlow]) -> list[AnyFlow]:
    """The flows with fewer best-effort frames, as evenly apart."""
    return [
        flow
        if flow.latency_bound_ns is not None
        else replace(
            flow,
            period_ns=flow.period_ns * BACKGROUND_STRETCH,
            offset_ns=flow.offset_ns * BACKGROUND_STRETCH,
        )
        for flow in sent
    ]
