"""Counters of a switch's ports that should not increase: a parser of replies."""

from __future__ import annotations

from collections.abc import Iterator

from cnc.data_tree import reply
from cnc.data_tree.counters import PortCounters
from cnc.data_tree.reply import Element, Reply
from cnc.data_tree.tree import BRIDGE, INTERFACES, SCHED_BRIDGE, TSN_LINUX
from cnc.mechanisms.registry import MECHANISMS

_NAMESPACES = {"if": INTERFACES, "b": BRIDGE, "g": SCHED_BRIDGE, "t": TSN_LINUX}


def port_counters(data: Element) -> dict[str, PortCounters]:
    """The counters by port name, from the reply to a get."""
    counters: dict[str, PortCounters] = {}
    whole = Reply(data)
    for interface in reply.entries(data, "if:interfaces/if:interface", _NAMESPACES):
        table = "b:bridge-port/g:gate-parameter-table"
        statistics = "b:bridge-port/t:taprio/t:kernel/t:class-statistics"
        errors = reply.text(interface, f"{table}/g:config-change-error", _NAMESPACES)
        found = PortCounters(
            config_change_errors=(
                None if errors is None else reply.number(errors, "config-change-error")
            ),
            overruns=dict(
                _by_class(interface, f"{table}/g:queue-max-sdu-table", "g:", "transmission-overrun")
            ),
            drops=dict(_by_class(interface, statistics, "t:", "drops")),
            window_drops=dict(_by_class(interface, statistics, "t:", "window-drops")),
        )
        for each in MECHANISMS:
            found = each.tree().counted(found, whole, interface)
        counters[reply.text(interface, "if:name", _NAMESPACES) or ""] = found
    return counters


def _by_class(interface: Element, rows: str, prefix: str, leaf: str) -> Iterator[tuple[int, int]]:
    for row in reply.entries(interface, rows, _NAMESPACES):
        number = reply.text(row, f"{prefix}traffic-class", _NAMESPACES)
        count = reply.text(row, f"{prefix}{leaf}", _NAMESPACES)
        if number is not None and count is not None:
            yield reply.traffic_class(number), reply.number(count, leaf)
