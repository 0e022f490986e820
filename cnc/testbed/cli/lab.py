"""`cnc lab`: the emulated network of an intent, in this kernel's namespaces."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from cnc import app
from cnc.cli.completion import Files
from cnc.cli.options import JSON
from cnc.cli.terminal import echo
from cnc.errors import CncError
from cnc.support import whole_file
from cnc.support.lazy import lazy_import
from cnc.testbed.cli.capture import capture
from cnc.testbed.cli.clocks import clocks
from cnc.testbed.cli.completion import labs, nodes
from cnc.testbed.cli.loop import loop
from cnc.testbed.cli.measure import measure
from cnc.testbed.cli.render import lab as render
from cnc.testbed.cli.trace import trace
from cnc.testbed.cli.traffic import traffic

if TYPE_CHECKING:
    from cnc.model import Intent
    from cnc.testbed import lab as emulator
    from cnc.testbed.intent.lab_model import Emulation
    from cnc.testbed.lab.mininet import Imported
else:
    emulator = lazy_import("cnc.testbed.lab")

NETWORK_FILE = Files(".yaml", ".yml", ".py")
TOPO = click.option(
    "--topo",
    metavar="NAME[,ARG,KEY=VALUE...]",
    help="Which topology of a Python file, if it has several, and its arguments, as for Mininet's "
    "own --topo.",
)


@click.group()
def lab() -> None:
    """Emulate a network: a namespace for every node, a real agent on every switch.

    Needs root and a kernel with sch_taprio; if this machine's kernel has none, run the command
    with scripts/vm (`python -m cnc.testbed.lab.vm`). `cnc lab up --rehearse` needs neither, and
    carries no frames. NAME, the lab's name, may be omitted while only one is up.
    """


@lab.command()
@click.argument("file", type=NETWORK_FILE)
@TOPO
@click.option(
    "--rehearse",
    is_flag=True,
    help="Start the agents and NETCONF servers alone, on loopback, with ports in memory that carry "
    "no frames: to plan, push and watch without root and on any kernel.",
)
@click.option(
    "--wires",
    type=click.Choice(["timed", "instant"]),
    help="timed: a frame takes as long as rate, length and cable say; exact in virtual time, on a "
    "real clock each hop costs a wake-up, as late as the machine is. instant: it takes none. "
    "Default: timed in virtual time, and for a Mininet topology with a bw or delay; else instant.",
)
@click.option(
    "--kernels",
    type=click.Choice(["shared", "own"]),
    help="shared: each node is a namespace of this kernel. own: each is a user-mode kernel with a "
    "clock of its own, all in one virtual time.  [default: what FILE states, else shared]",
)
@click.option(
    "--clocks",
    type=click.Choice(["gptp", "free"]),
    help="What keeps the clocks of kernels of their own together. gptp: a ptp4l at each node, "
    "which follows that of the first switch; up waits until they have settled. free: nothing.  "
    "[default: what FILE states, else gptp]",
)
@click.option(
    "--time",
    type=click.Choice(["virtual", "real"]),
    help="When the time of kernels of their own passes, once they are up. virtual: while a command "
    "runs, as fast as the machine can. real: always, as the machine's clock does, or slower if the "
    "machine is.  [default: what FILE states, else virtual]",
)
@click.option(
    "--slower",
    type=click.IntRange(min=2),
    metavar="N",
    help="Multiply every time of the intent by N and divide every rate by it, for a clock that "
    "cannot tell microseconds apart. Plan, push and send what --output writes.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the intent of the lab here (YAML).",
)
@JSON
def up(  # noqa: PLR0917  one parameter an option
    file: Path,
    topo: str | None,
    rehearse: bool,
    wires: str | None,
    kernels: str | None,
    clocks: str | None,
    time: str | None,
    slower: int | None,
    output: Path | None,
    as_json: bool,
) -> None:
    """Start the network of FILE: an intent (YAML), or a Mininet Topo or script (Python).

    An intent needs no streams (`streams: {}`). A Topo's code is executed with your rights; a script
    that adds nodes to a `Mininet()` is read and not run.
    """
    if slower and not output:
        raise click.UsageError("--slower needs --output: the file to plan and to push")
    if rehearse and (wires or kernels or clocks or time):
        raise click.UsageError(
            "--rehearse takes no --wires, --kernels, --clocks or --time: it carries no frames"
        )
    from cnc.intent.source import dump  # noqa: PLC0415
    from cnc.testbed.lab.platform import Platform  # noqa: PLC0415
    from cnc.testbed.lab.slower import slower as make_slower  # noqa: PLC0415

    intent, shaped = _network(file, topo)
    if slower:
        intent = make_slower(intent, slower)
    if rehearse:
        _bring_up_rehearsed(intent, output, as_json=as_json)
        return
    emulation = _emulation(intent, kernels, clocks, time)
    own_kernels = emulation.kernels == "own"
    if own_kernels and wires == "instant":
        raise click.UsageError("--wires instant: cables between kernels of their own take time")
    timed = wires == "timed" if wires else shaped or own_kernels or Platform.here().exact
    running = emulator.lifecycle.up(intent, timed_wires=timed, emulation=emulation)
    if output:
        whole_file.write(output, dump(intent.document))
    if own_kernels:
        render.kernels_up(intent.name, running.clocks_unsettled(), as_json=as_json)
        return
    render.lab_up(
        running,
        wires="timed" if timed else "instant",
        gates_refused=running.gates_refused(),
        as_json=as_json,
    )


def _bring_up_rehearsed(intent: Intent, output: Path | None, *, as_json: bool) -> None:
    from cnc.intent.source import dump  # noqa: PLC0415

    running = emulator.lifecycle.rehearse(intent)
    if output:
        whole_file.write(output, dump(intent.document))
    render.lab_up(running, wires=None, gates_refused=None, as_json=as_json)


@lab.command("import")
@click.argument("file", type=Files(".py"))
@TOPO
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write the intent here."
)
def import_topology(file: Path, topo: str | None, output: Path | None) -> None:
    """Convert a Mininet Topo (Python FILE) to an intent (YAML) without streams.

    A Topo's code is executed with your rights; a script that adds nodes to a `Mininet()`, and an
    IPTopo, are read and not run. Switches get management addresses 10.99.0.N,
    nodes the lab's own IP addresses; other properties are those of schedules/line3.yaml.
    """
    imported = _imported(file, topo)
    text = imported.text(file)
    if output:
        whole_file.write(output, text)
        echo(f"wrote {output}")
    else:
        echo(text, nl=False)


def _emulation(
    intent: Intent, kernels: str | None, clocks: str | None, time: str | None
) -> Emulation:
    """What the options say, and where they say nothing, what the intent does."""
    from cnc.testbed.intent.lab_model import Emulation, LabClocks, LabKernels, LabTime  # noqa: PLC0415

    stated = intent[Emulation]
    emulation = Emulation(
        LabKernels(kernels) if kernels else stated.kernels,
        LabClocks(clocks) if clocks else stated.clocks,
        LabTime(time) if time else stated.time,
    )
    for option, value in (("--clocks", clocks), ("--time", time)):
        if value and emulation.kernels is LabKernels.SHARED:
            raise click.UsageError(
                f"{option} needs --kernels own: nodes of one kernel share its clock"
            )
    return emulation


@lab.command()
@click.argument("name", required=False, shell_complete=labs)
def down(name: str | None) -> None:
    """Remove the lab NAME completely, also after an interrupted start.

    Every process on its nodes is ended. Without a lab the command does nothing.
    """
    found = name or emulator.lifecycle.only()
    if found:
        emulator.lifecycle.down(found)


@lab.command("status")
@click.argument("name", required=False, shell_complete=labs)
@JSON
def lab_status(name: str | None, as_json: bool) -> None:
    """Show the nodes of the lab NAME, their addresses and their processes."""
    found = name or emulator.lifecycle.only()
    its = emulator.lifecycle.status(found) if found else []
    render.lab_status(found, its, as_json=as_json)
    if not all(n.present and all(n.processes.values()) for n in its):
        raise click.exceptions.Exit(CncError.exit_code)


@lab.command("exec", context_settings={"ignore_unknown_options": True})
@click.argument(
    "words",
    metavar="[NAME] NODE -- COMMAND...",
    nargs=-1,
    required=True,
    type=click.UNPROCESSED,
    shell_complete=nodes,
)
def execute(words: tuple[str, ...]) -> None:
    """Run COMMAND on NODE of the lab NAME: `cnc lab exec s1 -- tc qdisc`.

    The first word is NAME if a lab of that name is up, else NODE.
    """
    name, rest = emulator.lifecycle.address(words)
    if len(rest) < 2:  # noqa: PLR2004 - a node and a command
        raise click.UsageError("a node and a command are needed: cnc lab exec NODE -- COMMAND")
    raise click.exceptions.Exit(emulator.lifecycle.execute(name, rest[0], rest[1:]))


@lab.command()
@click.argument(
    "words",
    metavar="[NAME] NODE",
    nargs=-1,
    required=True,
    shell_complete=nodes,
)
def shell(words: tuple[str, ...]) -> None:
    """Open a shell ($SHELL, else /bin/sh) on NODE of the lab NAME; its prompt says NAME/NODE.

    Where each node is a kernel of its own, every line is a command of its own: `cd` and variables
    last for one line. `exit` or the end of input leaves it.
    """
    name, rest = emulator.lifecycle.address(words)
    if len(rest) != 1:
        raise click.UsageError("one node is needed: cnc lab shell [NAME] NODE")
    raise click.exceptions.Exit(emulator.lifecycle.shell(name, rest[0]))


def _network(file: Path, topo: str | None) -> tuple[Intent, bool]:
    """The network of an intent or a Mininet file, and whether the latter asks for timed wires."""
    if file.suffix != ".py":
        if topo:
            raise click.UsageError("--topo chooses from a Python file; an intent is one network")
        return app.load_intent(file), False
    imported = _imported(file, topo)
    return imported.intent, imported.shaped


def _imported(file: Path, topo: str | None) -> Imported:
    from cnc.testbed.lab import mininet  # noqa: PLC0415

    imported = mininet.read(file, topo)
    for line in imported.ignored:
        echo(f"cnc: {line}", err=True)
    return imported


lab.add_command(capture)
lab.add_command(clocks)
lab.add_command(loop)
lab.add_command(measure)
lab.add_command(trace)
lab.add_command(traffic)
