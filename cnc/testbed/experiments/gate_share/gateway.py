"""A gateway with one gated port, and two senders that are not synchronised with its cycle.

    sensor ──┐
             gateway ── cloud        gated: gateway's port towards the cloud
    bulk   ──┘

The intent gives high priority a share of the cycle, for which its gate alone is open, and best
effort has the rest: a list of two entries, at the ports of the senders, too. A stream may be
planned beside it, from a talker of its own.
"""

from __future__ import annotations

import random
from dataclasses import replace

from cnc import intent as intents
from cnc.model import VLAN_TAG_OCTETS, Intent, Plan
from cnc.planner import plan
from cnc.support.format import counted, duration, rate
from cnc.testbed.experiments.description import GateShareDescription, PlannedBeside
from cnc.testbed.traffic.flows import Flow
from cnc.testbed.traffic.flows import flows as flows_of

HIGH_PRIORITY, BEST_EFFORT = "high-priority", "best-effort"
TALKERS = {HIGH_PRIORITY: "sensor", BEST_EFFORT: "bulk"}
LISTENER = "cloud"
NUMBERS = {HIGH_PRIORITY: 1, BEST_EFFORT: 0}  # of the traffic classes, and of their queues
PLANNED, CONTROLLER = "planned", "controller"  # the stream beside them, and its talker
PLANNED_NUMBER = 2
GATE_MARGIN_NS = 1_000  # beside it: a gate reads the clock after it has opened
FRAMING_OCTETS = 18  # MAC header and check sequence
WHOLE = 100  # shares are percentages
TOLERANCE = 0.01  # of the closed form, but
TOLERANCE_FLOOR_NS = 1_000  # no less than time stamps are good to


def intent(description: GateShareDescription, share: int | None = None) -> Intent:
    """The network, in which high priority has `share` per cent of the cycle, or no gate ever shuts.
    Beside the share there is the stream of the description, if it has one: nothing else is
    promised.

    Raises:
        InputError: the share leaves a class no time for one of its frames.
    """
    dscps = {HIGH_PRIORITY: description.high_priority, BEST_EFFORT: description.best_effort}
    roles = {HIGH_PRIORITY: "scheduled", BEST_EFFORT: "best-effort"}
    windows = {"share": f"{share}%", "every": f"{description.cycle_ns}ns"}
    stated = {HIGH_PRIORITY: {"windows": windows} if share else {}, BEST_EFFORT: {}}
    beside = description.beside
    stations = [*TALKERS.values(), LISTENER, *([CONTROLLER] if beside else [])]
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
                "gate-margin": f"{GATE_MARGIN_NS if beside else 0}ns",
                "talker-interference": "none",
                "user": "tsn",
            },
            "classes": {
                name: {
                    "traffic-class": number,
                    "priority": number,
                    "dscp": dscps[name],
                    "role": roles[name],
                    "max-frame": f"{description.packet_octets + FRAMING_OCTETS}B",
                    **stated[name],
                }
                for name, number in NUMBERS.items()
            }
            | ({PLANNED: _planned_class(beside)} if beside else {}),
            "switches": {"gateway": {"management": "10.99.0.1", "ports": stations}},
            "end-stations": stations,
            "links": [[f"{station}/eth0", f"gateway/{station}"] for station in stations],
            "streams": {PLANNED: _planned_stream(beside)} if beside and share else {},
        },
        description.name,
    )


def _planned_class(beside: PlannedBeside) -> dict[str, object]:
    return {
        "traffic-class": PLANNED_NUMBER,
        "priority": PLANNED_NUMBER,
        "dscp": beside.dscp,
        "role": "scheduled",
        "max-frame": f"{beside.packet_octets + FRAMING_OCTETS + VLAN_TAG_OCTETS}B",
    }


def _planned_stream(beside: PlannedBeside) -> dict[str, object]:
    return {
        "talker": CONTROLLER,
        "listeners": [LISTENER],
        "class": PLANNED,
        "period": f"{beside.period_ns}ns",
        "payload": f"{beside.packet_octets}B",
        "max-latency": f"{beside.period_ns}ns",
        "ip": 6,
    }


def planned(description: GateShareDescription, share: int) -> Plan:
    """The plan at a share.

    Raises:
        InputError: the share leaves a class no time for one of its frames.
        Unschedulable: it leaves none to the stream beside it.
    """
    return plan(intent(description, share))


def planned_flow(description: GateShareDescription, share: int) -> Flow:
    """What is sent of the stream beside the share."""
    its = planned(description, share)
    (flow,) = (each for each in flows_of(its) if each.latency_bound_ns is not None)
    if not isinstance(flow, Flow):
        raise TypeError(f"{flow.name} is bridged")
    return replace(flow, name=PLANNED)


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


def shut_ns(description: GateShareDescription, name: str, share: int) -> int:
    """How long no frame of a class begins in each cycle: while its gate is closed, and before that
    for as long as a frame takes, since the gate starts none that would not end in time (802.1Q
    8.6.8.4)."""
    return closed_ns(name, share, description.cycle_ns) + description.transmission_ns


def expected_mean_ns(shut_ns: int, cycle_ns: int) -> float:
    """Mean time at a gate that starts no frame for `shut_ns` of each cycle, arrivals uniform over
    it.

    A share shut_ns/cycle_ns of all frames comes then, and waits half of that on average. Frames
    that wait together also wait for each other, which this leaves out (`meeting`).
    """
    return shut_ns**2 / (2 * cycle_ns)


def tolerance_ns(expected_ns: float) -> float:
    """How far a mean may be from the closed form."""
    return max(TOLERANCE * expected_ns, TOLERANCE_FLOOR_NS)


def meeting(description: GateShareDescription) -> str | None:
    """Why the closed form does not describe this experiment, at the first share where it does not.

    Frames of a class that come while its gate is shut leave one after the other. As long as that
    is within the tolerance, frames wait for the gate alone.
    """
    frame_ns, cycle_ns = description.transmission_ns, description.cycle_ns
    for share in description.shares:
        for name in TALKERS:
            shut = shut_ns(description, name, share)
            here = f"{name} at {share} %: a frame takes {duration(frame_ns)} on a link of "
            here += rate(description.rate_bps)
            open_ns = cycle_ns - closed_ns(name, share, cycle_ns)
            waiting = -(-shut // description.period_ns)
            if waiting * frame_ns > open_ns:
                return (
                    f"{here}, and up to {counted(waiting, 'frame')} of each cycle do not fit the "
                    f"{duration(open_ns)} for which the gate is open"
                )
            if (waiting - 1) * frame_ns > tolerance_ns(expected_mean_ns(shut, cycle_ns)):
                return f"{here}, and up to {counted(waiting, 'frame')} wait for each other"
    return None
