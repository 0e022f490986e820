"""What `cnc talkers` prints: when to send which frames."""

from __future__ import annotations

import csv
import dataclasses
import io
from collections.abc import Sequence, Set
from typing import Any

from cnc.cli.render.output import new_table, print_json, print_table
from cnc.cli.terminal import echo
from cnc.model.transmissions import Transmission
from cnc.support.format import duration

_NONE = "–"  # noqa: RUF001


def talkers(found: Sequence[Transmission], *, as_csv: bool, as_json: bool) -> None:
    if as_json:
        left_out = _left_out(found)
        print_json([_values(each, left_out) for each in found])
    elif as_csv:
        echo(_csv(found), nl=False)
    else:
        _print_table(found)


def _print_table(found: Sequence[Transmission]) -> None:
    bridged = _is_bridged(found)
    frames = (">frames",) if _sends_several(found) else ()
    types = ("EtherType",) if _has_types(found) else ()
    ends = (">has sent by",) if _shares(found) else ()
    marks = ("destination", ">VLAN", ">PCP") if bridged else ("DSCP",)
    table = new_table(
        *("", "talker", "stream", ">period", ">sends at", *ends, *frames, ">octets", "class"),
        *(*marks, *types, "listeners"),
    )
    for each in found:
        marked = (str(each.destination_mac), str(each.vlan_id), str(each.pcp))
        if each.is_untagged:
            marked = ("untagged, as before", _NONE, _NONE)
        table.add_row(
            f"{each.talker}/{each.interface}",
            each.stream if each.path == 1 else f"{each.stream} (path {each.path})",
            duration(each.period_ns),
            "any time" if each.interval_ns or each.shaper else duration(each.offset_ns),
            *((_end(each),) if ends else ()),
            *((str(each.frames),) if frames else ()),
            str(each.payload_octets),
            f"{each.traffic_class}, priority {each.priority}",
            *(marked if bridged else (", ".join(map(str, each.dscps)),)),
            *((_type(each),) if types else ()),
            ", ".join(each.listeners),
        )
    print_table(table)


def _type(each: Transmission) -> str:
    """What the frames carry."""
    return f"IPv{each.ip_version}" if each.ethertype is None else f"{each.ethertype:#06x}"


def _end(each: Transmission) -> str:
    return duration(each.offset_ns + each.window_ns) if each.window_ns else _NONE


def _csv(found: Sequence[Transmission]) -> str:
    """A row for each; a field with several values has blanks between them."""
    left_out = _left_out(found)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = (field.name for field in dataclasses.fields(Transmission))
    left_out = _left_out(found)
    writer.writerow(name for name in names if name not in left_out)
    for each in found:
        writer.writerow(
            " ".join(map(str, value)) if isinstance(value, tuple) else value
            for value in _values(each, left_out).values()
        )
    return text.getvalue()


_OF_BRIDGED = ("destination_mac", "vlan_id", "pcp")
_OF_UNTAGGED = "is_untagged"
_OF_SEVERAL = "frames"
_OF_SHARED = "window_ns"
_OF_TYPES = "ethertype"
_OF_CYCLIC = "interval_ns"
_OF_SHAPED = "shaper"


def _is_bridged(found: Sequence[Transmission]) -> bool:
    return any(each.destination_mac or each.is_untagged for each in found)


def _sends_several(found: Sequence[Transmission]) -> bool:
    return any(each.frames > 1 for each in found)


def _shares(found: Sequence[Transmission]) -> bool:
    return any(each.window_ns for each in found)


def _has_types(found: Sequence[Transmission]) -> bool:
    return any(each.ethertype is not None for each in found)


def _is_cyclic(found: Sequence[Transmission]) -> bool:
    return any(each.interval_ns for each in found)


def _left_out(found: Sequence[Transmission]) -> set[str]:
    """The fields that say nothing here: of bridged networks in a routed one, and what tells apart
    untagged streams, those of several frames in a period, those that share windows, those without
    IP, those that are forwarded once each interval, or leave by a shaper, where there are
    none."""
    left_out = set() if _is_bridged(found) else {*_OF_BRIDGED}
    if not any(each.is_untagged for each in found):
        left_out.add(_OF_UNTAGGED)
    if not _sends_several(found):
        left_out.add(_OF_SEVERAL)
    if not _shares(found):
        left_out.add(_OF_SHARED)
    if not _has_types(found):
        left_out.add(_OF_TYPES)
    if not _is_cyclic(found):
        left_out.add(_OF_CYCLIC)
    if not any(each.shaper for each in found):
        left_out.add(_OF_SHAPED)
    return left_out


def _values(each: Transmission, left_out: Set[str]) -> dict[str, Any]:
    """The fields of a transmission by name."""
    values = dataclasses.asdict(each)
    return {name: value for name, value in values.items() if name not in left_out}
