"""What the programs of plant and controller are told, each in its end station."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cnc.errors import InputError
from cnc.loops.model import Loop
from cnc.model import Plan
from cnc.testbed.lab.addressing import addresses
from cnc.testbed.lab.running import Lab
from cnc.testbed.traffic.endpoint import FAMILIES
from cnc.testbed.traffic.flows import AnyFlow, BridgedFlow, Flow, marks
from cnc.testbed.traffic.loop import axes, program
from cnc.testbed.traffic.station import Station

PORT = 5006  # beside that of `cnc.testbed.traffic.endpoint`
TURN = 200  # of the rehearsals, behind those of all talkers


def stations(
    lab: Lab,
    plan: Plan,
    loop: Loop,
    closing: tuple[AnyFlow, AnyFlow],
    *,
    modules: Path,
    answers_ns: int,
) -> tuple[Station, Station]:
    """The plant's and the controller's program, not started; `closing` are the flows of the
    sensor's and of the actuator's stream.

    Raises:
        InputError: a stream comes to one of them by several ports.
    """
    sensor, actuator = closing
    sampled_ns = min(plan.streams[loop.sensor].talker_offsets_ns)
    own_code = str(modules.resolve())
    common = {
        "period_ns": loop.period_ns,
        "periods": loop.periods,
        "inputs": axes.inputs(loop),
        "resting": axes.resting(loop),
    }
    plant = {
        **common,
        "flow": sending(lab, sensor),
        "listener": _heard(lab, plan, actuator),
        "controlled": axes.controlled(loop, own_code),
        "sampled_ns": sampled_ns,
        "deadline_ns": loop.deadline_ns,
        "turn": TURN,
    }
    controller = {
        **common,
        "flow": sending(lab, actuator),
        "listener": _heard(lab, plan, sensor),
        "answering": axes.answering(loop, own_code),
        **axes.references(loop),
        "leaves_ns": sampled_ns + answers_ns,
        "compute_ns": loop.compute_ns,
        "turn": TURN + 1,
    }
    return (
        Station(lab, "plant", sensor.talker, 0, plant, file=program.__file__),
        Station(lab, "control", actuator.talker, 0, controller, file=program.__file__),
    )


def sending(lab: Lab, flow: AnyFlow) -> dict[str, Any]:
    """How a program sends the frames of a flow, packets to `PORT` among them."""
    if isinstance(flow, BridgedFlow):
        return asdict(flow)
    destination = addresses(lab.intent)[flow.listener].of_version(flow.ip_version)
    way = {"destination": str(destination), "port": PORT, "source": None, "source_port": None}
    return {**asdict(flow), **way}


def listening(lab: Lab, flow: Flow) -> Mapping[str, Any]:
    """Where the packets of a flow arrive."""
    own = addresses(lab.intent)[flow.listener].of_version(flow.ip_version)
    return {"family": FAMILIES[flow.ip_version], "address": str(own), "port": PORT}


def _heard(lab: Lab, plan: Plan, flow: AnyFlow) -> Mapping[str, Any]:
    """Where a flow's frames arrive."""
    if isinstance(flow, Flow):
        return listening(lab, flow)
    links = plan.intent.network.links
    targets = (links[hop.egress].target for hop in plan.streams[flow.stream].hops)
    ports = sorted({target.port for target in targets if target.node == flow.listener})
    if len(ports) > 1:
        raise InputError(
            f"stream {flow.stream} comes to {flow.listener} by {' and '.join(ports)}, and "
            "cnc lab loop listens at one port",
            hint="close the loop by streams with one path, or at a station with one link",
        )
    return {"interface": ports[0], "ethertypes": marks([flow]).ethertypes}
