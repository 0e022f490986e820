"""What `cnc lab` prints: labs, the traffic in them, experiments."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from cnc.json_output.document import Document, is_none
from cnc.testbed.lab.platform import Platform
from cnc.testbed.traffic.flows import AnyFlow, BridgedFlow
from cnc.testbed.traffic.measure import Spread, Summary


class LabUp(Document):
    """`cnc lab up`. Programs push to it with --identity and --known-hosts.

    These are null with `--kernels own`: there programs run on the node `controller`, without them.
    `wires` is null with `--rehearse`: there are none.
    `gates_refused` says why its kernel runs no gate control lists; null: it does.
    `clocks_unsettled` says of each node whose clock had not settled why, with `--kernels own`.
    """

    name: str
    wires: Literal["timed", "instant"] | None
    identity: str | None
    known_hosts: str | None
    gates_refused: str | None
    clocks_unsettled: dict[str, str]


class FlowFigures(Document):
    """Counts and latencies of the frames of one flow."""

    flow: AnyFlow
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
    jitter_bound_ns: int | None = Field(None, exclude_if=is_none)
    """How much arrivals may vary against the period. It is there if the stream has a limit."""
    arrivals_within_ns: int | None = Field(None, exclude_if=is_none)
    """How much they did. It is there if the stream has a limit and frames arrived."""


class BridgedFlowFigures(FlowFigures):
    """Counts and latencies of the frames of one flow of a bridged network, at one listener."""

    multiplied: int
    """Frames that arrived more often than they were to."""
    strays: Annotated[int, BeforeValidator(len)]
    """Arrivals at no listener of the stream, or with another address or tag; with its first
    flow."""


def flow_figures(summary: Summary) -> FlowFigures:
    """The figures of a flow, those of a bridged network where it is in one."""
    is_bridged = isinstance(summary.flow, BridgedFlow)
    return (BridgedFlowFigures if is_bridged else FlowFigures).model_validate(summary)


class Traffic(Document):
    """`cnc lab traffic`."""

    platform: Platform
    """`exact`: gates are judged, too, since only sleeping takes time."""
    wake_up_error: Spread
    """How late talkers woke."""
    flows: list[BridgedFlowFigures | FlowFigures]
    violations: list[str] | None
    """How frames broke what the plan promises; the exit code is 1 if there is anything. null:
    nothing is judged, since the clock is not exact, and talkers were later than the plan allows or
    no stream was sent."""


class Iperf3(Document):
    """`cnc lab traffic --iperf3`: what iperf3 prints, whose keys are its own."""

    # Only described here: cnc.testbed.cli.render.traffic prints it as iperf3 made it.

    start: dict[str, Any]
    intervals: list[dict[str, Any]]
    end: dict[str, Any]


class ExperimentSummary(Document):
    """`cnc lab measure`: what is in summary.json. Each kind of experiment adds figures."""

    # Only described here: cnc.testbed.experiments writes it.

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


class GridPoint(Document):
    """A run of `cnc lab measure` with several values of --set."""

    point: str
    """Its directory."""
    set: dict[str, str]
    """The values of the keys."""
    exit_code: int
    summary: ExperimentSummary | None
    """None if it failed; its measure.log says why."""


class GridSummary(Document):
    """`cnc lab measure` with several values of --set: what is in summary.json."""

    experiment: str
    kind: str
    title: str
    command: str | None
    points: list[GridPoint]
    """Those that have ended."""
