"""`cnc lab trace`: where the time of each frame goes, layer by layer."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cnc import app
from cnc.cli.options import FILE, JSON, command_line, history_option, quantity
from cnc.cli.render import trace as render
from cnc.cli.sending import await_schedule, intent_of, length_ns, plan_to_send
from cnc.cli.terminal import echo
from cnc.errors import CncError, InputError
from cnc.lazy import lazy_import
from cnc.model import Plan

if TYPE_CHECKING:
    from cnc import rollout
    from cnc.experiments import pictures as drawing
    from cnc.experiments import trace_pictures
    from cnc.lab import Lab
    from cnc.traffic.trace.account import Account
    from cnc.traffic.trace.columns import PathColumns
    from cnc.traffic.trace.margins import HopMargin
    from cnc.traffic.trace.record import Trace
else:
    rollout = lazy_import("cnc.rollout")
    drawing = lazy_import("cnc.experiments.pictures")
    trace_pictures = lazy_import("cnc.experiments.trace_pictures")

_CAPTURE = "trace.pcapng"


@click.command()
@click.argument("file", type=FILE)
@click.option(
    "--duration", "duration_ns", callback=quantity("DURATION"), help="How long (default 1s)."
)
@click.option("--cycles", type=click.IntRange(min=1), help="How long, in cycles of the schedule.")
@click.option("--frame", metavar="FLOW/SEQ", help="Show the way of one frame, such as motion/17.")
@click.option("--outliers", is_flag=True, help="Count what makes the latest frames late.")
@click.option("--correlation", is_flag=True, help="Show which layers the total varies with.")
@click.option("--drift", is_flag=True, help="Show how the total moves over the run.")
@click.option(
    "--pictures",
    type=click.Path(file_okay=False, path_type=Path),
    help="Draw layers, frames, stages, causes, correlation and drift into this directory.",
)
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
    correlation: bool,
    drift: bool,
    pictures: Path | None,
    output: Path | None,
    state_dir: Path,
    as_json: bool,
) -> None:
    """Send FILE's streams through the lab that is up, and say where their time goes.

    Sends what `cnc lab traffic` does, and taps every port. The time of each frame is divided among
    wake-up of the talker, its socket and queue, wire, processing in switches, closed gates, frames
    of its own and of other classes ahead, and the listener. The ports must run the lists of FILE.
    Pictures are SVG, PNG and PDF.
    """
    from cnc.lab import attach  # noqa: PLC0415
    from cnc.lab.platform import Platform, made_by  # noqa: PLC0415
    from cnc.traffic.flows import flows  # noqa: PLC0415
    from cnc.traffic.trace import captured, record, table  # noqa: PLC0415
    from cnc.traffic.trace.correlation import correlations  # noqa: PLC0415
    from cnc.traffic.trace.drift import drifts  # noqa: PLC0415
    from cnc.traffic.trace.outliers import outliers as counted  # noqa: PLC0415
    from cnc.traffic.trace.summary import summarise  # noqa: PLC0415

    if pictures:
        drawing.require()
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
    if pictures:
        pictures.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        directory = output or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        recorded = record.record(lab, plan, sent, send_ns, directory, keep=bool(output))
    taken = _take(recorded, wanted, output)
    if wanted and not taken.frames:
        raise InputError(
            f"--frame: {wanted[0]} has no frame {wanted[1]} in this time",
            hint="the first is 0; send for longer",
        )
    if output:
        with (output / _CAPTURE).open("wb") as capture:
            captured.write(recorded, capture)
    platform = Platform.here()
    for kept in filter(None, (output, pictures)):
        platform.write(kept, made_by(command_line()))
    if pictures:
        facts = {"network": intent.name, "measured on": str(platform)}
        drawn = trace_pictures.pictures_of(taken.paths, recorded.recording.start_ns)
        drawing.save(drawn, pictures, facts)
    render.trace(
        render.Found(
            platform=platform,
            start_ns=recorded.recording.start_ns,
            flows=summarise(taken.paths),
            margins=taken.margins,
            outliers=counted(taken.paths) if outliers else None,
            correlations=correlations(taken.paths) if correlation else None,
            drifts=drifts(taken.paths) if drift else None,
            frames=taken.frames or None,
        ),
        as_json=as_json,
    )
    if output and not as_json:
        tables = f"{output}/{table.FRAMES}, its parts in {output}/{table.PARTS}"
        echo(f"every frame is in {tables}, at each port in {output}/{_CAPTURE}")
    if pictures and not as_json:
        echo(f"pictures are in {pictures}" if drawn else "no pictures: no frame is complete")


@dataclass(frozen=True, slots=True)
class _Taken:
    """What is kept of the accounts of a trace; `frames` those that were wanted."""

    paths: Sequence[PathColumns]
    margins: Sequence[HopMargin]
    frames: Sequence[Account]


def _take(recorded: Trace, wanted: tuple[str, int] | None, output: Path | None) -> _Taken:
    """Take the accounts of all frames one at a time, and write the tables if there is a directory
    for them."""
    from cnc.traffic.trace.columns import ByPath  # noqa: PLC0415
    from cnc.traffic.trace.margins import Margins  # noqa: PLC0415
    from cnc.traffic.trace.table import Tables  # noqa: PLC0415

    by_path, margins, frames = ByPath(), Margins(recorded.plan), []
    with ExitStack() as stack:
        tables = None
        if output:
            of_run = Tables(output, recorded.recording.start_ns, recorded.hops_max)
            tables = stack.enter_context(of_run)
        for each in recorded.accounts():
            by_path.add(each)
            margins.add(each.row)
            if tables:
                tables.add(each)
            if wanted == (each.row.flow.name, each.row.seq):
                frames.append(each)
    return _Taken(by_path.paths(), margins.hops(), frames)


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
