"""What switches do for single streams of a bridged network, for the page."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from cnc.mechanisms.composition import bridge_forwardings
from cnc.mechanisms.registry import SHOWN
from cnc.model import Forwarding, Plan


def guards(plan: Plan) -> dict[str, dict[str, list[Any]]]:
    """By stream what switches do, by the keys of mechanisms; streams for which none does anything
    are left out."""
    found: defaultdict[str, dict[str, list[Any]]] = defaultdict(dict)
    if plan.intent.network.forwarding is Forwarding.ROUTED:
        return found
    names = {address: name for name, address in plan.addresses.items()}
    for switch, its in bridge_forwardings(plan).items():
        for part, shown in SHOWN:
            for address, key, what in shown.guards(its[part], switch):
                found[names[address]].setdefault(key, []).append(what)
    return found
