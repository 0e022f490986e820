"""`cnc lab loop`: close a control loop over the lab that is up, and see how well it follows."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cnc import app
from cnc.cli.options import FILE, JSON, command_line, history_option, intent_of, quantity
from cnc.cli.terminal import echo
from cnc.errors import CncError, InputError
from cnc.loops.model import Loop, Loops
from cnc.model import Intent, Plan
from cnc.support.lazy import lazy_import
from cnc.testbed.cli.render import loop as render
from cnc.testbed.cli.sending import await_schedule, plan_to_send

if TYPE_CHECKING:
    from cnc import rollout
    from cnc.testbed.experiments.experiment import Picture
    from cnc.testbed.lab import Lab
    from cnc.testbed.lab.kernels.offsets import FurthestApart
    from cnc.testbed.traffic.flows import AnyFlow
    from cnc.testbed.traffic.loop.run import Curve
else:
    rollout = lazy_import("cnc.rollout")


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
    from cnc.testbed.experiments import pictures  # noqa: PLC0415
    from cnc.testbed.lab import attach  # noqa: PLC0415
    from cnc.testbed.lab.platform import Platform, made_by  # noqa: PLC0415
    from cnc.testbed.lab.timer_latency import TimerProbe  # noqa: PLC0415
    from cnc.testbed.traffic.loop import run  # noqa: PLC0415

    document = app.load(file)
    intent = intent_of(document)
    chosen = _chosen(intent, name)
    if output:
        pictures.require()
    lab = attach.attach(intent)
    plan = plan_to_send(lab, document, state_dir)
    closing = run.loop_flows(plan, chosen)
    others = _others(plan, intent, flows_file, chosen, {run.stream_of(its) for its in closing})
    await_schedule(lab)
    cycle_ns = intent.hyperperiod_ns()
    whole_lead_ns = -(-(lead_ns or 0) // cycle_ns) * cycle_ns
    with ExitStack() as stack:
        directory = output or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        with TimerProbe() as timers:
            curve = run.run(
                lab,
                plan,
                chosen,
                directory,
                others=others,
                modules=file.parent,
                lead_ns=whole_lead_ns,
            )
        lasting_ns = whole_lead_ns + chosen.periods * chosen.period_ns
        clocks = _furthest_apart(lab, directory, lasting_ns)
    platform = Platform.here(timers.latency)
    undisturbed = run.undisturbed_axes(chosen)
    found = render.Found(
        curve=curve,
        planned=plan.loops[chosen.name],
        undisturbed=undisturbed,
        platform=platform,
        other_lists=_other_lists(lab, plan),
        clock_error_ns=plan.intent.network.clock_error_ns,
        clocks=clocks,
    )
    render.loop(found, as_json=as_json)
    if output:
        platform.write(output, made_by(command_line()))
        picture = _picture(curve, undisturbed)
        pictures.save([picture], output, {"measured on": str(platform)})
        if not as_json:
            echo(f"the curve is in {output}/{run.FILE}, its picture in {output}/{picture.name}.svg")
    if found.violations:
        raise click.exceptions.Exit(CncError.exit_code)


def _picture(curve: Curve, undisturbed: Sequence[Sequence[float]] | None) -> Picture:
    from cnc.testbed.experiments.control_loop.path_picture import path_picture  # noqa: PLC0415
    from cnc.testbed.experiments.control_loop.pictures import step_response_picture  # noqa: PLC0415

    if curve.loop.path is not None:
        return path_picture(curve)
    return step_response_picture(curve, undisturbed[0] if undisturbed else None)


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


def _others(
    plan: Plan, intent: Intent, flows_file: Path | None, chosen: Loop, closing: set[str]
) -> list[AnyFlow]:
    """What is sent beside the loop; of the plan what has a frame in that time."""
    from cnc.testbed.traffic.flowfile import load  # noqa: PLC0415
    from cnc.testbed.traffic.flows import flows  # noqa: PLC0415
    from cnc.testbed.traffic.loop.run import stream_of  # noqa: PLC0415

    if flows_file:
        return [*load(flows_file, intent)]
    length_ns = chosen.periods * chosen.period_ns
    return [
        flow
        for flow in flows(plan)
        if stream_of(flow) not in closing and flow.period_ns <= length_ns
    ]


def _furthest_apart(lab: Lab, directory: Path, lasting_ns: int) -> FurthestApart | None:
    """The clocks that were furthest apart while all was sent, by what `run` left in the directory;
    None: the nodes of the lab have one clock."""
    from cnc.testbed.lab.kernels import offsets  # noqa: PLC0415

    if lab.nodes.clock_offsets() is None:
        return None
    until_ns = lasting_ns + offsets.PERIOD_NS  # then a shorter time has a record, too
    recorded = offsets.read(directory / offsets.FILE)
    meanwhile = offsets.TrueOffsets(each for each in recorded if each.time_ns <= until_ns)
    network = lab.intent.network
    return meanwhile.furthest_apart([*network.bridges, *network.end_stations])


def _other_lists(lab: Lab, plan: Plan) -> list[str]:
    """The ports that run other lists than the plan has: nothing is promised there."""
    return [
        str(port.port)
        for port in rollout.status(plan, connect=lab.connect)
        if port.intended != (port.running.gates if port.running else None)
    ]
