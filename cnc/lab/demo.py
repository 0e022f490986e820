"""The whole product once, on an emulated network: plan, check, push, send traffic, judge.

    python -m cnc.lab.demo schedules/line3.yaml

It brings the lab up in the kernel it runs in, which must have taprio, and takes it down again.
`scripts/demo` picks the kernel. The exit code is 0 only if every switch runs what was planned and
every frame kept its promise; where the clock is not exact, frames are shown, not judged.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from cnc.check import judge
from cnc.errors import CncError, PlanRejected
from cnc.format import counted
from cnc.intent import load
from cnc.lab import report
from cnc.lab.lifecycle import lab
from cnc.lab.platform import Figures, Outcome, Platform, SwitchFigures
from cnc.lab.running import Lab
from cnc.lab.slower import slower
from cnc.lab.template import prepare
from cnc.model import NS_PER_S, Plan
from cnc.planner import plan as compute
from cnc.rollout import PortStatus, push, status
from cnc.traffic.endpoint import tai_ns
from cnc.traffic.measure import summarise, wake_up_error
from cnc.traffic.recording import flows, run

CYCLES = 1_000
PENDING_TIMEOUT_S = 10.0
POLL_INTERVAL_S = 0.05

_Result = TypeVar("_Result")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; exit code 0 all agrees, 1 something does not, 2 bad input."""
    options = _parser().parse_args(arguments)
    steps = _Steps()
    try:
        if options.prepare:
            prepare(load(options.intent))
            return 0
        outcome = _demonstrate(options, steps)
    except CncError as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201
        if error.hint:
            print(f"hint: {error.hint}", file=sys.stderr)  # noqa: T201
        return error.exit_code
    if options.keep_figures:
        options.keep_figures.write_text(outcome.figures.dump())
    disagreements = outcome.disagreements()
    if options.json:
        print(json.dumps(outcome.document(), indent=2))  # noqa: T201
    else:
        report.show(outcome, disagreements)
    return 1 if disagreements else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m cnc.lab.demo", description="Plan, push and measure an emulated network."
    )
    parser.add_argument("intent", type=Path, help="the intent file")
    parser.add_argument(
        "--prepare",
        action="store_true",
        help="only have in the cache what the switches start from, for a guest that boots next",
    )
    parser.add_argument("--json", action="store_true", help="print data for programs")
    parser.add_argument("--no-traffic", action="store_true", help="stop after the push")
    parser.add_argument(
        "--slower",
        type=int,
        default=1,
        metavar="N",
        help="emulate the network N times slower, for a clock that is not exact",
    )
    parser.add_argument(
        "--cycles", type=int, default=CYCLES, metavar="N", help="how long to send (default 1000)"
    )
    parser.add_argument(
        "--keep-figures", type=Path, metavar="FILE", help="write what the control plane took"
    )
    parser.add_argument(
        "--figures",
        type=Path,
        metavar="FILE",
        help="report these figures, kept by a run in real time, instead of this run's own",
    )
    parser.add_argument(
        "--records", type=Path, metavar="DIR", help="keep the record of every frame here"
    )
    return parser


def _demonstrate(options: argparse.Namespace, steps: _Steps) -> Outcome:
    intent = slower(load(options.intent), options.slower)
    planned, plan_ns = steps.timed("planning", lambda: compute(intent))
    violations, check_ns = steps.timed("checking the plan", lambda: judge(planned))
    if violations:
        raise PlanRejected(
            "\n".join(f"{v.where}: {v.text}" for v in violations),
            hint="this is a defect of the planner; please report it with the intent file",
        )
    steps.begin(f"starting {counted(len(intent.network.bridges), 'switch')}")
    with lab(intent, timed_wires=Platform.here().exact) as running:
        pushed = push(
            planned, connect=running.connect, listener=lambda event: steps.begin(str(event))
        )
        figures = Figures(
            platform=str(Platform.here()),
            plan_ns=plan_ns,
            check_ns=check_ns,
            push_ns=pushed.total_ns,
            switches={
                name: SwitchFigures(times.payload_ns, times.netconf_ns, times.apply_ns)
                for name, times in pushed.times.items()
            },
        )
        if options.figures:
            figures = Figures.load(options.figures.read_text())
        steps.begin("waiting for the first cycle")
        ports = _ports_once_running(planned, running, pushed.base_time_ns)
        outcome = Outcome(Platform.here(), ports, figures, slower=options.slower)
        if options.no_traffic:
            return outcome
        return _with_traffic(outcome, planned, running, options, steps)


def _with_traffic(
    before: Outcome, planned: Plan, running: Lab, options: argparse.Namespace, steps: _Steps
) -> Outcome:
    sent = flows(planned)
    duration_ns = options.cycles * planned.intent.hyperperiod_ns()
    cycles = counted(options.cycles, "cycle")
    steps.begin(f"sending {cycles} of traffic ({duration_ns / NS_PER_S:.1f} s)")
    with tempfile.TemporaryDirectory() as scratch:
        frames = run(running, sent, duration_ns, options.records or Path(scratch))
    steps.begin("reading back what the kernels run")
    return Outcome(
        platform=before.platform,
        ports=status(planned, connect=running.connect),
        figures=before.figures,
        slower=before.slower,
        streams=summarise(planned, sent, frames, timed_wires=before.platform.exact),
        wake_up_error=wake_up_error(sent, frames),
    )


def _ports_once_running(planned: Plan, running: Lab, base_time_ns: int | None) -> list[PortStatus]:
    """The ports' state when no schedule is pending any more, or after PENDING_TIMEOUT_S."""
    if base_time_ns is not None:
        time.sleep(max(0, base_time_ns - tai_ns()) / NS_PER_S)
    deadline = time.monotonic() + PENDING_TIMEOUT_S
    while True:
        ports = status(planned, connect=running.connect)
        if not any(port.pending for port in ports) or time.monotonic() > deadline:
            return ports
        time.sleep(POLL_INTERVAL_S)


class _Steps:
    """Names each step on the error stream as it begins."""

    def __init__(self) -> None:
        self._started = time.monotonic()

    def begin(self, step: str) -> None:
        print(f"{time.monotonic() - self._started:6.1f} s  {step}", file=sys.stderr, flush=True)  # noqa: T201

    def timed(self, step: str, action: Callable[[], _Result]) -> tuple[_Result, int]:
        """The action's result and how long it took, in nanoseconds."""
        self.begin(step)
        begun_ns = time.perf_counter_ns()
        result = action()
        return result, time.perf_counter_ns() - begun_ns


if __name__ == "__main__":
    sys.exit(main())
