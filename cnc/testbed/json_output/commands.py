"""The document of each command of the laboratory."""

from __future__ import annotations

from typing import Any

from cnc.testbed.json_output.clocks import LabClocks
from cnc.testbed.json_output.lab import ExperimentSummary, GridSummary, Iperf3, LabUp, Traffic
from cnc.testbed.json_output.loop import LoopRun
from cnc.testbed.json_output.trace import Trace
from cnc.testbed.lab import NodeStatus

# By the words of the command. What each prints is one of these.
BY_COMMAND: dict[str, Any] = {
    "lab clocks": LabClocks,
    "lab loop": LoopRun,
    "lab measure": ExperimentSummary | GridSummary,
    "lab status": list[NodeStatus],
    "lab trace": Trace,
    "lab traffic": Traffic | Iperf3,
    "lab up": LabUp,
}
