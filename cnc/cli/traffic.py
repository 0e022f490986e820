"""`cnc lab traffic`: send frames through the lab that is up, and judge what became of them."""

from __future__ import annotations

import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import click

from cnc import app
from cnc.cli import planning
from cnc.cli.options import FILE, JSON, history_option, open_history, quantity
from cnc.cli.render import lab_without_gates
from cnc.cli.render import traffic as render
from cnc.cli.terminal import echo
from cnc.errors import CncError
from cnc.format import duration
from cnc.model import NS_PER_S, Plan


@click.command()
@click.argument("file", type=FILE)
@click.option(
    "--duration", "duration_ns", callback=quantity("DURATION"), help="How long (default 1s)."
)
@click.option("--cycles", type=click.IntRange(min=1), help="How long, in cycles of the schedule.")
@click.option("--flows", "flows_file", type=FILE, help="Send these (YAML), not the plan's streams.")
@click.option("--stamps", is_flag=True, help="Record when frames enter and leave a talker's queue.")
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
    stamps: bool,
    output: Path | None,
    iperf3: tuple[str, str] | None,
    rate_bps: int | None,
    state_dir: Path,
    as_json: bool,
) -> None:
    """Send frames through the lab that is up for FILE, an intent or a plan.

    Without --flows: every stream at its planned offset, and best effort that drifts through all
    phases of the cycle. An intent is planned as by `cnc push`. Sending begins when the pushed
    schedule has begun. Exit code 1 if a stream's frame was lost or late, or a closed gate let a
    frame pass, on an exact clock, in virtual time.
    """
    from cnc.lab import attach  # noqa: PLC0415
    from cnc.lab.platform import Platform  # noqa: PLC0415
    from cnc.traffic import measure  # noqa: PLC0415
    from cnc.traffic import recording as sending  # noqa: PLC0415

    if duration_ns is not None and cycles is not None:
        raise click.UsageError("--duration and --cycles exclude each other")
    if rate_bps is not None and not iperf3:
        raise click.UsageError("--rate is iperf3's; a flow's rate is in the file of --flows")
    document = app.load(file)
    intent = document.intent if isinstance(document, Plan) else document
    length_ns = cycles * intent.hyperperiod_ns() if cycles else duration_ns or NS_PER_S
    lab = attach.attach(intent)
    if not as_json and (refused := lab.gates_refused()):
        lab_without_gates(refused)
    if iperf3:
        if flows_file or stamps or output:
            raise click.UsageError("--iperf3 excludes --flows, --stamps and --output")
        from cnc.traffic import iperf  # noqa: PLC0415

        render.throughput(iperf.measure(lab, *iperf3, length_ns, rate_bps), as_json=as_json)
        return
    if flows_file:
        from cnc.traffic import flowfile  # noqa: PLC0415

        plan = document if isinstance(document, Plan) else Plan(intent, {}, {}, "none")
        sent: list[sending.AnyFlow] = [*flowfile.load(flows_file, intent)]
    else:
        with open_history(state_dir) as history, planning.shown_search() as listener:
            plan = app.plan_to_push(
                document,
                connect=lab.connect,
                running=app.running_plan(history, document),
                listener=listener,
            )
        sent = sending.flows(plan)
    if pending_ns := lab.pending_ns():
        echo(f"waiting {duration(pending_ns)} for the schedule to begin", err=True)
        time.sleep(pending_ns / NS_PER_S)
    with ExitStack() as stack:
        directory = output or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        recording = sending.run(lab, sent, length_ns, directory, stamps=stamps)
    found = measure.summarise(plan, sent, recording, timed_wires=lab.nodes.timed_wires)
    platform = Platform.here()
    render.flows(found, measure.wake_up_error(sent, recording), platform, as_json=as_json)
    if output and not as_json:
        echo(f"every frame is in {output}/frames.csv")
    if platform.exact and any(summary.violations() for summary in found):
        raise click.exceptions.Exit(CncError.exit_code)
