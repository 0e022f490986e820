"""Repeatable experiments: a file describes the measurement, a directory receives the results.

    FILE ─► description ─► run, in a kernel with taprio ─► rows.csv
                                                              │
                summary.json, pictures, report.html ◄─ report ◄

`measure` does both halves. Where this machine's kernel has no taprio, it runs the first half in
user-mode Linux, in virtual time, through `scripts/vm`; but measurements of speed always run here.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from shutil import copyfile
from typing import Any

from cnc.errors import CncError
from cnc.support.format import counted
from cnc.testbed.experiments import page, pictures
from cnc.testbed.experiments.bound_check import BoundCheck
from cnc.testbed.experiments.bufferbloat import Bufferbloat
from cnc.testbed.experiments.chain import Chain
from cnc.testbed.experiments.chain.description import ChainDescription
from cnc.testbed.experiments.characterizer import Characterizer
from cnc.testbed.experiments.characterizer.description import CharacterizerDescription
from cnc.testbed.experiments.clock_error import ClockError
from cnc.testbed.experiments.clock_loss import ClockLoss
from cnc.testbed.experiments.clock_steps import ClockSteps
from cnc.testbed.experiments.control_loop import ControlLoop
from cnc.testbed.experiments.control_overhead import ControlOverhead
from cnc.testbed.experiments.cyclic_queuing import CyclicQueuing
from cnc.testbed.experiments.description import (
    BoundCheckDescription,
    ClockErrorDescription,
    ClockLossDescription,
    ClockStepsDescription,
    ControlLoopDescription,
    ControlOverheadDescription,
    CyclicQueuingDescription,
    GateShareDescription,
    LaunchTimeDescription,
    ShapersDescription,
    StepResponsesDescription,
    SyncDescription,
    load,
)
from cnc.testbed.experiments.edge_intelligence import EdgeIntelligence
from cnc.testbed.experiments.experiment import (
    ROWS,
    Emulated,
    Experiment,
    OnKernels,
    Progress,
    Report,
)
from cnc.testbed.experiments.gate_share import GateShare
from cnc.testbed.experiments.keys import Description
from cnc.testbed.experiments.launch_time import LaunchTimes
from cnc.testbed.experiments.multipath import Aggregation, OnDemand, Reliability
from cnc.testbed.experiments.multipath.description import (
    AggregationDescription,
    OnDemandDescription,
    ReliabilityDescription,
)
from cnc.testbed.experiments.replay import Replayed
from cnc.testbed.experiments.shapers import Shapers
from cnc.testbed.experiments.step_responses import StepResponses
from cnc.testbed.experiments.switching import Switching
from cnc.testbed.experiments.sync import Sync
from cnc.testbed.experiments.unplanned_description import (
    BufferbloatDescription,
    EdgeIntelligenceDescription,
    ReplayDescription,
    SwitchingDescription,
)
from cnc.testbed.intent.lab_model import Emulation, LabKernels
from cnc.testbed.lab import Lab, lab, vm
from cnc.testbed.lab.kernels import controller, layout
from cnc.testbed.lab.lifecycle import STATE_ROOT
from cnc.testbed.lab.platform import FILE as PLATFORM
from cnc.testbed.lab.platform import Platform, made_by
from cnc.testbed.lab.template import prepare
from cnc.testbed.lab.timer_latency import TimerProbe

SUMMARY = "summary.json"
PAGE = "report.html"
_MADE_OF: Mapping[type[Description], Callable[[Any, Path], Experiment]] = {
    AggregationDescription: Aggregation.of,
    BoundCheckDescription: BoundCheck.of,
    BufferbloatDescription: Bufferbloat.of,
    ChainDescription: Chain.of,
    CharacterizerDescription: Characterizer.of,
    ClockErrorDescription: ClockError.of,
    ClockLossDescription: ClockLoss.of,
    ClockStepsDescription: ClockSteps.of,
    ControlLoopDescription: ControlLoop.of,
    ControlOverheadDescription: lambda its, _: ControlOverhead(its),
    CyclicQueuingDescription: CyclicQueuing.of,
    EdgeIntelligenceDescription: EdgeIntelligence.of,
    GateShareDescription: GateShare.of,
    LaunchTimeDescription: LaunchTimes.of,
    OnDemandDescription: OnDemand.of,
    ReliabilityDescription: Reliability.of,
    ReplayDescription: Replayed.of,
    ShapersDescription: Shapers.of,
    StepResponsesDescription: StepResponses.of,
    SwitchingDescription: lambda its, _: Switching(its),
    SyncDescription: lambda its, _: Sync(its),
}


@dataclass(frozen=True, slots=True)
class Measured:
    """The results of `measure`, and the directory of the files."""

    description: Description
    platform: Platform
    report: Report
    directory: Path


def measure(
    file: Path,
    directory: Path,
    progress: Progress = lambda _: None,
    *,
    command: str | None = None,
) -> Measured:
    """Run the experiment of `file` and leave rows, summary, pictures and page in `directory`.

    `command` is the command line that asked for it, for platform.json.

    Raises:
        InputError: the file is invalid; nothing was run.
        CncError: it could not be run.
    """
    description = load(file)
    experiment = experiment_of(description, file)
    pictures.require()
    directory.mkdir(parents=True, exist_ok=True)
    if isinstance(experiment, OnKernels):
        progress(f"starting {counted(len(layout.kernels(experiment.emulated)), 'kernel')}")
        with lab(experiment.emulated, emulation=Emulation(LabKernels.OWN)) as running:
            _run_on_controller(running, file, directory)
    elif isinstance(experiment, Emulated) and "TSN_VM" not in os.environ:
        prepare(experiment.emulated)
        with tempfile.TemporaryDirectory(prefix="cnc-experiment-") as out:
            vm.run_module(__name__, [str(file.resolve())], Path(out))
            for name in (ROWS, PLATFORM):
                copyfile(Path(out, name), directory / name)
    else:
        run(file, directory, progress)
    Platform.read(directory).write(directory, made_by(command))
    return make_report(file, directory)


def _run_on_controller(running: Lab, file: Path, directory: Path) -> None:
    """Run the first half on the controller of a lab of kernels, and fetch what it leaves.

    Raises:
        CncError: it failed, and has said why.
    """
    code = controller.run_module(running, __name__, [str(file.resolve())], directory)
    if code != 0:
        raise CncError(f"the experiment ended with exit code {code}", hint="its messages are above")


def run(file: Path, directory: Path, progress: Progress) -> None:
    """The first half: write the rows, and the platform of the measurement."""
    experiment = experiment_of(load(file), file)
    timers = TimerProbe()
    if isinstance(experiment, OnKernels):
        intent = experiment.emulated
        experiment.run_on(Lab(intent, STATE_ROOT / intent.name), directory, progress)
    elif isinstance(experiment, Emulated):
        agents = len(experiment.emulated.network.managed)
        progress(f"starting {counted(agents, 'agent')}")
        with lab(experiment.emulated, timed_wires=Platform.here().exact) as running, timers:
            experiment.run_in(running, directory, progress)
    else:
        with timers:
            experiment.run(directory, progress)
    Platform.here(timers.latency).write(directory)


def make_report(file: Path, directory: Path) -> Measured:
    """The second half: compute all figures from the rows in `directory`."""
    description = load(file)
    platform = Platform.read(directory)
    report = experiment_of(description, file).report(directory, platform)
    summary = {
        "experiment": description.name,
        "kind": description.kind,
        "title": description.title,
        "seed": description.seed,
        "platform": asdict(platform),
        "modelled": report.modelled,
        **report.summary,
        "disagreements": list(report.disagreements),
        "remarks": list(report.remarks),
    }
    (directory / SUMMARY).write_text(json.dumps(summary, indent=2) + "\n")
    facts = {"measured on": str(platform), "seed": str(description.seed)}
    if report.modelled:
        facts["modelled"] = report.modelled
    drawn = pictures.save(report.pictures, directory, facts)
    text = page.page(description.title, facts, report, drawn, file.read_text())
    (directory / PAGE).write_text(text)
    return Measured(description, platform, report, directory)


def experiment_of(description: Description, file: Path) -> Experiment:
    """The experiment that a description is of; `file` is its path.

    Raises:
        InputError: what it is to be judged by does not describe it.
    """
    return _MADE_OF[type(description)](description, file)


def summary_of(directory: Path) -> dict[str, Any]:
    """The contents of `summary.json`."""
    summary: dict[str, Any] = json.loads((directory / SUMMARY).read_text())
    return summary
