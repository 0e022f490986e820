"""Flows that an operator defines: a YAML file, checked against the network they cross.

Messages read as those about an intent: `FILE:LINE: PATH: found X, expected Y`.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

from pydantic import Field

from cnc.intent import read, validate
from cnc.keys.mapping import Shape
from cnc.keys.problems import KeyPath, Problems, one_of, shown
from cnc.keys.units import DURATION, RATE, SIZE
from cnc.keys.values import (
    PAYLOAD_MAX_OCTETS,
    Dscp,
    Duration,
    IpVersion,
    Name,
    Rate,
    choice,
    quantity,
)
from cnc.lab.addressing import next_hops
from cnc.lab.supported import mtu_octets
from cnc.model import NS_PER_S, ClassRole, Intent
from cnc.traffic.flows import (
    Flow,
    Pattern,
    cbr_period_ns,
    least_payload_octets,
    saturating_period_ns,
)

PERIOD_MIN_NS = 1_000  # no program here sends a million frames a second


class Sending(StrEnum):
    """How the frames of a flow follow one another."""

    PERIODIC = "periodic"
    CBR = "cbr"
    SATURATING = "saturating"


_KEYS_OF = {Sending.PERIODIC: {"period"}, Sending.CBR: {"rate"}, Sending.SATURATING: set[str]()}


class FlowShape(Shape):
    """One flow."""

    name: Name = Field(description="name of the flow")
    talker: Name = Field(description="the node that sends")
    listener: Name = Field(description="the node that receives")
    pattern: Annotated[Sending, choice(Sending)] = Field(
        "periodic",
        validate_default=True,
        description="periodic: a frame each period; cbr: periodic, at a rate; saturating: a frame "
        "is always ready",
    )
    period_ns: Annotated[int, quantity(DURATION, PERIOD_MIN_NS, NS_PER_S)] | None = Field(
        None, description="of a periodic flow, a duration such as 500us"
    )
    rate_bps: Rate | None = Field(
        None, description="of a cbr flow, counting whole IP packets, such as 100Mbps"
    )
    payload_octets: Annotated[int, quantity(SIZE, 1, PAYLOAD_MAX_OCTETS)] = Field(
        description="the IP packet with its headers, in octets, such as 200B"
    )
    dscp: Dscp = Field(0, description="IP code point of its frames, 0 to 63")
    offset_ns: Duration = Field(
        "0ns", validate_default=True, description="of its first frame, a duration such as 100us"
    )
    ip: IpVersion = Field(6, description="IP version, 4 or 6")


class FlowsDocument(Shape):
    """What to send."""

    flows: list[FlowShape] = Field(min_length=1, description="a list of flows")


def load(path: Path, intent: Intent) -> list[Flow]:
    """The flows of a file, to be sent through the network of an intent.

    Raises:
        InputError: with one line for each problem found.
    """
    problems = read(path)
    document = validate(problems, FlowsDocument)
    for index, flow in enumerate(document.flows):
        _check_ends(intent, flow, ("flows", index), problems)
        _check_pattern(flow, ("flows", index), problems)
        _check_length(intent, flow, ("flows", index), problems)
        if flow.name in {before.name for before in document.flows[:index]}:
            problems.add(("flows", index, "name"), f"{flow.name} again", "each name once")
    problems.raise_if_any()
    return [_build(intent, flow) for flow in document.flows]


def _check_ends(intent: Intent, flow: FlowShape, path: KeyPath, problems: Problems) -> None:
    network = intent.network
    nodes = [*network.end_stations, *network.bridges]
    for end, name in (("talker", flow.talker), ("listener", flow.listener)):
        if name not in nodes:
            problems.add((*path, end), shown(name), one_of(nodes, name))
            return
    if flow.talker not in next_hops(network, flow.listener):
        problems.add((*path, "listener"), flow.listener, f"another node that {flow.talker} reaches")


def _check_pattern(flow: FlowShape, path: KeyPath, problems: Problems) -> None:
    required = _KEYS_OF[flow.pattern]
    for key, value in (("period", flow.period_ns), ("rate", flow.rate_bps)):
        if value is None and key in required:
            problems.add(path, f"no {key}", f"one, for the pattern is {flow.pattern}")
        if value is not None and key not in required:
            actual = f"a {key}, and the pattern {flow.pattern}"
            problems.add((*path, key), actual, f"{' '.join(required) or 'neither period nor rate'}")
    least = least_payload_octets(flow.ip)
    if flow.payload_octets < least:
        what = f"{SIZE.format(least)} or more, to hold headers and a sequence number"
        problems.add((*path, "payload"), SIZE.format(flow.payload_octets), what)
    elif flow.rate_bps and cbr_period_ns(flow.rate_bps, flow.payload_octets) < PERIOD_MIN_NS:
        most = f"a rate at which frames are {DURATION.format(PERIOD_MIN_NS)} apart or more"
        problems.add((*path, "rate"), RATE.format(flow.rate_bps), most)


def _check_length(intent: Intent, flow: FlowShape, path: KeyPath, problems: Problems) -> None:
    """Longer packets would be sent in fragments."""
    mtu = mtu_octets(intent)
    if flow.payload_octets > mtu:
        most = f"{SIZE.format(mtu)} or less, the MTU of the lab's ports, which is as long as the "
        most += "longest packets of streams, or frames of best effort, in the intent"
        problems.add((*path, "payload"), SIZE.format(flow.payload_octets), most)


def _build(intent: Intent, flow: FlowShape) -> Flow:
    if flow.period_ns:
        period_ns = flow.period_ns
    elif flow.rate_bps:
        period_ns = cbr_period_ns(flow.rate_bps, flow.payload_octets)
    else:
        period_ns = saturating_period_ns(intent, flow.talker, flow.listener, flow.payload_octets)
    flow_class = next(
        (each for each in intent.classes.values() if flow.dscp in each.dscps),
        intent.classes_with(ClassRole.BEST_EFFORT)[0],
    )
    return Flow(
        name=flow.name,
        talker=flow.talker,
        listener=flow.listener,
        traffic_class=flow_class.number,
        ip_version=flow.ip,
        dscp=flow.dscp,
        payload_octets=flow.payload_octets,
        period_ns=period_ns,
        offset_ns=flow.offset_ns,
        latency_bound_ns=None,
        pattern=Pattern.SATURATING if flow.pattern is Sending.SATURATING else Pattern.PERIODIC,
    )
