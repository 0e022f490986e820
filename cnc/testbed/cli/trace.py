"""`cnc lab trace`: where the time of each frame goes, layer by layer."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cnc import app
from cnc.cli.completion import Files
from cnc.cli.options import JSON, command_line, history_option, intent_of, quantity
from cnc.cli.terminal import echo
from cnc.errors import InputError
from cnc.support import whole_file
from cnc.support.lazy import lazy_import
from cnc.testbed.cli import tracing
from cnc.testbed.cli.render import trace as render
from cnc.testbed.cli.sending import length_ns

if TYPE_CHECKING:
    from cnc.testbed.experiments import pictures as drawing
    from cnc.testbed.experiments import trace_pictures
    from cnc.testbed.experiments.experiment import Picture
    from cnc.testbed.lab.platform import Platform
    from cnc.testbed.traffic.trace.account import Account
    from cnc.testbed.traffic.trace.clocks import TrueTime
    from cnc.testbed.traffic.trace.columns import PathColumns
    from cnc.testbed.traffic.trace.imported import ImportedRun
    from cnc.testbed.traffic.trace.margins import HopMargin
else:
    drawing = lazy_import("cnc.testbed.experiments.pictures")
    trace_pictures = lazy_import("cnc.testbed.experiments.trace_pictures")

_CAPTURE, _PAGE = "trace.pcapng", "report.html"


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
    Pictures are SVG, PNG and PDF; with --frame there is one of that frame, too. Where each node is
    a kernel with a clock of its own, all times are true ones.

    With --import it accounts for what tsn-probe or isochron recorded between two real hosts, whose
    clocks need not agree: the sender until a packet leaves, and the receiver from its arrival on.
    """
    from cnc.testbed.traffic.trace import table  # noqa: PLC0415
    from cnc.testbed.traffic.trace.correlation import correlations  # noqa: PLC0415
    from cnc.testbed.traffic.trace.drift import drifts  # noqa: PLC0415
    from cnc.testbed.traffic.trace.outliers import outliers as counted  # noqa: PLC0415
    from cnc.testbed.traffic.trace.summary import summarise  # noqa: PLC0415

    if is_import and (duration_ns or cycles):
        raise click.UsageError("--import sends nothing: it takes no --duration and no --cycles")
    if is_import and with_kernel:
        raise click.UsageError("--import sends nothing: it takes no --kernel")
    if not is_import and len(files) > 1:
        raise click.UsageError(f"found {len(files)} files, expected one, or --import")
    if pictures:
        drawing.require()
    wanted = _frame(frame) if frame else None
    keep = _Keep(wanted, pictures, output)
    if is_import:
        taken = _import(files, keep)
    else:
        taken = _record(files[0], duration_ns, cycles, state_dir, keep, with_kernel=with_kernel)
    if wanted and not taken.frames:
        raise InputError(
            f"--frame: {wanted[0]} has no frame {wanted[1]}{'' if is_import else ' in this time'}",
            hint=None if is_import else "the first is 0; send for longer",
        )
    found = render.Found(
        platform=taken.platform,
        start_ns=taken.start_ns,
        flows=summarise(taken.paths),
        margins=taken.margins,
        outliers=counted(taken.paths) if outliers or pictures else None,
        correlations=correlations(taken.paths) if correlation or pictures else None,
        drifts=drifts(taken.paths) if drift or pictures else None,
        frames=taken.frames or None,
        true_time=taken.true_time,
        imported=taken.imported,
    )
    drawn = _draw(taken, found, pictures) if pictures else []
    asked_for = replace(
        found,
        outliers=found.outliers if outliers else None,
        correlations=found.correlations if correlation else None,
        drifts=found.drifts if drift else None,
    )
    render.trace(asked_for, as_json=as_json)
    if output and not as_json:
        tables = f"{output}/{table.FRAMES}, its parts in {output}/{table.PARTS}"
        ports = "" if is_import else f", at each port in {output}/{_CAPTURE}"
        echo(f"every frame is in {tables}{ports}")
    if pictures and not as_json:
        echo(
            f"pictures are in {pictures}, and {pictures}/{_PAGE} shows it all"
            if drawn
            else f"no pictures: no frame is complete; tables are in {pictures}/{_PAGE}"
        )


def _draw(taken: _Taken, found: render.Found, directory: Path) -> Sequence[Picture]:
    """Pictures, and the page that has them beside all tables."""
    from cnc.testbed.cli.render.trace_page import page  # noqa: PLC0415

    pictures = trace_pictures.pictures_of(taken.paths, taken.start_ns, taken.frames)
    drawn = drawing.save(pictures, directory, taken.facts)
    command = command_line()
    facts = {**taken.facts, **({"command": command} if command else {})}
    text = page(f"Where the time of frames of {taken.of} goes", facts, found, pictures, drawn)
    whole_file.write(directory / _PAGE, text)
    return pictures


@dataclass(frozen=True, slots=True)
class _Keep:
    """What to keep of a trace beside its figures, and where; None: nothing."""

    frame: tuple[str, int] | None
    pictures: Path | None
    output: Path | None

    @property
    def flow(self) -> str:
        """That of the frame; empty: none is wanted."""
        return self.frame[0] if self.frame else ""

    def directories(self) -> Iterator[Path]:
        yield from filter(None, (self.pictures, self.output))

    def make_directories(self) -> None:
        for directory in self.directories():
            directory.mkdir(parents=True, exist_ok=True)


@dataclass(frozen=True, slots=True)
class _Taken:
    """What is kept of the accounts of a trace; `frames` those that were wanted. `of` names the
    network, or the packets; `facts` stand below pictures."""

    of: str
    paths: Sequence[PathColumns]
    frames: Sequence[Account]
    start_ns: int
    facts: Mapping[str, str]
    platform: Platform | None = None
    margins: Sequence[HopMargin] | None = None
    true_time: TrueTime | None = None
    imported: ImportedRun | None = None


def _record(
    file: Path,
    duration_ns: int | None,
    cycles: int | None,
    state_dir: Path,
    keep: _Keep,
    *,
    with_kernel: bool,
) -> _Taken:
    """Send the streams of a file through its lab, and take the accounts of all frames."""
    from cnc.testbed.lab.platform import made_by  # noqa: PLC0415
    from cnc.testbed.traffic.trace import captured  # noqa: PLC0415
    from cnc.testbed.traffic.trace.columns import ByPath  # noqa: PLC0415
    from cnc.testbed.traffic.trace.margins import Margins  # noqa: PLC0415

    document = app.load(file)
    intent = intent_of(document)
    send_ns = length_ns(intent, duration_ns, cycles)
    sending = tracing.Sending(file, document, send_ns, state_dir, keep.flow, with_kernel)
    with ExitStack() as stack:
        directory = keep.output or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        recorded, platform = tracing.traced(sending, directory, keep=bool(keep.output))
    keep.make_directories()
    margins = Margins(recorded.plan, recorded.under.clocks)
    start_ns = recorded.start_ns
    by_path = ByPath(recorded.under.durations_off_ns)
    accounts, hops_max = recorded.accounts(), recorded.hops_max
    frames = _take(
        *(accounts, keep, start_ns, hops_max),
        (by_path.add, lambda each: margins.add(each.row)),
        with_kernel=with_kernel,
    )
    if keep.output:
        with whole_file.opened(keep.output / _CAPTURE) as capture:
            captured.write(recorded, capture, system=platform.kernel)
    for kept in keep.directories():
        platform.write(kept, made_by(command_line()))
    return _Taken(
        of=intent.name,
        paths=by_path.paths(),
        frames=frames,
        start_ns=start_ns,
        facts={"network": intent.name, "measured on": str(platform)},
        platform=platform,
        margins=margins.hops(),
        true_time=recorded.true_time,
    )


def _import(files: tuple[Path, ...], keep: _Keep) -> _Taken:
    """Take the accounts of all packets of a run between two hosts."""
    from cnc.testbed.traffic.trace.columns import ByPath  # noqa: PLC0415
    from cnc.testbed.traffic.trace.imported import HOPS, Imported  # noqa: PLC0415

    imported = Imported(files)
    tracing.refuse_unknown(keep.flow, [imported.flow.name])
    keep.make_directories()
    by_path = ByPath()
    frames = _take(imported.accounts(), keep, imported.start_ns, HOPS, (by_path.add,))
    run = imported.run()
    return _Taken(
        of=imported.flow.name,
        paths=by_path.paths(),
        frames=frames,
        start_ns=imported.start_ns,
        facts={f"measured by {run.program} from": f"{run.sender.name} to {run.receiver.name}"},
        imported=run,
    )


def _take(
    accounts: Iterable[Account],
    keep: _Keep,
    start_ns: int,
    hops_max: int,
    each_into: Sequence[Callable[[Account], None]],
    *,
    with_kernel: bool = False,
) -> Sequence[Account]:
    """Take accounts one at a time, and write the tables if there is a directory for them; those
    that are wanted."""
    from cnc.testbed.traffic.trace.table import Tables  # noqa: PLC0415

    frames = []
    with ExitStack() as stack:
        takers = [*each_into]
        if keep.output:
            tables = Tables(keep.output, start_ns, hops_max, with_kernel=with_kernel)
            takers.append(stack.enter_context(tables).add)
        for each in accounts:
            for take in takers:
                take(each)
            if keep.frame == (each.row.flow.name, each.row.seq):
                frames.append(each)
    return frames


def _frame(text: str) -> tuple[str, int]:
    flow, slash, seq = text.rpartition("/")
    if not (flow and slash and seq.isdecimal()):
        raise click.UsageError(f"--frame: found {text!r}, expected FLOW/SEQ, such as motion/17")
    return flow, int(seq)
