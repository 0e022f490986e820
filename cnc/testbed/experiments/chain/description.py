"""The file of a chain of components: its keys, their types and defaults."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from cnc.keys.mapping import Shape
from cnc.keys.problems import KeyPath, one_of, shown
from cnc.keys.units import DURATION
from cnc.keys.values import Duration, Name, integer, quantity, text
from cnc.loops.keys import Function
from cnc.model import NS_PER_S
from cnc.testbed.experiments.keys import NetworkDescription, PacketOctets
from cnc.testbed.traffic.chain import roles
from cnc.testbed.traffic.chain.run import PHASE_NS

BACKWARD = "backward"
Role = Annotated[str, text("|".join(roles.ROLES), f"one of {', '.join(roles.ROLES)}")]


class ComponentShape(Shape):
    """A component of the chain, in its place."""

    role: Role = Field(description="which component it is")
    station: Name = Field(description="the end station that it runs on; others may run there, too")
    work_ns: Duration = Field(
        "0s",
        validate_default=True,
        description="from the arrival of a message until it leaves, slept",
    )


class LossShape(Shape):
    """Messages that do not get to a component."""

    at: Role = Field(description="the component that they do not get to")
    percent: Annotated[int, integer(1, 100)] = Field(
        description="how many of a hundred, drawn by seed"
    )


class FlowShape(Shape):
    """A flow of messages, each in one packet, from one end of the chain to the other."""

    direction: Annotated[
        str, text(f"forward|{BACKWARD}", f"forward, from the first component on, or {BACKWARD}")
    ] = Field(description="forward, from the first component to the last, or backward")
    interval_ns: Annotated[int, quantity(DURATION, PHASE_NS, NS_PER_S)] = Field(
        description="from one message to the next"
    )
    packet_octets: PacketOctets = Field(description="an IP packet of a message with its headers")
    functions: dict[str, Function] = Field(
        {},
        description="functions of your own by what they do (receive, code, decode, send and what "
        "the flow has between them), as module:function; the module is looked for beside this file",
    )
    predict_after_ns: Duration | None = Field(
        None,
        description="how long after its instant the edge intelligence on its way sends a message, "
        "predicted if it has not arrived until then; default: it passes on what arrives",
    )
    loss: LossShape | None = Field(None, description="messages to be lost; default: none")


class FlowsShape(Shape):
    """The flows of a chain; those that are not there are not sent."""

    kinematic: FlowShape | None = Field(None, description="where the operator's hand is")
    haptic: FlowShape | None = Field(None, description="what the robot feels")
    audio: FlowShape | None = Field(None, description="what is heard there")
    video: FlowShape | None = Field(None, description="what is seen there")

    @property
    def by_name(self) -> dict[str, FlowShape]:
        return {name: its for name in roles.DEFAULTS if (its := getattr(self, name)) is not None}


class ChainDescription(NetworkDescription):
    """Flows between an operator and a robot, through the components of a chain."""

    components: list[ComponentShape] = Field(
        min_length=2, description="in the order in which a kinematic message passes them"
    )
    flows: FlowsShape = Field(description="what is sent through the chain")
    duration_ns: Annotated[int, quantity(DURATION, 1_000_000, 60 * NS_PER_S)] = Field(
        description="for how long is sent"
    )

    def contradictions(self) -> Iterator[tuple[KeyPath, str, str]]:
        named = [each.role for each in self.components]
        for n, role in enumerate(named):
            if role in named[:n]:
                yield ("components", n, "role"), shown(role), "a role that is not before it"
        if not self.flows.by_name:
            yield ("flows",), "no flow", one_of(roles.DEFAULTS)
        for name, flow in self.flows.by_name.items():
            yield from self._of_flow(name, flow, named)

    def _of_flow(
        self, name: str, flow: FlowShape, named: list[str]
    ) -> Iterator[tuple[KeyPath, str, str]]:
        at = ("flows", name)
        for function in flow.functions:
            if function not in roles.DEFAULTS[name]:
                expected = one_of(roles.DEFAULTS[name], function)
                yield (*at, "functions"), shown(function), expected
        if flow.interval_ns > self.duration_ns:
            longest = DURATION.format(self.duration_ns)
            yield (*at, "interval"), DURATION.format(flow.interval_ns), f"at most {longest}"
        if flow.loss:
            way = named if flow.direction != BACKWARD else named[::-1]
            if flow.loss.at not in way[1:]:
                yield (*at, "loss", "at"), shown(flow.loss.at), one_of(way[1:], flow.loss.at)
        if flow.predict_after_ns is not None:
            between = [
                role for role in named[1:-1] if roles.PREDICT in roles.WORK[name].get(role, ())
            ]
            if not between:
                expected = "a flow with edge intelligence of its own on its way: ss-ei of the "
                expected += "kinematic, ms-ei of the haptic one"
                yield (*at, "predict-after"), name, expected
