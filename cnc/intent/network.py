"""Switches, end stations and links of a document: the network, if they fit together."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import replace

from cnc.intent.profiles import profile_of, within_profile
from cnc.keys import shape
from cnc.keys.contributed import KEYS
from cnc.keys.problems import Problems, one_of, shown
from cnc.keys.units import DURATION, SIZE
from cnc.model import (
    DEFAULT_BRIDGE_DEVICE,
    DEFAULT_FILTERING_ENTRIES_MAX,
    DEFAULT_GATE_MARGIN_NS,
    Bridge,
    EndStation,
    FrameOverhead,
    GateMode,
    Intent,
    Link,
    Management,
    Network,
    PortRef,
)

_PLAIN_PORT = shape.Port.model_validate({})


# What clocks may differ before they are measured; nothing is planned with it
# (cnc.mechanisms.clock.error).
_UNMEASURED_NS = 1_000_000


def network(document: shape.Document, problems: Problems) -> Network:
    """The network of `document`; what is wrong with it is added to `problems`."""
    frame = document.frame
    clock_error_ns = _clock_error_ns(document.defaults.clock_error, problems)
    if frame.gap_octets > frame.physical_octets:
        problems.add(
            ("frame", "gap"),
            SIZE.format(frame.gap_octets),
            f"at most frame.physical, {SIZE.format(frame.physical_octets)}, which includes it",
        )
    for name in document.end_stations.keys() & document.switches.keys():
        problems.add(("end-stations", name), "the name of a switch", "a unique name")
    servers = _Servers(document.defaults, problems)
    recovery = document.defaults.recovery
    return Network(
        bridges=_bridges(document, servers, problems),
        end_stations=_end_stations(document, servers),
        links=_links(document, problems),
        clock_error_ns=_UNMEASURED_NS if clock_error_ns is None else clock_error_ns,
        overhead=FrameOverhead(
            link_layer_octets=frame.link_layer_octets,
            physical_octets=frame.physical_octets,
            gap_octets=frame.gap_octets,
            min_payload_octets=frame.min_payload_octets,
        ),
        gate_margin_ns=_gate_margin_ns(document),
        disturbance_ns=recovery.disturbance_ns if recovery else None,
        recovery_required=recovery is not None and recovery.required,
        forwarding=document.forwarding,
        clock_error_neighbours_ns=document.defaults.clock_error.neighbours_ns,
    )


def _clock_error_ns(stated: shape.ClockError, problems: Problems) -> int | None:
    """How far any two clocks may differ; None if that is to be measured. What neighbours may differ
    by has no effect where it is no less, and is not measured."""
    path, most_ns = ("defaults", "clock-error"), stated.network
    if stated.neighbours_ns is None:
        return most_ns
    if most_ns is None:
        problems.add(
            (*path, "network"),
            "measured",
            "a duration such as 1us, as neighbours are stated",
        )
    elif stated.neighbours_ns >= most_ns:
        problems.add(
            (*path, "neighbours"),
            DURATION.format(stated.neighbours_ns),
            f"less than network, {DURATION.format(most_ns)}: two clocks differ by no more",
        )
    return most_ns


def _gate_margin_ns(document: shape.Document) -> int:
    """As stated; else the constant, or nothing where no gate waits for a timer of the kernel."""
    defaults = document.defaults
    if defaults.gate_margin_ns is not None:
        return defaults.gate_margin_ns
    modes = {_gate_mode(its, defaults) for its in document.switches.values()}
    modes |= {its.gates for its in document.end_stations.values() if its.gates}
    return DEFAULT_GATE_MARGIN_NS if GateMode.SOFTWARE in modes else 0


def _gate_mode(its: shape.Switch, defaults: shape.Defaults) -> GateMode:
    """How a switch runs its lists: one with a profile by itself, without a kernel of ours."""
    return GateMode.FULL_OFFLOAD if its.profile else its.gates or defaults.gates


_KINDS = {"switches": "switch", "end-stations": "end station"}


class _Servers:
    """The NETCONF servers of a document; each has an address of its own."""

    def __init__(self, defaults: shape.Defaults, problems: Problems) -> None:
        self._defaults = defaults
        self._problems = problems
        self._owners: dict[tuple[str, int], str] = {}

    def management(
        self, stated: shape.Management | None, path: tuple[str, str]
    ) -> Management | None:
        """What is stated under `path`, the kind of a node and its name, with the defaults."""
        if stated is None:
            return None
        address, port = stated.address, stated.port or self._defaults.netconf_port
        _check_address(address, path, self._problems)
        kind, name = path
        this = f"{_KINDS[kind]} {name}"
        owner = self._owners.setdefault((address, port), this)
        if owner != this:
            self._problems.add(
                (*path, "management", "address"),
                f"{address} port {port}, which is {owner}",
                "a unique address",
            )
        return Management(address, port, stated.user or self._defaults.user)


def check_preemption(document: shape.Document, intent: Intent, problems: Problems) -> None:
    """Refuse it where nothing would configure it, or where it has no effect. Whether a port does
    preempt is seen when a plan is pushed."""
    for name, its in document.switches.items():
        for port, limits in its.ports.items():
            if limits.preemption and (why := _no_preemption(document, intent, its, limits)):
                path = ("switches", name, "ports", port, "preemption")
                problems.add(path, f"true, and {why[0]}", why[1])


def _no_preemption(
    document: shape.Document, intent: Intent, its: shape.Switch, port: shape.Port
) -> tuple[str, str] | None:
    """What it does not go together with, and what is expected."""
    if its.profile:
        return "a profile", "false: no profile says how other switches preempt"
    if (gates := _gate_mode(its, document.defaults)) is not GateMode.FULL_OFFLOAD:
        return f"gates: {gates}", (
            "gates: full-offload of the switch, whose port then runs the list and is handed the "
            "preemptable classes with it (taprio: Preemption only supported with full offload)"
        )
    if _fits_only(its, port):
        return "fits-only", (
            "one of both: a port that starts only what fits has no frame of best effort on the "
            "link when a window opens"
        )
    if not intent.unreserved_classes():
        return "no class that could give way", "a class of the role best-effort without shaping"
    return None


def _bridges(document: shape.Document, servers: _Servers, problems: Problems) -> dict[str, Bridge]:
    defaults = document.defaults
    _check_processing(defaults.processing, ("defaults", "processing"), problems)
    bridges = {}
    for name, its in document.switches.items():
        if its.processing:
            _check_processing(its.processing, ("switches", name, "processing"), problems)
        processing = its.processing or defaults.processing
        management = servers.management(its.management, ("switches", name))
        if its.profile and management:
            management = replace(management, profile=profile_of(its))
        bridges[name] = Bridge(
            name,
            processing.min_ns,
            processing.max_ns,
            management,
            _gate_mode(its, defaults),
            its.bridge or DEFAULT_BRIDGE_DEVICE,
            its.filtering_entries_max or DEFAULT_FILTERING_ENTRIES_MAX,
            its.filters_in_hardware or defaults.filters_in_hardware,
        )
    return bridges


def _end_stations(document: shape.Document, servers: _Servers) -> dict[str, EndStation]:
    stations = {}
    for name, its in document.end_stations.items():
        management = servers.management(its.management, ("end-stations", name))
        station = EndStation(name, management, mac=its.mac, gate_mode=its.gates)
        for each in KEYS:
            station = each.of_station(station, its, document)
        stations[name] = station
    return stations


def _check_processing(
    processing: shape.Processing, path: tuple[str, ...], problems: Problems
) -> None:
    if processing.min_ns > processing.max_ns:
        problems.add(
            (*path, "min"),
            DURATION.format(processing.min_ns),
            f"at most max, {DURATION.format(processing.max_ns)}",
        )


def _check_address(address: str, path: tuple[str, str], problems: Problems) -> None:
    if ":" not in address and not re.fullmatch(r"[0-9.]+", address):
        return  # a host name
    try:
        ipaddress.ip_address(address)
    except ValueError:
        problems.add((*path, "management", "address"), shown(address), "an IP address")


def _links(document: shape.Document, problems: Problems) -> dict[PortRef, Link]:
    defaults = document.defaults
    _check_ends(document, problems)
    links: dict[PortRef, Link] = {}
    for its in document.links:
        for source, target in (its.ends, its.ends[::-1]):
            switch = document.switches.get(source.node)
            port = switch.ports.get(source.port, _PLAIN_PORT) if switch else _PLAIN_PORT
            link = Link(
                source,
                target,
                rate_bps=its.rate_bps or defaults.rate_bps,
                propagation_ns=(
                    defaults.propagation_ns if its.propagation_ns is None else its.propagation_ns
                ),
                gate_entries_max=port.gate_entries_max,
                gate_interval_min_ns=port.gate_interval_min_ns,
                gate_interval_max_ns=port.gate_interval_max_ns,
                gate_cycle_max_ns=port.gate_cycle_max_ns,
                gate_tick_ns=port.gate_tick_ns,
                gate_early_ns=_gate_early_ns(document, source, port),
                fits_only=_fits_only(switch, port),
                preemption=port.preemption,
            )
            profile = switch.profile if switch else None
            links[source] = within_profile(link, profile.value()) if profile else link
    return links


def _fits_only(switch: shape.Switch | None, port: shape.Port) -> bool:
    """Whether a port transmits only what fits, as it states or its switch; not an end station's."""
    if switch is None:
        return False
    return switch.fits_only if port.fits_only is None else port.fits_only


def _gate_early_ns(document: shape.Document, source: PortRef, port: shape.Port) -> int:
    """How early the gates of a port may be; nothing for an end station that has none."""
    default, switch = document.defaults.gate_early_ns, document.switches.get(source.node)
    if switch:
        stated = (port.gate_early_ns, switch.gate_early_ns)
        return next((its for its in stated if its is not None), default)
    station = document.end_stations.get(source.node)
    return default if station and station.gates else 0


def _check_ends(document: shape.Document, problems: Problems) -> None:
    ports: dict[str, set[str]] = {name: set(its.ports) for name, its in document.switches.items()}
    for name, station in document.end_stations.items():
        ports.setdefault(name, set()).update(station.ports)
    used: dict[PortRef, int] = {}
    for index, its in enumerate(document.links):
        for position, end in enumerate(its.ends):
            path = ("links", index, "ends", position)
            if end.node not in ports:
                problems.add(path, f"node {shown(end.node)}", one_of(ports, end.node))
            elif end.port not in ports[end.node]:
                expected = one_of(ports[end.node], end.port)
                problems.add(path, f"port {shown(end.port)} of {end.node}", expected)
            elif end in used:
                problems.add(path, f"{end}, already in links[{used[end]}]", "each port once")
            else:
                used[end] = index
        if its.ends[0].node == its.ends[1].node:
            found = f"both ends at {its.ends[0].node}"
            problems.add(("links", index), found, "ends at two different nodes")
    if len(used) < 2 * len(document.links):
        return  # an end that is wrong may be the one that a station misses
    for name in document.end_stations.keys() - {end.node for end in used}:
        problems.add(("end-stations", name), f"{name} without a link", "a link that ends there")
