"""The figures of a control loop over one network beside one load."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from cnc.testbed.traffic.loop.response import StepResponse, step_responses
from cnc.testbed.traffic.loop.run import Curve
from cnc.testbed.traffic.measure import Spread, spread

FIFO, PRIORITY, SCHEDULE = "fifo", "priority", "schedule"
NAMES = {FIFO: "in order of arrival", PRIORITY: "strict priority", SCHEDULE: "the schedule"}
FULL = 100  # per cent of a link
LOST = 0.5  # of the step


@dataclass(frozen=True, slots=True)
class Point:
    """One curve. `undisturbed` is what each output is over a network that is always in time."""

    network: str
    load: int
    curve: Curve
    undisturbed: Sequence[Sequence[float]]

    @property
    def response(self) -> StepResponse:
        """Of the first step."""
        return step_responses(self.curve.outputs, self.curve.loop)[0]

    @property
    def delay(self) -> Spread | None:
        return spread(self.curve.delays_ns) if self.curve.delays_ns else None

    @property
    def is_undisturbed(self) -> bool:
        return self.curve.axes == [*self.undisturbed]

    @property
    def has_lost_its_plant(self) -> bool:
        """Whether the output is off by more than half of the step in the last quarter, where it
        has long settled over a network that is in time."""
        reference = float(self.curve.loop.reference)
        last = self.curve.outputs[-(len(self.curve.outputs) // 4) :]
        return any(not abs(output - reference) <= abs(LOST * reference) for output in last)

    def disagreement(self, planned_ns: int) -> str | None:
        """What is not as the experiment promises, if anything."""
        here = f"{NAMES[self.network]} at {self.load} %"
        if self.network == SCHEDULE:
            if not self.is_undisturbed:
                return f"{here}: the curve is not that of an idle network"
            if self.curve.missed:
                return f"{here}: {self.curve.missed} commands missed the deadline"
            if self.delay is None or self.delay.max_ns > planned_ns:
                return f"{here}: the loop took longer than the plan says"
        if self.network == FIFO and self.load > FULL and not self.has_lost_its_plant:
            return f"{here}: the output follows, though links are offered more than they carry"
        return None

    def document(self) -> dict[str, Any]:
        return {
            "network": self.network,
            "load_percent": self.load,
            **asdict(self.response),
            "missed": self.curve.missed,
            "lost_samples": self.curve.lost_samples,
            "lost_commands": self.curve.lost_commands,
            "delay": self.delay and asdict(self.delay),
            "is_undisturbed": self.is_undisturbed,
        }
