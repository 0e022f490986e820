"""verify: captures beside a plan."""

from __future__ import annotations

from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cnc import app
from cnc.cli import render
from cnc.cli.options import DOCUMENT, JSON, history_option, load, open_history, quantity
from cnc.errors import CncError, InputError
from cnc.model import PortRef
from cnc.support import whole_file
from cnc.support.lazy import lazy_import

if TYPE_CHECKING:
    from cnc.captures import commented, reading
else:
    commented = lazy_import("cnc.captures.commented")
    reading = lazy_import("cnc.captures.reading")


@click.command()
@click.argument("file", metavar="PLAN", type=DOCUMENT)
@click.argument("captures", metavar="[NODE/PORT=]CAPTURE...", nargs=-1, required=True)
@click.option(
    "--tolerance",
    "tolerance_ns",
    callback=quantity("DURATION"),
    default="0ns",
    show_default=True,
    help="How far time stamps may be from the clock of the port's node.",
)
@click.option(
    "--tai-offset",
    "tai_ahead_s",
    type=click.IntRange(0, 100),
    help="By how many seconds TAI is ahead of the time stamps; 0: they are TAI.  [default: what "
    "the capture says, else 37]",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the frames here (pcapng), each with its verdict as a comment.",
)
@history_option
@JSON
def verify(  # noqa: PLR0917  one parameter an option
    file: Path,
    captures: tuple[str, ...],
    tolerance_ns: int,
    tai_ahead_s: int | None,
    output: Path | None,
    state_dir: Path,
    as_json: bool,
) -> None:
    """Verify captures by PLAN: which frames were late, early, at a closed gate, or missing.

    PLAN is a plan, the number of a rollout, or an intent that was pushed. A CAPTURE is pcap or
    pcapng, of one port (NODE/PORT=FILE) or with interfaces that are named NODE/PORT, as `cnc lab
    capture` writes it. Where switches route, frames are looked at by their class: DSCP and gates.
    The exit code is 1 if a frame was not as planned.
    """
    document = load(file, state_dir)
    with open_history(state_dir) as history:
        plan = app.pushed_or_planned(document, app.running_plan(history, document))
    found = app.verification(plan, tolerance_ns=tolerance_ns)
    frames = chain.from_iterable(
        reading.frames(plan.intent.network, *_chosen(capture), tai_ahead_s=tai_ahead_s)
        for capture in captures
    )
    try:
        with ExitStack() as stack:
            comment = None
            if output is not None:
                opened = stack.enter_context(whole_file.opened(output))
                comment = commented.Commented(opened, plan.intent.name)
            for frame in frames:
                passed = found.add(frame)
                if comment is not None:
                    comment.add(frame, passed)
    except OSError as error:
        raise InputError(f"{output}: cannot be written: {error.strerror}") from None
    verified = found.verified()
    if not verified.ports:
        raise InputError(
            f"{', '.join(captures)}: no frame",
            hint="capture for some periods of the streams: `cnc lab capture`, tcpdump, Wireshark",
        )
    render.captures(verified, as_json=as_json)
    if not verified.is_as_planned:
        raise click.exceptions.Exit(CncError.exit_code)


def _chosen(capture: str) -> tuple[Path, PortRef | None]:
    """The file of a capture, and the port that is named with it."""
    name, named, file = capture.partition("=")
    node, slash, port = name.partition("/")
    if not named or not slash or Path(capture).exists():
        return Path(capture), None
    return Path(file), PortRef(node, port)
