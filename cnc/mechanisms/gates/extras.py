"""What is set on a port that no rollout sets, and that changes what it does with frames."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cnc.data_tree import reply
from cnc.data_tree.reply import Element, Row
from cnc.data_tree.tree import BRIDGE, CLOCK, SCHED_BRIDGE, TSN_LINUX
from cnc.support.format import counted

_NAMESPACES = {"b": BRIDGE, "g": SCHED_BRIDGE, "t": TSN_LINUX}
_SET = "set-gate-states"  # the operation of all entries that a rollout configures


def stored_extras(port: Element, table: Element) -> Iterator[str]:
    """Settings in the configuration of a bridge port and its gate table."""
    clock = reply.text(port, "t:taprio/t:clock", _NAMESPACES)
    if clock not in {None, CLOCK}:
        yield f"clock {clock}"
    yield from _max_sdu(_rows(table, "g:queue-max-sdu-table"), "queue-max-sdu")
    yield from _operations(
        _rows(table, "g:admin-control-list/g:gate-control-entry"), "operation-name"
    )
    yield from _queues(_rows(port, "t:taprio/t:queue"))


def kernel_extras(kernel: Element) -> Iterator[str]:
    """Settings of the kernel beyond a plan's, without the clock, which has a leaf of its own."""
    yield from _max_sdu(_rows(kernel, "t:max-sdu"), "octets")
    schedules = {
        reply.text(each, "t:state", _NAMESPACES): each
        for each in reply.entries(kernel, "t:schedule", _NAMESPACES)
    }
    newest = schedules.get("pending", schedules.get("running"))
    if newest is not None:
        yield from _operations(_rows(newest, "t:entry"), "operation")
    yield from _queues(_rows(kernel, "t:queue"))


def _max_sdu(rows: Iterable[Row], leaf: str) -> Iterator[str]:
    limits = {row.traffic_class(): row.optional_number(leaf) for row in rows}
    for traffic_class, octets in sorted(limits.items()):
        if octets:
            yield f"queue-max-sdu of {octets} octets for traffic class {traffic_class}"


def _operations(entries: Iterable[Row], leaf: str) -> Iterator[str]:
    names = {entry.number("index"): entry.leaves.get(leaf) for entry in entries}
    for index, name in sorted(names.items()):
        # An identity has its module's prefix.
        operation = reply.short(name or _SET, leaf).rpartition(":")[2]
        if operation != _SET:
            yield f"{operation} in entry {index}"


def _queues(rows: Iterable[Row]) -> Iterator[str]:
    ranges = {
        row.traffic_class(): (row.optional_number("count"), row.optional_number("offset"))
        for row in rows
    }
    for traffic_class, (count, offset) in sorted(ranges.items()):
        # One queue for each class, at the offset of its number, is the default.
        if (count, offset) != (1, traffic_class):
            queues = counted(count or 1, "TX queue")
            yield f"{queues} from {offset} on for traffic class {traffic_class}"


def _rows(parent: Element, path: str) -> Iterator[Row]:
    return reply.rows(parent, path, _NAMESPACES)
