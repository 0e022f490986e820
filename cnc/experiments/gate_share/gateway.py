"""A gateway with one gated port, and two senders that are not synchronised with its cycle.

    sensor ──┐
             gateway ── cloud        gated: gateway's port towards the cloud
    bulk   ──┘

The port has two traffic classes and a list of two entries: open for high priority during a share of
the cycle, for best effort during the rest. It is not planned, but set by the experiment.
"""

from __future__ import annotations

import random

from cnc import intent as intents
from cnc.experiments.description import GateShareDescription
from cnc.model import GateControlList, GateEntry, Intent, Plan, PortRef
from cnc.traffic.recording import Flow

GATED = PortRef("gateway", "cloud")
HIGH_PRIORITY, BEST_EFFORT = "high-priority", "best-effort"
TALKERS = {HIGH_PRIORITY: "sensor", BEST_EFFORT: "bulk"}
LISTENER = "cloud"
NUMBERS = {HIGH_PRIORITY: 1, BEST_EFFORT: 0}  # of the traffic classes, and of their queues
WHOLE = 100  # shares are percentages


def intent(description: GateShareDescription) -> Intent:
    """The network; it has no streams, for nothing is promised."""
    dscps = {HIGH_PRIORITY: description.high_priority, BEST_EFFORT: description.best_effort}
    roles = {HIGH_PRIORITY: "scheduled", BEST_EFFORT: "best-effort"}
    stations = [*TALKERS.values(), LISTENER]
    return intents.from_document(
        {
            "name": description.name,
            "defaults": {
                "rate": f"{description.rate_bps}bps",
                "propagation": f"{description.propagation_ns}ns",
                "processing": {
                    "min": f"{description.processing_ns}ns",
                    "max": f"{description.processing_ns}ns",
                },
                "clock-error": "0ns",
                "gate-margin": "0ns",
                "user": "tsn",
            },
            "classes": {
                name: {
                    "traffic-class": number,
                    "priority": number,
                    "dscp": dscps[name],
                    "role": roles[name],
                }
                for name, number in NUMBERS.items()
            },
            "switches": {"gateway": {"management": "10.99.0.1", "ports": stations}},
            "end-stations": stations,
            "links": [[f"{station}/eth0", f"gateway/{station}"] for station in stations],
            "streams": {},
        },
        description.name,
    )


def gates(share: int, cycle_ns: int) -> GateControlList:
    """Open for high priority during `share` per cent of the cycle, then for best effort."""
    open_ns = cycle_ns * share // WHOLE
    return GateControlList(
        cycle_ns,
        (
            GateEntry(1 << NUMBERS[HIGH_PRIORITY], open_ns),
            GateEntry(1 << NUMBERS[BEST_EFFORT], cycle_ns - open_ns),
        ),
    )


def plan(of: Intent, stated: GateControlList | None) -> Plan:
    """A list, or none, as a plan: for the same way to the switch that every plan takes."""
    return Plan(of, streams={}, gates={GATED: stated} if stated else {}, algorithm="stated")


def flows(description: GateShareDescription) -> list[Flow]:
    """Both senders, each of which meets every phase of the cycle just once in `frames` frames.

    The seed chooses the phases at which they begin.
    """
    chance = random.Random(description.seed)  # noqa: S311  a repeatable choice, not a secret
    dscps = {HIGH_PRIORITY: description.high_priority, BEST_EFFORT: description.best_effort}
    return [
        Flow(
            name=name,
            talker=talker,
            listener=LISTENER,
            traffic_class=NUMBERS[name],
            ip_version=6,
            dscp=dscps[name],
            payload_octets=description.packet_octets,
            period_ns=description.period_ns,
            offset_ns=chance.randrange(description.cycle_ns),
            latency_bound_ns=None,
        )
        for name, talker in TALKERS.items()
    ]


def closed_ns(name: str, share: int, cycle_ns: int) -> int:
    """How long the gate of a class is closed in each cycle."""
    return cycle_ns * (WHOLE - share if name == HIGH_PRIORITY else share) // WHOLE


def expected_mean_ns(closed_ns: int, cycle_ns: int) -> float:
    """Mean time at a gate that is closed for `closed_ns` of each cycle, arrivals uniform over it.

    A share closed_ns/cycle_ns of all frames finds it closed, and waits half of that on average.
    """
    return closed_ns**2 / (2 * cycle_ns)
