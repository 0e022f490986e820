"""Labels of streams, as a controller asks for them: the least that a mechanism can be."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from cnc import mechanism as contract
from cnc.model import Plan, StreamAddress
from cnc.support.lazy import lazy_import

_LATE = lazy_import("toy_label_controller.late")  # not every command needs it
_NEEDS = contract.Needs("label", "leave out `label`")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What an intent states, by stream."""

    by_stream: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Decision:
    """Which planned streams have which label: what a search would leave in the plan."""

    by_stream: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Labels:
    """What a switch labels streams with."""

    by_address: Mapping[StreamAddress, str] = field(default_factory=dict)

    def only(self, kept: Collection[StreamAddress]) -> Labels:
        return Labels({its: text for its, text in self.by_address.items() if its in kept})


class Row(NamedTuple):
    """A label, in documents and in the history."""

    destination_mac: str
    vlan_id: int
    text: str


def rows_of(its: Labels, _names: contract.Names | None = None) -> Iterator[Row]:
    for address, text in sorted(its.by_address.items(), key=str):
        yield Row(address.destination_mac, address.vlan_id, text)


def labels(rows: tuple[Row, ...]) -> Labels:
    return Labels({StreamAddress(mac, vlan_id): text for mac, vlan_id, text in rows})


def _decide(plan: Plan) -> Decision:
    wanted = plan.intent[Wanted].by_stream
    return Decision({name: wanted[name] for name in wanted if name in plan.streams})


def _derive(plan: Plan, switches: Collection[str]) -> dict[str, Labels]:
    wanted = plan[Decision].by_stream
    found: dict[str, dict[StreamAddress, str]] = {}
    for name in wanted:
        for switch in {hop.egress.node for hop in plan.streams[name].hops}.intersection(switches):
            found.setdefault(switch, {})[plan.addresses[name]] = wanted[name]
    return {switch: Labels(its) for switch, its in found.items()}


def _differences(
    want: Labels, has: Labels, _whose: contract.Whose, names: contract.Names
) -> Iterator[str]:
    for each in sorted(want.by_address.keys() | has.by_address.keys(), key=str):
        wanted, found = (its.by_address.get(each, "not") for its in (want, has))
        if wanted != found:
            yield f"{contract.described(each, names)} is labelled {found}, wanted {wanted}"


def _at_hop(does: Labels, planned: Labels, address: StreamAddress, _port: str) -> contract.AtHop:
    found, wanted = does.by_address.get(address), planned.by_address.get(address)
    return contract.AtHop(
        found and f"labelled {found}", None if found == wanted else f"not {wanted}"
    )


def _guards(its: Labels, switch: str) -> Iterator[tuple[StreamAddress, str, object]]:
    return ((each, "told", f"{switch} labels it {text}") for each, text in its.by_address.items())


MECHANISM = contract.Mechanism(
    name="label",
    part=Labels,
    keys=lambda: _LATE.KEYS,
    decided=contract.Decided(
        _decide,
        Decision,
        contract.Kept(
            "labels",
            tuple[str, str],
            lambda its: iter(sorted(its.by_stream.items())),
            lambda rows: Decision(dict(rows)),
        ),
    ),
    planned=contract.Planned(_derive),
    changed=contract.Changed(
        within=lambda its, vlans: its.only([a for a in its.by_address if a.vlan_id in vlans]),
        differences=_differences,
        joined=lambda own, former: Labels({**former.by_address, **own.by_address}),
        on_ports=lambda its, _ports: its,
        of_streams=Labels.only,
    ),
    switch=contract.Switch(("toy-label",), _NEEDS, _NEEDS, lambda _its, _names: "streams"),
    kept=contract.Kept("labels", Row, rows_of, labels),
    tree=lambda: _LATE.TREE,
    shown=contract.Shown(
        "labels", Row, rows_of, "Labels.", "label", "Its label.", "label", _at_hop, _guards
    ),
    summary=lambda its: iter([(len(its.by_address), "label")]),
)
