"""What `cnc talkers` prints: when to send which frames."""

from __future__ import annotations

import csv
import dataclasses
import io
from collections.abc import Sequence

from cnc.cli.render.output import new_table, print_json, print_table
from cnc.cli.terminal import echo
from cnc.format import duration
from cnc.talkers import Transmission


def talkers(found: Sequence[Transmission], *, as_csv: bool, as_json: bool) -> None:
    if as_json:
        print_json(list(found))
    elif as_csv:
        echo(_csv(found), nl=False)
    else:
        _print_table(found)


def _print_table(found: Sequence[Transmission]) -> None:
    table = new_table(
        *("", "talker", "stream", ">period", ">sends at", ">octets", "class", "DSCP", "listeners")
    )
    for each in found:
        table.add_row(
            f"{each.talker}/{each.interface}",
            each.stream if each.path == 1 else f"{each.stream} (path {each.path})",
            duration(each.period_ns),
            duration(each.offset_ns),
            str(each.payload_octets),
            f"{each.traffic_class}, priority {each.priority}",
            ", ".join(map(str, each.dscps)),
            ", ".join(each.listeners),
        )
    print_table(table)


def _csv(found: Sequence[Transmission]) -> str:
    """A row for each; a field with several values has blanks between them."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(field.name for field in dataclasses.fields(Transmission))
    for each in found:
        writer.writerow(
            " ".join(map(str, value)) if isinstance(value, tuple) else value
            for value in dataclasses.astuple(each)
        )
    return text.getvalue()
