"""What status prints: what switches run, and what of it is not as planned."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from cnc.cli.render.output import new_table, print_json, print_table, some
from cnc.cli.terminal import echo
from cnc.support.format import counted, gate_summary, natural, nodes
from cnc.support.lazy import lazy_import

if TYPE_CHECKING:
    from cnc.mechanism import CountedTable
    from cnc.mechanisms import composition, registry
    from cnc.rollout import PortStatus
else:
    composition = lazy_import("cnc.mechanisms.composition")
    registry = lazy_import("cnc.mechanisms.registry")

_PORTS_MAX = 24  # of more, a screen has the switches
_COUNTED_MAX = 100
_DIFFERS = "bold red"


def status(
    ports: Sequence[PortStatus],
    *,
    only_problems: bool,
    as_json: bool,
    compared: bool = True,
    all_ports: bool = False,
) -> None:
    """The ports, or those that differ; and in a line how many of all do, where there is a plan that
    they were `compared` with. Of many ports the switches are shown, unless `all_ports`, and those
    ports that differ otherwise than all of their switch."""
    differing = [port for port in ports if not port.agrees]
    shown = differing if only_problems else ports
    if as_json:
        from cnc.json_output.switches import PortState  # noqa: PLC0415

        print_json([PortState.model_validate(port) for port in shown])
        return
    alike = _alike(ports)
    if len(ports) > _PORTS_MAX and not all_ports and not only_problems:
        _print_nodes(ports)
        only_problems, shown = True, [port for port in differing if port.port.node not in alike]
    if shown:
        _print_ports(shown)
        for each in registry.WATCHED:
            if each.table:
                _print_counted(each.table, each.row, shown, only_problems=only_problems)
    if compared:
        echo(_summary(ports, differing, alike))
    for hint in dict.fromkeys(hint for port in shown for hint in port.hints):
        echo(f"hint: {hint}")


def _alike(ports: Sequence[PortStatus]) -> Mapping[str, int]:
    """The nodes of which several ports differ, all in the same way, with how many: those that do
    not answer."""
    found = {}
    for node, its in _by_node(ports):
        verdicts = {(port.verdict, port.agrees) for port in its}
        if len(its) > 1 and len(verdicts) == 1 and not its[0].agrees:
            found[node] = len(its)
    return found


def _by_node(ports: Iterable[PortStatus]) -> list[tuple[str, list[PortStatus]]]:
    def node(port: PortStatus) -> str:
        return port.port.node

    in_order = sorted(ports, key=lambda port: natural(node(port)))
    return [(name, [*its]) for name, its in groupby(in_order, node)]


def _print_nodes(ports: Sequence[PortStatus]) -> None:
    table = new_table("", "node", ">ports", ">entries", "verdict")
    for node, its in _by_node(ports):
        entries = sum(len(port.running.gates.entries) for port in its if port.running)
        verdicts = Counter(port.verdict for port in its)
        table.add_row(
            node,
            str(len(its)),
            str(entries),
            "; ".join(
                verdict if len(verdicts) == 1 else f"{count} {verdict}"
                for verdict, count in verdicts.most_common()
            ),
            style=None if all(port.agrees for port in its) else _DIFFERS,
        )
    print_table(table)


def _print_ports(shown: Iterable[PortStatus]) -> None:
    table = new_table("", "port", "intended", "running", "pending", "verdict")
    for port in shown:
        forwards = port.forwarding
        table.add_row(
            str(port.port),
            composition.settings_summary(port.intended, forwards.intended if forwards else None),
            composition.settings_summary(
                port.running.gates if port.running else None,
                forwards.running if forwards else None,
            ),
            gate_summary(port.pending.gates if port.pending else None),
            port.verdict,
            style=None if port.agrees else _DIFFERS,
        )
    print_table(table)


def _print_counted(
    table: CountedTable, row: type[Any], ports: Sequence[PortStatus], *, only_problems: bool
) -> None:
    """What switches have counted; nothing where none counts any."""
    cells = [
        (texts, is_in_order)
        for port in ports
        for its in port.counts.of(row)
        for texts, is_in_order in [table.cells(port.port.node, its)]
        if not (only_problems and is_in_order)
    ]
    if not cells:
        return
    printed = new_table(table.title, *table.columns)
    for texts, is_in_order in cells[:_COUNTED_MAX]:
        printed.add_row(*texts, style=None if is_in_order else _DIFFERS)
    print_table(printed, len(cells), whole="--json")


def _summary(
    ports: Sequence[PortStatus], differing: Sequence[PortStatus], alike: Mapping[str, int]
) -> str:
    switches = nodes(
        len({port.port.node for port in ports if not port.is_end_station}),
        len({port.port.node for port in ports if port.is_end_station}),
    )
    if not differing:
        return f"{counted(len(ports), 'port')} on {switches}: all as planned"
    names = dict.fromkeys(
        f"{node} ({counted(alike[node], 'port')})" if node in alike else str(port.port)
        for port in differing
        for node in [port.port.node]
    )
    return (
        f"{len(differing)} of {counted(len(ports), 'port')} on {switches} not as planned: "
        f"{some([*names], ', ')}"
    )
