"""The figures of the control overhead: from the rows of a run, and from the paper."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from cnc.model import NS_PER_S
from cnc.rollout.events import Step
from cnc.testbed.experiments.control_overhead.published import PUBLISHED, Times
from cnc.testbed.experiments.experiment import read_rows
from cnc.testbed.lab.switch import AGENT, NETCONF_SERVER

# The steps of a push that changes something, in their order.
STEPS: Mapping[str, str] = {
    Step.CONNECT: "connect",
    Step.PREFLIGHT: "read what the switches run",
    Step.COMPARE: "lock, compare with what is stored",
    Step.EDIT: "edit-config, validate",
    Step.COMMIT: "confirmed commit",
    Step.VERIFY: "read back what runs",
    Step.CONFIRM: "confirm, save, unlock, close",
}
OTHERS = "others"
PROGRAMS_OF = {AGENT: "agents", NETCONF_SERVER: "NETCONF servers"}


@dataclass(frozen=True, slots=True)
class Point:
    """The medians of the pushes to a line of `switches`.

    `steps_s` is wall time by the keys of `STEPS`, `cpu_s` what each kind of program computed
    meanwhile; `OTHERS` are those that have nothing to do with it.
    """

    switches: int
    times: Times
    push_s: float
    steps_s: Mapping[str, float]
    cpu_s: Mapping[str, float]

    @property
    def published(self) -> Times:
        return PUBLISHED[self.switches]

    @property
    def times_below_ratio(self) -> float:
        """How many times the paper's generation ÷ NETCONF is ours."""
        return self.published.ratio / self.times.ratio

    @property
    def times_faster(self) -> float:
        return self.published.total_s / self.times.total_s

    def document(self) -> dict[str, Any]:
        return {
            "switches": self.switches,
            **self.times.document(),
            "push_s": round(self.push_s, 6),
            "steps_s": {name: round(value, 6) for name, value in self.steps_s.items()},
            "cpu_s": {name: round(value, 6) for name, value in self.cpu_s.items()},
            "paper": self.published.document(),
        }


def read(directory: Path) -> list[Point]:
    """The points of the rows in `directory`, in the order of their lines."""
    pushes = [
        (int(count), _push_of(list(rows)))
        for (count, _), rows in groupby(
            read_rows(directory), key=lambda row: (row["switches"], row["round"])
        )
    ]
    points = []
    for count, group in groupby(pushes, key=lambda each: each[0]):
        group_pushes = [push for _, push in group]
        points.append(
            Point(
                switches=count,
                times=Times(
                    *(_median(group_pushes, part) for part in ("generation", "netconf", "parsing"))
                ),
                push_s=_median(group_pushes, "push"),
                steps_s={step: _median(group_pushes, step) for step in STEPS},
                cpu_s={
                    program: _median(group_pushes, program)
                    for program in ("controller", *PROGRAMS_OF.values(), OTHERS)
                },
            )
        )
    return points


def _median(pushes: Sequence[Mapping[str, float]], what: str) -> float:
    return statistics.median(push[what] for push in pushes)


def _push_of(rows: Sequence[Mapping[str, str]]) -> dict[str, float]:
    """One push in seconds. Switches work in parallel: where each has its own time, the slowest
    decides; all of them compute."""

    def slowest_s(column: str) -> float:
        return max(int(row[column]) for row in rows) / NS_PER_S

    def sum_s(column: str) -> float:
        return sum(int(row[column]) for row in rows) / NS_PER_S

    cpu_s = {
        "controller": slowest_s("controller_cpu_ns"),
        PROGRAMS_OF[NETCONF_SERVER]: sum_s("netconfd_cpu_ns"),
        PROGRAMS_OF[AGENT]: sum_s("agent_cpu_ns"),
    }
    return {
        "generation": slowest_s("plan_ns") + slowest_s("payload_ns"),
        "netconf": slowest_s("netconf_ns"),
        "parsing": slowest_s("apply_ns"),
        "push": slowest_s("push_ns"),
        **{step: slowest_s(f"{step}_ns") for step in STEPS},
        **cpu_s,
        OTHERS: max(0.0, slowest_s("machine_cpu_ns") - sum(cpu_s.values())),
    }
