"""How translations of streams are told: in documents, and on the path of a stream."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cnc.mechanism import AtHop, Names, Shown, StreamTable
from cnc.mechanisms.identification import model
from cnc.mechanisms.identification.model import Inward, Outward, Translations
from cnc.model import Plan, StreamAddress


# The attributes' docstrings are in the JSON schemas.
@dataclass(frozen=True, slots=True)
class Translation:
    """What a switch does with the frames of a stream whose talker sends them untagged."""

    stream: str | None
    """null: not known, as of one that is in no plan."""
    destination_mac: str
    vlan_id: int
    inward: Inward | None
    """At the first switch: by what it knows them at a port, and the PCP that they get with their
    address."""
    outward: Outward | None
    """At the last switch: the port where they lose address and tag, and the address that they get
    instead."""


def _rows(its: Translations, names: Names) -> Iterator[Translation]:
    for address, translation in sorted(its.by_stream.items(), key=str):
        yield Translation(
            names.get(address),
            address.destination_mac,
            address.vlan_id,
            translation.inward,
            translation.outward,
        )


def _at_hop(does: Translations, planned: Translations, address: StreamAddress, port: str) -> AtHop:
    """A frame that its talker sends untagged has no address before its first switch gives it
    one."""
    running, wanted = (its.by_stream.get(address, model.Translation()) for its in (does, planned))
    if unknown := _not_known(running.inward, wanted.inward, port):
        return AtHop(None, unknown, ends=True)
    parts = []
    if running.inward and running.inward.port == port:
        parts.append(
            f"{running.inward.identification}: to {address.destination_mac}, VLAN "
            f"{address.vlan_id}, PCP {running.inward.pcp}"
        )
    if running.outward:
        parts.append(f"untagged to {running.outward.listener_mac} by {running.outward.port}")
    return AtHop("; ".join(parts) or None, _not_back(running.outward, wanted.outward))


def _not_known(running: Inward | None, planned: Inward | None, port: str) -> str | None:
    """How a first switch fails to give untagged frames their address; None: it does not."""
    if planned is None or planned.port != port or running == planned:
        return None
    if running is None:
        return "frames stay untagged, in no VLAN of streams: the kernel does not know them"
    return (
        f"frames of the stream are {running.identification} at {running.port}, as PCP "
        f"{running.pcp}; planned: {planned.identification} at {planned.port}, as PCP "
        f"{planned.pcp}"
    )


def _not_back(running: Outward | None, planned: Outward | None) -> str | None:
    """How a last switch fails to give frames back as they were sent; None: it does not."""
    if running == planned:
        return None
    does_so = "tagged" if running is None else f"to {running.listener_mac} by {running.port}"
    if planned is None:
        return f"frames leave untagged {does_so}, which is not planned"
    return f"frames leave {does_so}; planned: to {planned.listener_mac} by {planned.port}"


def _table(plan: Plan) -> StreamTable | None:
    """By what switches know the streams that talkers send untagged."""
    links = plan.intent.network.links
    known_by = {name: plan.intent.streams[name].identification for name in plan.streams}
    untagged = [name for name, its in known_by.items() if its]

    def row(name: str) -> tuple[str, ...]:
        first, *_, last = plan.streams[name].hops
        return name, str(known_by[name]), str(links[first.egress].target), str(last.egress)

    if not untagged:
        return None
    columns = ("stream", "known by", "translated at", "and back at")
    title = "streams that talkers send untagged"
    return StreamTable(title, columns, len(untagged), map(row, untagged))


SHOWN = Shown(
    key="translations",
    row=Translation,
    rows=_rows,
    key_text="Left out where no frames are translated.",
    hop_key="translation",
    hop_text="What becomes of their address and tag, in words; left out where nothing does.",
    hop_column="translation",
    at_hop=_at_hop,
    table=_table,
)
