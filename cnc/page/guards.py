"""What switches do for single streams of a bridged network, for the page: how the first one polices
what a talker sends (802.1Q 8.6.5.2), and what becomes of copies (802.1CB)."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from cnc.mechanisms.forwarding.derive import bridge_forwardings
from cnc.mechanisms.frer.model import Generation, Recovery, SequenceFunctions
from cnc.mechanisms.stream_filters.model import (
    FilteredStream,
    Policing,
    StreamFilter,
    StreamFilters,
    WindowGate,
)
from cnc.model import Forwarding, Plan, PortRef, StreamAddress


def guards(plan: Plan) -> dict[str, dict[str, Any]]:
    """By stream what switches do, streams for which none does anything are left out:

    {"filters": [{"port", "policing", "max_sdu_octets",
                  "opens_ns", "closes_ns", "octets_max"}, ...],
     "numbered": [port, ...],
     "recovered": [{"switch", "ports", "history", "reset_ms"}, ...]}
    """
    found: defaultdict[str, dict[str, Any]] = defaultdict(dict)
    if plan.intent.network.forwarding is Forwarding.ROUTED:
        return found
    names = {address: name for name, address in plan.addresses.items()}
    for switch, its in bridge_forwardings(plan).items():
        for each in its[StreamFilters].filters:
            if isinstance(each.of, FilteredStream) and each.policing is not Policing.OFF:
                name = names[StreamAddress.of(each.of)]
                port = str(PortRef(switch, each.of.port))
                found[name].setdefault("filters", []).append(_filter(port, each))
        for address, function in its[SequenceFunctions].by_stream.items():
            guard = found[names[address]]
            if isinstance(function, Generation):
                guard.setdefault("numbered", []).append(str(PortRef(switch, function.port)))
            elif isinstance(function, Recovery):
                guard.setdefault("recovered", []).append(
                    {
                        "switch": switch,
                        "ports": list(function.ports),
                        "history": function.history_length,
                        "reset_ms": function.reset_timeout_ms,
                    }
                )
    return found


def _filter(port: str, its: StreamFilter) -> dict[str, Any]:
    what: dict[str, Any] = {
        "port": port,
        "policing": its.policing,
        "max_sdu_octets": its.max_sdu_octets,
    }
    if isinstance(its.gate, WindowGate):
        what |= {
            "opens_ns": its.gate.start_ns,
            "closes_ns": its.gate.start_ns + its.gate.open_ns,
            "octets_max": its.gate.octets_max,
        }
    return what
