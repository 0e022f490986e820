"""The nodes and links of an intent, with what an operator should look at beside each. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from cnc.data_tree.hardware import described
from cnc.data_tree.tree import GatesReport, PortReport
from cnc.discover import cables
from cnc.discover.asking import Answers, View
from cnc.discover.bridges import bridge_of, bridge_remarks, disagreement
from cnc.discover.cables import Attachment, Cable, Cables, Doubt, SwitchPort
from cnc.discover.lists import with_lists
from cnc.discover.model import Draft, DraftLink, Node
from cnc.discover.names import PORT, Names, plain, printable, quoted
from cnc.discover.targets import shown
from cnc.keys.units import RATE
from cnc.model import PortRef
from cnc.support.wording import named
from cnc.switch.topology import NeighborReport

UNNAMED = "discovered"
_HARDWARE_SHOWN_MAX = 1000
FORWARDS = frozenset({"bridge", "router"})


def draft(answers: Answers, name: str = "", user: str | None = None) -> Draft:
    """The draft of a network from the replies of its switches; `name` is any text."""
    views, remarks = _distinct(answers.views)
    remarks += [
        f"{switch} did not answer: it is missing here, and its cables may be, too"
        for switch in answers.failures
    ]
    return _Drafting(views).draft(plain(name) or UNNAMED, user, remarks)


def _distinct(views: Sequence[View]) -> tuple[list[View], list[str]]:
    """The views of different switches: one that was asked at two addresses counts once."""
    first: dict[object, View] = {}
    remarks = []
    for view in views:
        chassis = view.report.lldp.chassis_id if view.report.lldp else None
        macs = frozenset(i.phys_address for i in view.report.interfaces.values())
        known = first.setdefault((chassis, macs) if chassis else id(view), view)
        if known is not view:
            remarks.append(
                f"{shown(view.management)} is the same switch as {shown(known.management)}"
            )
    return list(first.values()), remarks


class _Drafting:
    """Collects the parts; every node gets its name before any is spoken of."""

    def __init__(self, views: Sequence[View]) -> None:
        self._views = views
        self._found: Cables = cables.find([view.report for view in views])
        self._names = Names()
        self._switches = [
            self._names.give(
                view.report.lldp.system_name if view.report.lldp else "",
                f"switch-{view.management.address}",
            )
            for view in views
        ]

    def draft(self, name: str, user: str | None, remarks: Sequence[str]) -> Draft:
        links = [self._link(cable) for cable in self._usable_cables()]
        stations = []
        for attached in self._by_station():
            station, its_links = self._station(attached)
            stations.append(station)
            links += its_links
        cabled: dict[str, list[str]] = {switch: [] for switch in self._switches}
        for link in links:
            for end in link.ends:
                if end.node in cabled:
                    cabled[end.node].append(end.port)
        bridges = {
            switch: bridge_of(view.report, cabled[switch])
            for switch, view in zip(self._switches, self._views, strict=True)
        }
        is_bridged = any(bridges.values())
        made = Draft(
            name,
            user,
            tuple(
                self._switch(number, sorted(cabled[switch]), bridges[switch], is_bridged=is_bridged)
                for number, switch in enumerate(self._switches)
            ),
            tuple(stations),
            tuple(links),
            (*remarks, *disagreement(bridges), *self._doubts()),
        )
        return with_lists(made, [view.report.ports for view in self._views])

    def _switch(
        self, number: int, cabled: Sequence[str], bridge: str | None, *, is_bridged: bool
    ) -> Node:
        view, remarks = self._views[number], []
        lldp = view.report.lldp
        if lldp is None:
            remarks.append("no LLDP daemon answers there: its neighbours are unknown")
        elif lldp.system_name != self._switches[number]:
            remarks.append(f"calls itself {quoted(lldp.system_name)}")
        heard = {neighbor.interface for neighbor in lldp.neighbors} if lldp else set()
        silent: dict[str, list[str]] = {"up": [], "down": []}
        for port, interface in sorted(view.report.interfaces.items()):
            if port not in heard and port not in cabled and port not in view.report.bridges:
                silent["up" if interface.oper_status == "up" else "down"].append(printable(port))
        if silent["up"]:
            remarks.append(f"up, but no neighbour is heard: {', '.join(silent['up'])}")
        if silent["down"]:
            remarks.append(f"not up: {', '.join(silent['down'])}")
        if is_bridged:
            remarks += bridge_remarks(view.report, bridge, cabled)
        if view.profile:
            remarks += view.profile.remarks
        remarks += _hardware(view.report.ports)
        return Node(
            self._switches[number],
            tuple(cabled),
            tuple(remarks),
            view.management,
            bridge,
            profile=view.profile.keys if view.profile else None,
        )

    def _usable_cables(self) -> Iterator[Cable]:
        for cable in self._found.cables:
            if all(PORT.fullmatch(end.port) for end in cable.ends):
                yield cable

    def _link(self, cable: Cable) -> DraftLink:
        a, b = cable.ends
        remarks = []
        if cable.said_by is not None:
            remarks.append(f"one-sided: only {self._switches[cable.said_by]} says so")
        speeds = {self._shown(end): s for end in (a, b) if (s := self._speed_bps(end))}
        if len(set(speeds.values())) > 1:
            told = ", ".join(f"{end} says {RATE.format(speed)}" for end, speed in speeds.items())
            remarks.append(f"{told}: the draft uses the lower")
        return self._drafted(
            (self._ref(a), self._ref(b)), min(speeds.values(), default=None), remarks
        )

    def _by_station(self) -> list[list[Attachment]]:
        """The neighbours at the switches' ports, by chassis; without a chassis each alone."""
        stations: dict[object, list[Attachment]] = {}
        for attachment in self._found.attachments:
            if PORT.fullmatch(attachment.port.port):
                key = attachment.neighbor.chassis_id or attachment.port
                stations.setdefault(key, []).append(attachment)
        return list(stations.values())

    def _station(self, attached: Sequence[Attachment]) -> tuple[Node, list[DraftLink]]:
        neighbor = attached[0].neighbor
        chassis = neighbor.chassis_id.text if neighbor.chassis_id else "unknown"
        name = self._names.give(neighbor.system_name, f"station-{chassis}")
        remarks = []
        if neighbor.system_name != name:
            remarks.append(
                f"calls itself {quoted(neighbor.system_name)}, chassis {quoted(chassis)}"
            )
        if any(FORWARDS & a.neighbor.capabilities for a in attached):
            remarks.append(
                "forwards frames: if it is a switch, name it in the command, too"
                f"{_managed_at(neighbor)}"
            )
        ports: list[str] = []
        links = []
        for number, attachment in enumerate(attached):
            ports.append(_station_port(attachment.neighbor, number, ports))
            ends = self._ref(attachment.port), PortRef(name, ports[-1])
            links.append(self._drafted(ends, self._speed_bps(attachment.port), ()))
        return Node(name, tuple(ports), tuple(remarks)), links

    @staticmethod
    def _drafted(
        ends: tuple[PortRef, PortRef], rate_bps: int | None, remarks: Sequence[str]
    ) -> DraftLink:
        unknown = () if rate_bps else ("no switch reports the speed of this link",)
        return DraftLink(ends, rate_bps, (*remarks, *unknown))

    def _doubts(self) -> Iterator[str]:
        for doubt in self._found.doubts:
            yield f"{self._shown(doubt.port)}: {self._reason(doubt)}"
        ends = [
            *(end for cable in self._found.cables for end in cable.ends),
            *(attachment.port for attachment in self._found.attachments),
        ]
        for end in ends:
            if not PORT.fullmatch(end.port):
                yield f"{self._shown(end)}: not a port name of an intent; its cable is omitted"

    def _reason(self, doubt: Doubt) -> str:
        other = self._shown(doubt.other) if doubt.other else ""
        reason = doubt.reason.format(other=other)
        if doubt.other:
            return reason
        heard = named(
            quoted(n.system_name or (n.chassis_id.text if n.chassis_id else ""))
            for n in doubt.heard
        )
        return f"{reason} ({heard})"

    def _speed_bps(self, port: SwitchPort) -> int | None:
        return self._views[port.switch].report.interfaces[port.port].speed_bps

    def _ref(self, port: SwitchPort) -> PortRef:
        return PortRef(self._switches[port.switch], port.port)

    def _shown(self, port: SwitchPort) -> str:
        return f"{self._switches[port.switch]}/{printable(port.port)}"


def _hardware(ports: Mapping[str, PortReport]) -> Iterator[str]:
    """What the drivers of a switch's ports offload, ports that are alike together."""
    alike: dict[str, list[str]] = {}
    for port, report in sorted(ports.items()):
        if its := report[GatesReport].hardware:
            words = printable("; ".join(described(its)), _HARDWARE_SHOWN_MAX)
            alike.setdefault(words, []).append(printable(port))
    for words, names in alike.items():
        yield f"{', '.join(names)}: {words}"


def _station_port(neighbor: NeighborReport, number: int, taken: Sequence[str]) -> str:
    """The interface of an end station that `neighbor` names, or one that is free."""
    port_id = neighbor.port_id
    named = [neighbor.port_description]
    if port_id and port_id.subtype != "mac-address":
        named.insert(0, port_id.text)
    free = (f"eth{n}" for n in range(number, number + len(taken) + 1))
    return next(port for port in (*named, *free) if PORT.fullmatch(port) and port not in taken)


def _managed_at(neighbor: NeighborReport) -> str:
    addresses = ", ".join(map(printable, neighbor.management_addresses))
    return f" (it is managed at {addresses})" if addresses else ""
