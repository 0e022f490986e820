"""The networks of the matrix, each with two schedules.

Five switches in a line that route, whose schedules differ on every port; three bridges in a
triangle, where each stream has another way in either schedule; and three that police streams and
take out second copies, where each schedule does so for other streams.
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
# it. In the triangle the previous paths of all streams cross it.
STRUCK = "s3"
LONGER_OCTETS = 700
# A filter that changes; filters and functions that come, and some that go.
_OTHERWISE_GUARDED = {
    "longer": {"payload": "400B"},
    "guarded": {"elimination": "switch", "policing": "drop"},
    "plain": {"elimination": "listener", "policing": "off"},
}
CABLE = (PortRef("s1", "s3"), PortRef("s3", "s1"))


class Subject(StrEnum):
    """The name of a network, and of its file."""

    LINE = "line5"
    BRIDGED = "bridged3"
    GUARDED = "guarded3"


def network(subject: Subject = Subject.LINE) -> Intent:
    """The network with its streams as the file has them."""
    return intents.load(FOLDER / f"{subject}.yaml")


@cache
def two_plans(subject: Subject = Subject.LINE) -> tuple[Plan, Plan]:
    """The schedule of the file's streams; and in the line that of the same streams with longer
    frames, in the triangle that of the same streams without a cable, and where bridges guard
    streams that of the same streams with `_OTHERWISE_GUARDED`."""
    first = network(subject)
    old = plan(first)
    if subject is Subject.GUARDED:
        streams = {
            name: {**keys, **_OTHERWISE_GUARDED.get(name, {})}
            for name, keys in first.document["streams"].items()
        }
        second = intents.from_document({**first.document, "streams": streams}, first.name)
        return old, plan(second, keep=old)
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
