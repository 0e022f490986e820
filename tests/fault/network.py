"""The networks of the matrix, each with two schedules.

Five switches in a line that route, whose schedules differ on every port; and three bridges in a
triangle, where each stream has another way in either schedule.
"""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from functools import cache
from pathlib import Path

from cnc import intent as intents
from cnc.model import Intent, Plan, PortRef
from cnc.planner import plan

FOLDER = Path(__file__).parent
# In the line it is in the middle: of the others some come before it in every order, and some after
# it. In the triangle the former ways of all streams cross it.
STRUCK = "s3"
LONGER_OCTETS = 700
CABLE = (PortRef("s1", "s3"), PortRef("s3", "s1"))


class Subject(StrEnum):
    """The name of a network, and of its file."""

    LINE = "line5"
    BRIDGED = "bridged3"


def network(subject: Subject = Subject.LINE) -> Intent:
    """The network with its streams as the file has them."""
    return intents.load(FOLDER / f"{subject}.yaml")


@cache
def two_plans(subject: Subject = Subject.LINE) -> tuple[Plan, Plan]:
    """The schedule of the file's streams; and in the line that of the same streams with longer
    frames, in the triangle that of the same streams without a cable."""
    first = network(subject)
    old = plan(first)
    if subject is Subject.BRIDGED:
        links = {port: link for port, link in first.network.links.items() if port not in CABLE}
        return old, plan(replace(first, network=replace(first.network, links=links)), keep=old)
    streams = {
        name: replace(stream, payload_octets=LONGER_OCTETS)
        for name, stream in first.streams.items()
    }
    return old, plan(replace(first, streams=streams))


def telling_ports(old: Plan, new: Plan) -> frozenset[PortRef]:
    """The ports whose gates tell the one schedule from the other."""
    ports = old.gates.keys() | new.gates.keys()
    return frozenset(port for port in ports if old.gates.get(port) != new.gates.get(port))
