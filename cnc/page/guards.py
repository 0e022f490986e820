"""What switches do for single streams of a bridged network, for the page."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from cnc.mechanism import stream_of
from cnc.mechanisms.composition import bridge_forwardings, stream_names
from cnc.mechanisms.registry import MECHANISMS
from cnc.model import Forwarding, Plan


def guards(plan: Plan) -> dict[str, dict[str, list[Any]]]:
    """By stream what switches do, by the keys of mechanisms; streams for which none does anything
    are left out."""
    found: defaultdict[str, dict[str, list[Any]]] = defaultdict(dict)
    if plan.intent.network.forwarding is Forwarding.ROUTED:
        return found
    names = stream_names(plan)
    for switch, its in bridge_forwardings(plan).items():
        for each in MECHANISMS:
            for address, key, what in each.shown.guards(its[each.part], switch):
                if name := stream_of(address, names):
                    found[name].setdefault(key, []).append(what)
    return found
