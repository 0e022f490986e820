"""`cnc lab traffic`: send frames through the lab that is up, and judge what became of them."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cnc import app
from cnc.cli.options import FILE, JSON, command_line, history_option, quantity
from cnc.cli.terminal import echo
from cnc.errors import CncError
from cnc.model import Intent, Plan
from cnc.testbed.app import sending
from cnc.testbed.cli.render import traffic as render
from cnc.testbed.cli.render.lab import lab_without_gates
from cnc.testbed.cli.sending import length_ns, plan_to_send, say

if TYPE_CHECKING:
    from cnc.testbed.lab import Lab
    from cnc.testbed.traffic.flows import AnyFlow


@click.command()
@click.argument("file", type=FILE)
@click.option(
    "--duration", "duration_ns", callback=quantity("DURATION"), help="How long (default 1s)."
)
@click.option("--cycles", type=click.IntRange(min=1), help="How long, in cycles of the schedule.")
@click.option("--flows", "flows_file", type=FILE, help="Send these (YAML), not the plan's streams.")
@click.option("--beside", "beside_file", type=FILE, help="Send these (YAML) beside the streams.")
@click.option("--stamps", is_flag=True, help="Record when frames enter and leave a talker's queue.")
@click.option(
    "--stamps-of",
    "stamped",
    metavar="FLOW",
    multiple=True,
    help="The same of this flow alone; may be repeated.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep the record of every frame in this directory.",
)
@click.option("--iperf3", nargs=2, metavar="TALKER LISTENER", help="Let iperf3 send, TCP or UDP.")
@click.option("--rate", "rate_bps", callback=quantity("RATE"), help="Of iperf3: then UDP.")
@history_option
@JSON
def traffic(  # noqa: PLR0917  one parameter an option
    file: Path,
    duration_ns: int | None,
    cycles: int | None,
    flows_file: Path | None,
    beside_file: Path | None,
    stamps: bool,
    stamped: tuple[str, ...],
    output: Path | None,
    iperf3: tuple[str, str] | None,
    rate_bps: int | None,
    state_dir: Path,
    as_json: bool,
) -> None:
    """Send frames through the lab that is up for FILE, an intent or a plan.

    Without --flows: every stream at its planned offset, and best effort that drifts through all
    phases of the cycle, or the flows of --beside in its place. Of an intent that was pushed what
    runs is sent; another is planned as by `cnc push`. Sending begins when the pushed schedule has
    begun. Exit code 1 if a stream's frame was lost or late, or on an exact clock, in virtual time,
    if a closed gate let a frame pass. On a real clock nothing is judged if a talker was later than
    the plan allows.
    """
    from cnc.testbed.app.traffic import send  # noqa: PLC0415
    from cnc.testbed.lab import attach  # noqa: PLC0415
    from cnc.testbed.lab.platform import made_by  # noqa: PLC0415

    if rate_bps is not None and not iperf3:
        raise click.UsageError("--rate is iperf3's; a flow's rate is in the file of --flows")
    document = app.load(file)
    intent = app.intent_of(document)
    send_ns = length_ns(intent, duration_ns, cycles)
    lab = attach.attach(intent)
    if not as_json and (refused := lab.gates_refused()):
        lab_without_gates(refused)
    if iperf3:
        if flows_file or beside_file or stamps or stamped or output:
            raise click.UsageError("--iperf3 excludes --flows, --beside, --stamps and --output")
        from cnc.testbed.traffic import iperf  # noqa: PLC0415

        render.throughput(iperf.measure(lab, *iperf3, send_ns, rate_bps), as_json=as_json)
        return
    plan, sent = _to_send(lab, document, flows_file, beside_file, state_dir)
    sending.await_schedule(lab, say)
    with ExitStack() as stack:
        directory = output or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        report = send(lab, plan, sent, send_ns, directory, stamps=stamps or stamped or False)
    render.flows(report, as_json=as_json)
    if output:
        report.platform.write(output, made_by(command_line()))
    if output and not as_json:
        echo(f"every frame is in {output}/frames.csv")
    if report.violations:
        raise click.exceptions.Exit(CncError.exit_code)


def _to_send(
    lab: Lab, document: Plan | Intent, flows: Path | None, beside: Path | None, state_dir: Path
) -> tuple[Plan, Sequence[AnyFlow]]:
    """What is sent: the flows of a file; or the streams, with best effort or a file's flows."""
    from cnc.testbed.traffic import flowfile, recording  # noqa: PLC0415

    intent = app.intent_of(document)
    if flows and beside:
        raise click.UsageError("--flows and --beside exclude each other")
    if flows:
        plan = document if isinstance(document, Plan) else Plan(intent, {}, {}, "none")
        return plan, flowfile.load(flows, intent)
    others = flowfile.load(beside, intent) if beside else None
    plan = plan_to_send(lab, document, state_dir)
    sent = recording.flows(plan)
    if others is None:
        return plan, sent
    return plan, flowfile.beside([its for its in sent if its.latency_bound_ns is not None], others)
