"""`cnc import gates` and `cnc export gates`: gate control lists as other programs write them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cnc import app
from cnc.cli.completion import Files
from cnc.cli.options import DOCUMENT, history_option, load
from cnc.cli.terminal import echo
from cnc.errors import InputError
from cnc.model import GateControlList, Plan, PortRef, gated_port
from cnc.support import whole_file
from cnc.support.lazy import lazy_import

if TYPE_CHECKING:
    from cnc import gate_lists
    from cnc.gate_lists import netconf, table, tc
    from cnc.switch import payload
else:
    gate_lists = lazy_import("cnc.gate_lists")
    netconf, table, tc = (
        lazy_import(f"cnc.gate_lists.{name}") for name in ("netconf", "table", "tc")
    )
    payload = lazy_import("cnc.switch.payload")

_XML = "xml-"
_FORMATS = ("tc", "csv", "xml-2018", "xml-2021", "xml-2023")


@click.group(name="import")
def import_() -> None:
    """Read files of other programs."""


@click.group()
def export() -> None:
    """Write plans for other programs."""


@import_.command(name="gates")
@click.argument("file", type=Files(".sh", ".csv", ".xml", ".txt"))
@click.option("--switch", metavar="NAME", help="The switch of ports that FILE names without one.")
@click.option("--port", metavar="NAME", help="The port, where FILE does not name it.")
def import_gates(file: Path, switch: str | None, port: str | None) -> None:
    """Print the gate control lists of FILE as the part of an intent that has them.

    FILE has `tc qdisc replace … taprio …` commands, alone or in a script, which is not run; CSV
    with the columns port, cycle_ns, base_offset_ns, gate_states and interval_ns; entries of
    tsntool; or XML with the gate parameters of interfaces, in the names of 2018, 2020, 2021 or
    2023.
    """
    try:
        whole_file.refuse_special(file)
        with file.open("rb") as opened:
            text = opened.read(gate_lists.SIZE_MAX_OCTETS + 1)
    except OSError as error:
        raise InputError(
            f"{file}: cannot read it: {error.strerror}", hint="check the path and its permissions"
        ) from None
    found: dict[PortRef, gate_lists.Listed] = {}
    for each in gate_lists.read(text, str(file)):
        ref = _ref(each.port or port, switch, file)
        if ref in found:
            raise InputError(
                f"{file}: found two lists of {ref}, expected one", hint="remove one of them"
            )
        found[ref] = each
    echo(gate_lists.fragment(found), nl=False)


def _ref(port: str | None, switch: str | None, file: Path) -> PortRef:
    """The port of an intent that a file names `port`."""
    if port is None:
        raise InputError(f"{file}: names no port", hint="name it: --port NAME")
    node, slash, name = port.rpartition("/")
    if slash:
        return PortRef(node, name)
    if switch is None:
        raise InputError(f"{file}: names no switch of port {port}", hint="name it: --switch NAME")
    return PortRef(switch, port)


@export.command(name="gates")
@click.argument("file", metavar="PLAN", type=DOCUMENT)
@click.option(
    "--format",
    "form",
    type=click.Choice(_FORMATS),
    default="csv",
    show_default=True,
    help="tc: commands; xml-YEAR: the gate parameters of that revision of ieee802-dot1q-sched.",
)
@click.option("--switch", metavar="NAME", help="This one alone; a file but CSV is of one switch.")
@history_option
def export_gates(file: Path, form: str, switch: str | None, state_dir: Path) -> None:
    """Print the gate control lists of PLAN, a plan, an intent or the number of a rollout.

    Each begins at a multiple of its cycle on TAI.
    """
    plan = app.plan_of(load(file, state_dir))
    bridges = plan.intent.network.bridges
    if switch is not None and switch not in bridges:
        raise InputError(
            f"{file}: found no switch {switch}", hint=f"one of {', '.join(sorted(bridges))}"
        )
    lists = {
        port: gates
        for port, gates in sorted(plan.gates.items())
        if port.node in bridges and switch in {None, port.node}
    }
    nodes = {port.node for port in lists}
    if form != "csv" and len(nodes) > 1:
        raise InputError(
            f"{file}: the lists of {len(nodes)} switches do not go into one file",
            hint=f"--switch {min(nodes)}",
        )
    echo(_text(plan, lists, form), nl=False)


def _text(plan: Plan, lists: Mapping[PortRef, GateControlList], form: str) -> str:
    if form == "csv":
        return table.text((str(port), gates) for port, gates in lists.items())
    if form.startswith(_XML):
        revision = netconf.Revision(form.removeprefix(_XML))
        return netconf.text({port.port: gates for port, gates in lists.items()}, revision)
    settings = payload.desired_nodes(plan, {port.node for port in lists})
    return "".join(
        tc.command(port.port, its)
        for port in lists
        if (its := gated_port(settings[port.node][port.port]))
    )
