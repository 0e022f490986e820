"""What `cnc talkers` prints: when to send which frames."""

from __future__ import annotations

import csv
import dataclasses
import io
from collections.abc import Sequence
from typing import Any

from cnc.cli.render.output import new_table, print_json, print_table
from cnc.cli.terminal import echo
from cnc.format import duration
from cnc.talkers import Transmission


def talkers(found: Sequence[Transmission], *, as_csv: bool, as_json: bool) -> None:
    if as_json:
        print_json([_values(each) for each in found])
    elif as_csv:
        echo(_csv(found), nl=False)
    else:
        _print_table(found)


def _print_table(found: Sequence[Transmission]) -> None:
    bridged = _is_bridged(found)
    marks = ("destination", ">VLAN", ">PCP") if bridged else ("DSCP",)
    table = new_table(
        *("", "talker", "stream", ">period", ">sends at", ">octets", "class", *marks, "listeners")
    )
    for each in found:
        marked = (str(each.destination_mac), str(each.vlan_id), str(each.pcp))
        table.add_row(
            f"{each.talker}/{each.interface}",
            each.stream if each.path == 1 else f"{each.stream} (path {each.path})",
            duration(each.period_ns),
            duration(each.offset_ns),
            str(each.payload_octets),
            f"{each.traffic_class}, priority {each.priority}",
            *(marked if bridged else (", ".join(map(str, each.dscps)),)),
            ", ".join(each.listeners),
        )
    print_table(table)


def _csv(found: Sequence[Transmission]) -> str:
    """A row for each; a field with several values has blanks between them."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = (field.name for field in dataclasses.fields(Transmission))
    writer.writerow(name for name in names if _is_bridged(found) or name not in _OF_BRIDGED)
    for each in found:
        writer.writerow(
            " ".join(map(str, value)) if isinstance(value, tuple) else value
            for value in _values(each).values()
        )
    return text.getvalue()


_OF_BRIDGED = ("destination_mac", "vlan_id", "pcp")


def _is_bridged(found: Sequence[Transmission]) -> bool:
    return any(each.destination_mac for each in found)


def _values(each: Transmission) -> dict[str, Any]:
    """The fields of a transmission by name; those of bridged networks only if it is in one."""
    values = dataclasses.asdict(each)
    if each.destination_mac is None:
        for name in _OF_BRIDGED:
            del values[name]
    return values
