"""Which bridge the cabled ports of a switch are ports of, and what prevents streams there. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from cnc.discover.names import PORT, printable
from cnc.support.wording import named
from cnc.switch.topology import TopologyReport


def bridge_of(report: TopologyReport, cabled: Sequence[str]) -> str | None:
    """The bridge that most of the ports `cabled` belong to, or of a switch without any such port
    the bridge with the most ports; None where there is none."""
    sizes = Counter(
        {
            name: len({*bridge.ports} & {*cabled}) if cabled else len(bridge.ports)
            for name, bridge in report.bridges.items()
        }
    )
    return max((name for name in sizes if sizes[name]), key=lambda n: (sizes[n], n), default=None)


def bridge_remarks(
    report: TopologyReport, bridge: str | None, cabled: Sequence[str]
) -> Iterator[str]:
    """What an operator has to do before streams can pass this switch of a bridged network."""
    if bridge is None:
        yield (
            "no port with a cable is a port of a bridge: make one, with VLAN filtering, before "
            "streams pass here"
        )
        return
    shown = printable(bridge)
    if not PORT.fullmatch(bridge):
        yield f"its bridge {shown} has a name that an intent cannot have: rename it"
    if not report.bridges[bridge].filters_vlans:
        yield (
            f"VLAN filtering of {shown} is off, streams cannot pass: "
            f"ip link set {shown} type bridge vlan_filtering 1"
        )
    if not report.bridges[bridge].snoops_multicast:
        yield (
            f"multicast snooping of {shown} is off, streams to group addresses cannot pass: "
            f"ip link set {shown} type bridge mcast_snooping 1"
        )
    others = {port: name for name, each in report.bridges.items() for port in each.ports}
    for port in cabled:
        where = others.get(port)
        if where is None:
            yield (
                f"{printable(port)} is no port of {shown}, streams cannot pass: "
                f"ip link set {printable(port)} master {shown}"
            )
        elif where != bridge:
            yield f"{printable(port)} is a port of {printable(where)}: streams pass {shown} only"


def disagreement(bridges: dict[str, str | None]) -> Iterator[str]:
    """A remark where some switches bridge and others do not; `bridges` is by switch."""
    without = sorted(switch for switch, bridge in bridges.items() if bridge is None)
    with_one = sorted(bridges.keys() - {*without})
    if with_one and without:
        yield (
            f"{named(with_one)} {_verb(with_one, 'bridges', 'bridge')} and {named(without)} "
            f"{_verb(without, 'does', 'do')} not: drafted as bridged, which all have to be"
        )


def _verb(subjects: Sequence[str], one: str, several: str) -> str:
    return one if len(subjects) == 1 else several
