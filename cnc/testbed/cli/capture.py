"""`cnc lab capture`: the frames at ports of the lab, for Wireshark and tcpdump."""

from __future__ import annotations

import sys
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cnc.cli.options import quantity
from cnc.cli.signals import until_signal
from cnc.errors import CncError, InputError
from cnc.model import PortRef
from cnc.support.lazy import lazy_import
from cnc.testbed.cli.completion import nodes
from cnc.testbed.cli.render import lab as render

if TYPE_CHECKING:
    from cnc.testbed import lab as emulator
else:
    emulator = lazy_import("cnc.testbed.lab")


@click.command()
@click.argument(
    "words", metavar="[NAME] NODE/PORT...", nargs=-1, required=True, shell_complete=nodes
)
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    help="The file to write (pcapng), or - for standard output.",
)
@click.option("--duration", "duration_ns", callback=quantity("DURATION"), help="How long.")
@click.option("--frames", "frames_max", type=click.IntRange(min=1), help="How many, at most.")
def capture(
    words: tuple[str, ...], output: Path, duration_ns: int | None, frames_max: int | None
) -> None:
    """Record every frame at ports of the lab NAME, until interrupted (Ctrl-C).

    The file has each frame's direction and its time in nanoseconds: of one that leaves when the
    gate has let it go, of one that arrives when the cable has delivered it. Addresses have the
    names of their nodes. Exit code 1 if frames are missing because the machine was too slow.

    Where each node is a kernel of its own, frames are those on the cables, with the time at which
    their sending begins, and --duration lets virtual time pass; without it other commands do.
    """
    from cnc.testbed.traffic.cables import CableCapture, has_cables  # noqa: PLC0415
    from cnc.testbed.traffic.capture import Capture  # noqa: PLC0415

    name, its = emulator.lifecycle.address(words)
    chosen = [_port(word) for word in its]
    if not chosen:
        raise click.UsageError("a port is needed: cnc lab capture [NAME] NODE/PORT")
    with (
        (CableCapture if has_cables(name) else Capture)(name, chosen) as capturing,
        _opened(output) as file,
        until_signal(capturing.stop),
    ):
        try:
            found = capturing.run(file, duration_ns, frames_max)
        except BrokenPipeError:
            return  # Wireshark was closed
        except OSError as error:
            raise CncError(
                f"{output}: the capture ends early: {error.strerror}",
                hint="its frames until then are whole; name a place that has room",
            ) from error
    render.captured(found, output)
    if any(each.dropped for each in found):
        raise click.exceptions.Exit(CncError.exit_code)


def _port(word: str) -> PortRef:
    node, slash, port = word.partition("/")
    if not (node and slash and port):
        raise click.UsageError(f"found {word!r}, expected NODE/PORT, such as s1/s2")
    return PortRef(node, port)


def _opened(output: Path) -> FileIO:
    """Unbuffered: who reads along gets each frame at once, and a file has whole ones only."""
    if str(output) == "-":
        if sys.stdout.isatty():
            raise click.UsageError("-o - needs a pipe: a capture is no text")
        return FileIO(sys.stdout.fileno(), "wb", closefd=False)
    try:
        return FileIO(output, "wb")
    except OSError as error:
        raise InputError(
            f"{output}: cannot be written: {error.strerror}",
            hint="name a place that has room and that you may write to",
        ) from error
