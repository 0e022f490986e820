"""`cnc lab trace`: where the time of each frame goes, layer by layer."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cnc import app
from cnc.cli.completion import Files
from cnc.cli.options import JSON, command_line, history_option, quantity
from cnc.cli.terminal import echo
from cnc.errors import InputError
from cnc.support import whole_file
from cnc.support.lazy import lazy_import
from cnc.testbed.cli.render import trace as render
from cnc.testbed.cli.sending import length_ns, plan_to_send, say

if TYPE_CHECKING:
    from cnc.testbed.app import tracing
    from cnc.testbed.experiments import pictures as drawing
    from cnc.testbed.experiments import trace_pictures
    from cnc.testbed.experiments.experiment import Picture
    from cnc.testbed.traffic.trace.report import TraceReport
else:
    drawing = lazy_import("cnc.testbed.experiments.pictures")
    trace_pictures = lazy_import("cnc.testbed.experiments.trace_pictures")
    tracing = lazy_import("cnc.testbed.app.tracing")

_PAGE = "report.html"


@click.command()
@click.argument(
    "files",
    metavar="FILE",
    type=Files(".yaml", ".yml", ".json", ".csv", ".txt"),
    nargs=-1,
    required=True,
)
@click.option(
    "--import",
    "is_import",
    is_flag=True,
    help="Send nothing: FILE is the sender's table of tsn-probe, and after it the receiver's, or a "
    "report of isochron.",
)
@click.option(
    "--duration", "duration_ns", callback=quantity("DURATION"), help="How long (default 1s)."
)
@click.option("--cycles", type=click.IntRange(min=1), help="How long, in cycles of the schedule.")
@click.option(
    "--kernel",
    "with_kernel",
    is_flag=True,
    help="Record events of the kernel, too: they tell queues from processing, and how long "
    "listeners' programs take to wake up.",
)
@click.option(
    "--tcp",
    metavar="FLOW",
    multiple=True,
    help="Send this flow over TCP, a segment for each frame; may be repeated.",
)
@click.option("--frame", metavar="FLOW/SEQ", help="Show the path of one frame, such as motion/17.")
@click.option("--outliers", is_flag=True, help="Count what makes the latest frames late.")
@click.option("--correlation", is_flag=True, help="Show which layers the total varies with.")
@click.option("--drift", is_flag=True, help="Show how the total moves over the run.")
@click.option(
    "--pictures",
    type=click.Path(file_okay=False, path_type=Path),
    help="Draw layers, frames, stages, causes, correlation and drift into this directory, with a "
    "page that has all pictures and tables (report.html).",
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
    files: tuple[Path, ...],
    is_import: bool,
    duration_ns: int | None,
    cycles: int | None,
    with_kernel: bool,
    tcp: tuple[str, ...],
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
    of its own and of other classes ahead, and the listener; over TCP retransmission and octets that
    are missing before, too. The ports must run the lists of FILE. Pictures are
    SVG, PNG and PDF; with --frame there is one of that frame, too. Where each node is a kernel with
    a clock of its own, all times are true ones.

    With --import it accounts for what tsn-probe or isochron recorded between two real hosts, whose
    clocks need not agree: the sender until a packet leaves, and the receiver from its arrival on.
    """
    from cnc.testbed.app import trace as traces  # noqa: PLC0415
    from cnc.testbed.traffic.trace import table  # noqa: PLC0415

    if is_import and (duration_ns or cycles):
        raise click.UsageError("--import sends nothing: it takes no --duration and no --cycles")
    if is_import and with_kernel:
        raise click.UsageError("--import sends nothing: it takes no --kernel")
    if tcp and (is_import or with_kernel):
        raise click.UsageError("--tcp goes neither with --import nor with --kernel")
    if not is_import and len(files) > 1:
        raise click.UsageError(f"found {len(files)} files, expected one, or --import")
    if pictures:
        drawing.require()
    wanted = _frame(frame) if frame else None
    keep = traces.Keep(wanted, output, pictures)
    if is_import:
        found = traces.of_hosts(files, keep)
    else:
        sending = _sending(
            *(files[0], keep.flow, duration_ns, cycles, state_dir), tcp=tcp, with_kernel=with_kernel
        )
        found = traces.of_lab(sending, keep, command_line())
    if wanted and not found.frames:
        raise InputError(
            f"--frame: {wanted[0]} has no frame {wanted[1]}{'' if is_import else ' in this time'}",
            hint=None if is_import else "the first is 0; send for longer",
        )
    drawn = _draw(found, pictures) if pictures else []
    asked_for = _shown(found, outliers=outliers, correlation=correlation, drift=drift)
    render.trace(asked_for, as_json=as_json)
    if output and not as_json:
        tables = f"{output}/{table.FRAMES}, its parts in {output}/{table.PARTS}"
        ports = "" if is_import else f", at each port in {output}/{traces.CAPTURE}"
        echo(f"every frame is in {tables}{ports}")
    if pictures and not as_json:
        echo(
            f"pictures are in {pictures}, and {pictures}/{_PAGE} shows it all"
            if drawn
            else f"no pictures: no frame is complete; tables are in {pictures}/{_PAGE}"
        )


def _sending(
    file: Path,
    flow: str,
    duration_ns: int | None,
    cycles: int | None,
    state_dir: Path,
    *,
    tcp: Sequence[str],
    with_kernel: bool,
) -> tracing.Sending:
    document = app.load(file)
    return tracing.Sending(
        *(file, document, length_ns(app.intent_of(document), duration_ns, cycles), state_dir, flow),
        plan_for=partial(plan_to_send, document=document, state_dir=state_dir),
        say=say,
        kernel=with_kernel,
        tcp=tcp,
    )


def _shown(found: TraceReport, *, outliers: bool, correlation: bool, drift: bool) -> render.Found:
    return render.Found(
        platform=found.platform,
        start_ns=found.start_ns,
        flows=found.flows,
        margins=found.margins,
        outliers=found.outliers if outliers else None,
        correlations=found.correlations if correlation else None,
        drifts=found.drifts if drift else None,
        frames=found.frames or None,
        true_time=found.true_time,
        imported=found.imported,
    )


def _draw(found: TraceReport, directory: Path) -> Sequence[Picture]:
    """Pictures, and the page that has them beside all tables."""
    from cnc.testbed.cli.render.trace_page import page  # noqa: PLC0415

    pictures = trace_pictures.pictures_of(found.paths, found.start_ns, found.frames)
    drawn = drawing.save(pictures, directory, found.facts)
    command = command_line()
    facts = {**found.facts, **({"command": command} if command else {})}
    everything = _shown(found, outliers=True, correlation=True, drift=True)
    text = page(f"Where the time of frames of {found.of} goes", facts, everything, pictures, drawn)
    whole_file.write(directory / _PAGE, text)
    return pictures


def _frame(text: str) -> tuple[str, int]:
    flow, slash, seq = text.rpartition("/")
    if not (flow and slash and seq.isdecimal()):
        raise click.UsageError(f"--frame: found {text!r}, expected FLOW/SEQ, such as motion/17")
    return flow, int(seq)
