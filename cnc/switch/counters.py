"""Counters of a switch's ports that should not increase: a parser of replies.

Counters restart at 0 when the schedule of a port is set again or the agent starts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from cnc.mechanisms.composition import Reply
from cnc.mechanisms.registry import MECHANISMS
from cnc.model import StreamAddress
from cnc.switch import reply
from cnc.switch.reply import Element
from cnc.switch.tree import BRIDGE, INTERFACES, SCHED_BRIDGE, TSN_LINUX

RECOVERY_COUNTERS = ("passed", "discarded", "out-of-order", "rogue", "lost", "tagless", "resets")
_NAMESPACES = {"if": INTERFACES, "b": BRIDGE, "g": SCHED_BRIDGE, "t": TSN_LINUX}


@dataclass(frozen=True, slots=True)
class PortCounters:
    """Counters of one port, those of frames by traffic class; a counter that the switch does not
    have is left out.

    `config_change_errors`: schedules whose base time had passed when they were set (802.1Q
    12.29.1). `overruns`: frames that were still being sent when their gate closed
    (transmission-overrun). `drops`: frames dropped before they were sent; `window_drops` those of
    them for which the list has no window. `recovery` is by the address of a stream of which the
    port recovers the sequence, and by the name of the counter (802.1CB 10.8, without `rx-`).
    """

    config_change_errors: int | None = None
    overruns: Mapping[int, int] = field(default_factory=dict)
    drops: Mapping[int, int] = field(default_factory=dict)
    window_drops: Mapping[int, int] = field(default_factory=dict)
    recovery: Mapping[StreamAddress, Mapping[str, int]] = field(default_factory=dict)


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
