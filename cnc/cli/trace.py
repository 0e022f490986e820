"""`cnc lab trace`: where the time of each frame goes, layer by layer."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cnc import app
from cnc.cli.options import FILE, JSON, history_option, quantity
from cnc.cli.render import trace as render
from cnc.cli.sending import await_schedule, intent_of, length_ns, plan_to_send
from cnc.cli.terminal import echo
from cnc.errors import CncError, InputError
from cnc.lazy import lazy_import
from cnc.model import Plan

if TYPE_CHECKING:
    from cnc import rollout
    from cnc.lab import Lab
else:
    rollout = lazy_import("cnc.rollout")

_CAPTURE = "trace.pcapng"


@click.command()
@click.argument("file", type=FILE)
@click.option(
    "--duration", "duration_ns", callback=quantity("DURATION"), help="How long (default 1s)."
)
@click.option("--cycles", type=click.IntRange(min=1), help="How long, in cycles of the schedule.")
@click.option("--frame", metavar="FLOW/SEQ", help="Show the way of one frame, such as motion/17.")
@click.option("--outliers", is_flag=True, help="Count what makes the latest frames late.")
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep the trace of every frame in this directory.",
)
@history_option
@JSON
def trace(  # noqa: PLR0917  one parameter an option
    file: Path,
    duration_ns: int | None,
    cycles: int | None,
    frame: str | None,
    outliers: bool,
    output: Path | None,
    state_dir: Path,
    as_json: bool,
) -> None:
    """Send FILE's streams through the lab that is up, and say where their time goes.

    Sends what `cnc lab traffic` does, and taps every port. The time of each frame is divided among
    wake-up of the talker, its socket and queue, wire, processing in switches, closed gates, frames
    of its own and of other classes ahead, and the listener. The ports must run the lists of FILE.
    """
    from cnc.lab import attach  # noqa: PLC0415
    from cnc.lab.platform import Platform  # noqa: PLC0415
    from cnc.traffic.flows import flows  # noqa: PLC0415
    from cnc.traffic.trace import captured, margins, record, summary, table  # noqa: PLC0415
    from cnc.traffic.trace.outliers import outliers as counted  # noqa: PLC0415

    wanted = _frame(frame) if frame else None
    document = app.load(file)
    intent = intent_of(document)
    send_ns = length_ns(intent, duration_ns, cycles)
    lab = attach.attach(intent)
    plan = plan_to_send(lab, document, state_dir)
    sent = flows(plan)
    if wanted and wanted[0] not in (names := [flow.name for flow in sent]):
        raise InputError(
            f"--frame: found the flow {wanted[0]!r}, expected one of {', '.join(names)}",
            hint="a stream to several listeners is a flow to each",
        )
    await_schedule(lab)
    _refuse_other_lists(lab, plan)
    with ExitStack() as stack:
        directory = output or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        traced = record.record(lab, plan, sent, send_ns, directory, keep=bool(output))
    accounts = traced.accounts()
    shown = [each for each in accounts if wanted == (each.row.flow.name, each.row.seq)]
    if wanted and not shown:
        raise InputError(
            f"--frame: {wanted[0]} has no frame {wanted[1]} in this time",
            hint="the first is 0; send for longer",
        )
    if output:
        table.write(accounts, traced.recording.start_ns, output)
        with (output / _CAPTURE).open("wb") as capture:
            captured.write(traced, capture)
    render.trace(
        render.Found(
            platform=Platform.here(),
            start_ns=traced.recording.start_ns,
            flows=summary.summarise(accounts),
            margins=margins.margins(plan, [each.row for each in accounts]),
            outliers=counted(accounts) if outliers else None,
            frames=shown or None,
        ),
        as_json=as_json,
    )
    if output and not as_json:
        tables = f"{output}/{table.FRAMES}, its parts in {output}/{table.PARTS}"
        echo(f"every frame is in {tables}, at each port in {output}/{_CAPTURE}")


def _frame(text: str) -> tuple[str, int]:
    flow, slash, seq = text.rpartition("/")
    if not (flow and slash and seq.isdecimal()):
        raise click.UsageError(f"--frame: found {text!r}, expected FLOW/SEQ, such as motion/17")
    return flow, int(seq)


def _refuse_other_lists(lab: Lab, plan: Plan) -> None:
    """Raise CncError if a port runs another gate control list than that which is accounted by."""
    for port in rollout.status(plan, connect=lab.connect):
        running = port.running.gates if port.running else None
        if port.intended != running:
            raise CncError(
                f"{port.port} runs another gate control list than the plan has: {port.verdict}",
                hint="`cnc push` the same file first",
            )
