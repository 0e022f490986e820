"""`cnc lab loop`: close a control loop over the lab that is up, and see how well it follows."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cnc import app
from cnc.cli.options import FILE, JSON, command_line, history_option, quantity
from cnc.cli.terminal import echo
from cnc.errors import CncError, InputError
from cnc.loops.model import Loop, Loops
from cnc.model import Intent
from cnc.testbed.app.sending import await_schedule
from cnc.testbed.cli.render import loop as render
from cnc.testbed.cli.sending import plan_to_send, say

if TYPE_CHECKING:
    from cnc.testbed.experiments.experiment import Picture
    from cnc.testbed.traffic.loop.report import LoopReport


@click.command()
@click.argument("file", type=FILE)
@click.option("--loop", "name", metavar="NAME", help="Which loop, if FILE has several.")
@click.option(
    "--flows", "flows_file", type=FILE, help="Send these (YAML) beside it, not the plan's streams."
)
@click.option(
    "--lead",
    "lead_ns",
    callback=quantity("DURATION"),
    help="How long other frames are sent before the loop begins, in whole cycles (default 0s).",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep the curve (CSV) and its picture (SVG, PNG, PDF) in this directory.",
)
@history_option
@JSON
def loop(  # noqa: PLR0917  one parameter an option
    file: Path,
    name: str | None,
    flows_file: Path | None,
    lead_ns: int | None,
    output: Path | None,
    state_dir: Path,
    as_json: bool,
) -> None:
    """Close a control loop of FILE over the lab that is up, and show its step response or path
    error.

    A program at the talker of the sensor's stream is the plant, one at that of the actuator's the
    controller; their frames leave at the planned offsets, beside what `cnc lab traffic` sends. Exit
    code 1 if a command missed its deadline or took longer than the plan says, in virtual time,
    where the ports run the lists of FILE.
    """
    from cnc.testbed.app import loop as loops  # noqa: PLC0415
    from cnc.testbed.experiments import pictures  # noqa: PLC0415
    from cnc.testbed.lab import attach  # noqa: PLC0415
    from cnc.testbed.lab.platform import made_by  # noqa: PLC0415
    from cnc.testbed.traffic.flowfile import load  # noqa: PLC0415
    from cnc.testbed.traffic.loop import run  # noqa: PLC0415

    document = app.load(file)
    intent = app.intent_of(document)
    chosen = _chosen(intent, name)
    if output:
        pictures.require()
    lab = attach.attach(intent)
    plan = plan_to_send(lab, document, state_dir)
    others = load(flows_file, intent) if flows_file else loops.beside(plan, chosen)
    await_schedule(lab, say)
    with ExitStack() as stack:
        directory = output or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        found = loops.close(
            *(lab, plan, chosen, directory),
            others=[*others],
            modules=file.parent,
            lead_ns=lead_ns or 0,
        )
    render.loop(found, as_json=as_json)
    if output:
        found.platform.write(output, made_by(command_line()))
        picture = _picture(found)
        pictures.save([picture], output, {"measured on": str(found.platform)})
        if not as_json:
            echo(f"the curve is in {output}/{run.FILE}, its picture in {output}/{picture.name}.svg")
    if found.violations:
        raise click.exceptions.Exit(CncError.exit_code)


def _picture(found: LoopReport) -> Picture:
    from cnc.testbed.experiments.control_loop.path_picture import path_picture  # noqa: PLC0415
    from cnc.testbed.experiments.control_loop.pictures import step_response_picture  # noqa: PLC0415

    if found.curve.loop.path is not None:
        return path_picture(found.curve)
    return step_response_picture(found.curve, found.undisturbed)


def _chosen(intent: Intent, name: str | None) -> Loop:
    from cnc.keys.problems import one_of  # noqa: PLC0415

    loops = intent[Loops].by_name
    if not loops:
        raise InputError(
            f"{intent.name} has no control loop",
            hint="name the two streams that close one under `loops` (docs/lab/loop.md)",
        )
    if name is None:
        if len(loops) > 1:
            raise click.UsageError(f"--loop: {one_of(loops)}")
        (name,) = loops
    if name not in loops:
        raise click.UsageError(f"--loop: found {name!r}, expected {one_of(loops, name)}")
    return loops[name]
