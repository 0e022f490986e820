"""The first half of `cnc lab trace`: send the streams of a file, with taps at all ports.

In a lab with a kernel for each node `cli.trace_on_controller` does that, inside the lab's time.
What passes the ports comes from the cables, which only the machine has that has started the lab.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from cnc.app import intent_of
from cnc.errors import CncError, InputError
from cnc.support.lazy import lazy_import
from cnc.testbed.app.sending import Say, await_schedule

if TYPE_CHECKING:
    from cnc import rollout
    from cnc.model import Intent, Plan
    from cnc.testbed.lab import Lab
    from cnc.testbed.lab.platform import Platform
    from cnc.testbed.traffic.recording import AnyFlow
    from cnc.testbed.traffic.trace.record import Trace
else:
    rollout = lazy_import("cnc.rollout")

REFUSED = "refused.json"  # why the controller has sent nothing
_ON_CONTROLLER = "cnc.testbed.cli.trace_on_controller"


@dataclass(frozen=True, slots=True)
class Sending:
    """What is to be sent: the streams of `document`, which a file holds, for so long, by the plan
    that the history of rollouts in `state_dir` leads to; `plan_for` has it of a lab of this kernel.
    `flow` is one of which a frame is wanted; empty: none. With `kernel` events of the kernel are
    recorded, too. The flows of `tcp` go over TCP."""

    file: Path
    document: Plan | Intent
    duration_ns: int
    state_dir: Path
    flow: str
    plan_for: Callable[[Lab], Plan]
    say: Say
    kernel: bool = False
    tcp: Sequence[str] = ()


def traced(sending: Sending, directory: Path, *, keep: bool) -> tuple[Trace, Platform]:
    """Send through the lab that is up for an intent; what was recorded, where that was, and
    in `directory` the record of every frame. `keep`: the trace can be written as a capture.

    Raises:
        InputError: a flow is unknown, or this is the controller of a lab of kernels, or events are
            wanted that this kernel, or this lab, cannot record.
        CncError: no such lab is up, its ports run other lists, or an end station's program failed.
    """
    from cnc.testbed.lab import lifecycle  # noqa: PLC0415
    from cnc.testbed.lab.kernels import beside  # noqa: PLC0415
    from cnc.testbed.lab.platform import Platform  # noqa: PLC0415
    from cnc.testbed.lab.timer_latency import TimerProbe  # noqa: PLC0415
    from cnc.testbed.traffic.cables import has_cables  # noqa: PLC0415
    from cnc.testbed.traffic.trace import record  # noqa: PLC0415

    intent = intent_of(sending.document)
    if beside.is_written(lifecycle.directory_of(intent.name, lifecycle.STATE_ROOT)):
        raise InputError(
            f"the cables of lab {intent.name} are not on this node, which is one of its kernels",
            hint="run `cnc lab trace` on the machine that has started the lab",
        )
    if has_cables(intent.name):
        if sending.kernel:
            raise InputError(
                f"--kernel: lab {intent.name} has a kernel for each node, whose events and clocks "
                "are its own",
                hint="trace it without --kernel, or a lab of `cnc lab up` without --kernels own",
            )
        return _of_kernels(sending, directory, keep=keep)
    lab, plan, sent = ready(sending)
    with TimerProbe() as timers:
        trace = record.record(
            *(lab, plan, sent, sending.duration_ns, directory), keep=keep, kernel=sending.kernel
        )
    return trace, Platform.here(timers.latency)


def refuse_unknown(flow: str, flows: Sequence[str]) -> None:
    """Raise InputError for a flow that is not among these; an empty one is none."""
    if flow and flow not in flows:
        raise InputError(
            f"--frame: found the flow {flow!r}, expected one of {', '.join(flows)}",
            hint="a stream to several listeners is a flow to each" if len(flows) > 1 else None,
        )


def _of_kernels(sending: Sending, directory: Path, *, keep: bool) -> tuple[Trace, Platform]:
    """As `traced`, on the machine that has started the lab."""
    from cnc.testbed.lab import Lab, lifecycle  # noqa: PLC0415
    from cnc.testbed.lab.kernels import controller  # noqa: PLC0415
    from cnc.testbed.lab.platform import Platform  # noqa: PLC0415
    from cnc.testbed.traffic.trace import record  # noqa: PLC0415

    intent = intent_of(sending.document)
    lab = Lab(intent, lifecycle.STATE_ROOT / intent.name)
    words = (
        *(sending.file.resolve(), sending.duration_ns, sending.state_dir, sending.flow),
        *sending.tcp,
    )

    def send() -> None:
        with TemporaryDirectory() as scratch:
            results = Path(scratch)
            code = controller.run_module(lab, _ON_CONTROLLER, [*map(str, words)], results)
            if code != 0:
                raise _refusal(results, code)
            shutil.copytree(results, directory, dirs_exist_ok=True)

    trace = record.record_kernels(lab, send, directory, keep=keep, tcp=sending.tcp)
    return trace, Platform.read(directory)


def _refusal(results: Path, code: int) -> CncError:
    """Why nothing was sent."""
    file = results / REFUSED
    if not file.exists():
        return CncError(f"sending ended with exit code {code}", hint="its messages are above")
    refused = json.loads(file.read_text())
    kind = InputError if code == InputError.exit_code else CncError
    return kind(refused["message"], hint=refused["hint"])


def ready(sending: Sending) -> tuple[Lab, Plan, Sequence[AnyFlow]]:
    """The lab, the plan whose lists its ports run, and its flows, once the schedule has begun.

    Raises what `traced` does.
    """
    from cnc.testbed.lab import attach  # noqa: PLC0415
    from cnc.testbed.traffic.flows import flows, over_tcp  # noqa: PLC0415

    lab = attach.attach(intent_of(sending.document))
    plan = sending.plan_for(lab)
    sent = over_tcp(flows(plan), sending.tcp)
    refuse_unknown(sending.flow, [flow.name for flow in sent])
    await_schedule(lab, sending.say)
    _refuse_other_lists(lab, plan)
    return lab, plan, sent


def _refuse_other_lists(lab: Lab, plan: Plan) -> None:
    """Raise CncError if a port runs another gate control list than that which is accounted by."""
    for port in rollout.status(plan, connect=lab.connect):
        running = port.running.gates if port.running else None
        if port.intended != running:
            raise CncError(
                f"{port.port} runs another gate control list than the plan has: {port.verdict}",
                hint="`cnc push` the same file first",
            )
