"""What the commands print with --json, as types: docs/json and docs/commands-json.md come of them.

The renderers build these, and mypy holds them to it. Only programs that want the types import this
module: it brings in every room.
"""

from __future__ import annotations

from typing import Any, Literal

from typing_extensions import TypedDict

from cnc.cli.json_output.comparison import Difference
from cnc.cli.json_output.document import Config, Error
from cnc.cli.json_output.history import Rollout
from cnc.cli.json_output.planning import CheckedIntent, CheckedPlan, Discovered, PlanFile
from cnc.cli.json_output.switches import Diagnosis, PortState, Push
from cnc.lab import NodeStatus
from cnc.lab.platform import Platform
from cnc.traffic.flows import Flow
from cnc.traffic.measure import Spread
from cnc.watch.condition import Kind, Note, What


class Event(TypedDict):
    """`cnc watch` prints one a line, for as long as it runs."""

    time: str
    """ISO 8601."""
    event: What
    """A trouble begins or ends, or something is noted."""
    kind: Kind | Note
    switch: str | None
    """null: the network as a whole."""
    port: str | None
    text: str
    since: str | None
    """When the trouble that ends had begun."""


class LabUp(TypedDict):
    """`cnc lab up`. Programs push to it with --identity and --known-hosts.

    `gates_refused` says why its kernel runs no gate control lists; null: it does.
    """

    name: str
    wires: Literal["timed", "instant"]
    identity: str
    known_hosts: str
    gates_refused: str | None


class FlowFigures(TypedDict):
    """What became of the frames of one flow."""

    flow: Flow
    sent: int
    received: int
    lost: int
    late: int
    """Beyond the flow's bound."""
    outside: int
    """Left the last switch while the gate was closed for them, beyond what a clock can tell."""
    outside_max_ns: int
    duplicates: int
    out_of_order: int
    latency: Spread | None
    """From the planned start of sending; null: nothing arrived."""
    jitter: Spread | None
    """How much a frame's latency differs from that of the one before."""


class Traffic(TypedDict):
    """`cnc lab traffic`."""

    platform: Platform
    """`exact`: frames are judged, since only sleeping takes time."""
    wake_up_error: Spread
    """How late talkers woke."""
    flows: list[FlowFigures]
    violations: list[str] | None
    """How frames broke what the plan promises; the exit code is 1 if there is anything. null: the
    clock is not exact, nothing is judged."""


class Iperf3(TypedDict):
    """`cnc lab traffic --iperf3`: what iperf3 prints, whose keys are its own."""

    start: dict[str, Any]
    intervals: list[dict[str, Any]]
    end: dict[str, Any]


class ExperimentSummary(TypedDict):
    """`cnc lab measure`: what is in summary.json. Each kind of experiment adds figures."""

    experiment: str
    kind: str
    title: str
    seed: int
    platform: Platform
    modelled: str | None
    """Delays that are emulated."""
    disagreements: list[str]
    """What is not as the experiment promises; the exit code is 1 if there is anything."""
    remarks: list[str]


# By the words of the command. What each prints is one of these.
BY_COMMAND: dict[str, Any] = {
    "check": CheckedIntent | CheckedPlan,
    "config": Config,
    "diff": Difference,
    "discover": Discovered,
    "doctor": Diagnosis,
    "history": list[Rollout] | Rollout,
    "lab measure": ExperimentSummary,
    "lab status": list[NodeStatus],
    "lab traffic": Traffic | Iperf3,
    "lab up": LabUp,
    "plan": PlanFile,
    "push": Push,
    "rollback": Push,
    "show": PlanFile,
    "status": list[PortState],
    "watch": Event,
    "error": Error,
}
