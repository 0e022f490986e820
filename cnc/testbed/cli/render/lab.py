"""What `cnc lab` prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from cnc.cli.render.output import new_table, print_json, print_table, warning
from cnc.cli.terminal import echo
from cnc.support.format import counted

if TYPE_CHECKING:
    from pathlib import Path

    from cnc.testbed.lab import Lab, NodeStatus
    from cnc.testbed.traffic.capture import Captured


_NO_GATES = (
    "nodes, addresses and NETCONF work, a push is refused; for all of it run the commands in a "
    "kernel with sch_taprio: scripts/vm bash SCRIPT; to push, without frames: cnc lab up --rehearse"
)

_UNSETTLED = "a push is refused until it has; `cnc doctor` on the controller shows how far it is"


def lab_up(
    running: Lab,
    *,
    wires: Literal["timed", "instant"] | None,
    gates_refused: str | None,
    as_json: bool,
) -> None:
    """How to push to a lab that has come up, or why that is no use (`gates_refused`); without
    `wires` it is rehearsed."""
    if as_json:
        from cnc.testbed.json_output.lab import LabUp  # noqa: PLC0415

        document = LabUp(
            name=running.intent.name,
            wires=wires,
            identity=str(running.identity),
            known_hosts=str(running.known_hosts),
            gates_refused=gates_refused,
            clocks_unsettled={},
        )
        print_json(document)
        return
    how = f"with {wires} wires" if wires else "rehearsed: its ports are in memory, without frames"
    echo(
        f"lab {running.intent.name} is up, {how}. "
        f"To {'reach its switches' if gates_refused else 'push to it'}:\n"
        f"  export CNC_IDENTITY={running.identity} CNC_KNOWN_HOSTS={running.known_hosts}"
    )
    if gates_refused:
        warning(f"no gate control list can run in this lab: {gates_refused}", _NO_GATES)


def kernels_up(name: str, unsettled: Mapping[str, str], *, as_json: bool) -> None:
    """How to push to a lab whose nodes are kernels, and which clocks have not settled, and why."""
    if as_json:
        from cnc.testbed.json_output.lab import LabUp  # noqa: PLC0415

        print_json(
            LabUp(
                name=name,
                wires="timed",
                identity=None,
                known_hosts=None,
                gates_refused=None,
                clocks_unsettled=dict(unsettled),
            )
        )
        return
    echo(
        f"lab {name} is up, each node in a kernel of its own. To push to it:\n"
        "  cnc lab exec controller -- cnc push FILE"
    )
    for node, reason in unsettled.items():
        warning(f"the clock of {node} has not settled: {reason}", _UNSETTLED)


def lab_without_gates(gates_refused: str) -> None:
    """Why frames that are sent through a lab say nothing of a schedule."""
    warning(
        f"the ports of this lab have no gates, frames come as they can: {gates_refused}", _NO_GATES
    )


def lab_status(name: str | None, nodes: Sequence[NodeStatus], *, as_json: bool) -> None:
    """Every node of a lab; `name` is None where no lab is up."""
    if as_json:
        print_json(list(nodes))
        return
    if not nodes:
        echo(f"no lab {name} is up" if name else "no lab is up")
        return
    table = new_table(f"lab {name}", "node", "addresses", "namespace", "processes")
    for node in nodes:
        processes = ", ".join(
            f"{program} {pid or 'is gone'}" for program, pid in node.processes.items()
        )
        namespace = node.namespace if node.present else "missing"
        table.add_row(node.node, "  ".join(node.addresses), namespace, processes)
    print_table(table)


def captured(found: Sequence[Captured], output: Path) -> None:
    """What a capture has in it, on the error stream: its own output may be the capture."""
    for each in found:
        echo(f"{each.port}: {counted(each.frames, 'frame')} in {output}", err=True)
        if each.dropped:
            warning(
                f"{each.port}: {counted(each.dropped, 'frame')} missing, which came faster than "
                "this machine wrote them",
                "capture fewer ports at once, write to a faster disk, or stop other work",
            )
