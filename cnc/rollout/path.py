"""Follows the frames of one stream through what the switches of a bridged network really do.

A frame goes where the filtering entry of its address and VLAN leads, never back by the port that it
came in by, and only by members of the VLAN (802.1Q 8.6.2 to 8.6.4). Without an entry it goes
nowhere: on the VLANs of streams switches neither learn nor flood. A frame that its talker sends
untagged has no address of a stream before its first switch gives it one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

from cnc.data_tree.tree import BridgeReport
from cnc.errors import InputError
from cnc.mechanism import AtHop, Shown
from cnc.mechanisms.composition import bridge_forwardings
from cnc.mechanisms.registry import MECHANISMS
from cnc.model import BridgeForwarding, Forwarding, Intent, Network, Plan, PortRef, StreamAddress
from cnc.plans.shared_windows import shared_windows
from cnc.rollout.compare import agent_down
from cnc.support.wording import NO_BRIDGE
from cnc.switch.device import ConnectOptions, Device, DeviceError, Managed
from cnc.switch.parallel import answers
from cnc.switch.payload import desired_nodes


class Seen(NamedTuple):
    """What a bridge does, and by port why its link carries no frames, where it does not."""

    bridge: BridgeReport
    link_faults: Mapping[str, str] = MappingProxyType({})


Ask = Callable[[Sequence[str]], Mapping[str, Seen | DeviceError]]
"""What the bridges of these switches do, or why that is unknown."""


@dataclass(frozen=True, slots=True)
class HopWindow:
    """The window that frames of a stream are planned to share with others at `port`, from the start
    of its period; `streams` have frames in it, at most."""

    port: str
    opens_ns: int
    closes_ns: int
    streams: int


@dataclass(frozen=True, slots=True)
class PathHop:
    """What a switch does with the frames that come in by `ingress`.

    `leaves_by` are the ports that they leave by, `planned` those of the plan. `deviation` says how
    they leave the plan; None: they do not. `done` is what mechanisms do with them, in words, by the
    `hop_key` of each that does something. `windows` are those of the plan, where they share some.
    """

    switch: str
    ingress: str
    leaves_by: tuple[str, ...]
    planned: tuple[str, ...]
    deviation: str | None
    done: Mapping[str, str]
    windows: tuple[HopWindow, ...] = ()


@dataclass(frozen=True, slots=True)
class StreamPath:
    """The way of a stream: its hops in the order in which frames reach them.

    `deviations` are where it leaves the plan, each with its place; empty: all is as planned.
    `without_link` are the ports on the way whose links carry no frames.
    """

    stream: str
    address: StreamAddress
    talker: str
    listeners: tuple[str, ...]
    hops: tuple[PathHop, ...]
    deviations: tuple[str, ...]
    without_link: tuple[PortRef, ...] = ()


def follow(plan: Plan, stream: str, *, connect: ConnectOptions) -> StreamPath:
    """Ask each switch that frames of the stream reach what it does with them.

    A switch that does not answer is a deviation: nobody can tell where frames go from there. Raises
    InputError where the network routes, or the plan has no place for the stream.
    """
    address_of(plan, stream)
    settings = desired_nodes(plan)
    network = plan.intent.network

    def ask(names: Sequence[str]) -> dict[str, Seen | DeviceError]:
        nodes = [Managed.of(network.bridges[name], settings[name]) for name in names]
        return answers(nodes, lambda node: _seen(node, network, connect))

    return walk(plan, stream, ask)


def walk(plan: Plan, stream: str, ask: Ask) -> StreamPath:
    """The way of a stream through bridges of which `ask` tells what they do."""
    return _Walk(plan, stream).walked(ask)


def require_bridged(intent: Intent) -> None:
    """Raises InputError if the network routes."""
    if intent.network.forwarding is Forwarding.ROUTED:
        raise InputError(
            f"{intent.name} forwards by IP routes, which the switches' own system sets: they do "
            "not tell where frames go",
            hint="`cnc path` is for networks with `forwarding: bridged`",
        )


def address_of(plan: Plan, stream: str) -> StreamAddress:
    """Raises InputError where the network routes, or the plan has no place for the stream."""
    require_bridged(plan.intent)
    if stream not in plan.intent.streams:
        raise InputError(
            f"{plan.intent.name} has no stream {stream}", hint="`cnc talkers` lists the streams"
        )
    if stream not in plan.streams:
        why = plan.refused.get(stream, "it has no place")
        raise InputError(
            f"stream {stream} is not in the plan: {why}", hint="follow one that has a place"
        )
    return plan.addresses[stream]


def _seen(node: Managed, network: Network, connect: ConnectOptions) -> Seen:
    device_name = network.bridges[node.name].bridge_device
    cabled = [port.port for port in network.links if port.node == node.name]
    with Device(node, connect) as device:
        state = device.state([device_name, *cabled])
    if state.agent is None:
        raise agent_down(node.name)
    report = state.bridge(device_name)
    if report is None:
        raise DeviceError(node.name, f"{device_name}: {NO_BRIDGE}")
    faults = {port: its.link_fault for port, its in state.ports.items() if its.link_fault}
    return Seen(report, faults)


class _Walk:
    """The walk through a network, one step at a time for all copies of a frame."""

    def __init__(self, plan: Plan, stream: str) -> None:
        self._address = address_of(plan, stream)
        self._network = plan.intent.network
        self._stream = plan.intent.streams[stream]
        self._priority = plan.class_of(stream).priority
        self._desired = bridge_forwardings(plan)
        self._windows = _windows(plan, stream)
        self._starts = list(
            dict.fromkeys(path[0].egress for path in plan.streams[stream].paths if path)
        )
        self._seen: dict[str, Seen | DeviceError] = {}
        self._hops: list[PathHop] = []
        self._reached: set[str] = set()
        self._deviations: list[str] = []
        self._without_link: list[PortRef] = []

    def walked(self, ask: Ask) -> StreamPath:
        """The way from the talker to wherever frames go; a switch is asked once."""
        ingresses = self._across(self._starts)
        seen: set[PortRef] = set()
        while ingresses:
            seen.update(ingresses)
            unknown = sorted({port.node for port in ingresses} - self._seen.keys())
            self._seen |= ask(unknown)
            egresses = [egress for port in ingresses for egress in self._hop(port)]
            ingresses = self._unseen(self._across(egresses), seen)
        self._compare_listeners()
        return StreamPath(
            stream=self._stream.name,
            address=self._address,
            talker=self._stream.talker,
            listeners=tuple(sorted(self._reached)),
            hops=tuple(self._hops),
            deviations=tuple(self._deviations),
            without_link=tuple(self._without_link),
        )

    def _across(self, egresses: Iterable[PortRef]) -> list[PortRef]:
        """The switches' ports at the far ends of links; end stations that are reached are noted."""
        targets = [self._network.links[each].target for each in egresses]
        self._reached |= {port.node for port in targets if port.node not in self._network.bridges}
        return [port for port in targets if port.node in self._network.bridges]

    def _unseen(self, ports: list[PortRef], seen: set[PortRef]) -> list[PortRef]:
        again = [port for port in ports if port in seen]
        self._deviations += [f"{port}: frames come in again: they go round" for port in again]
        return [port for port in dict.fromkeys(ports) if port not in seen]

    def _hop(self, ingress: PortRef) -> list[PortRef]:
        """The ports that frames leave a switch by; notes the hop."""
        desired = self._desired[ingress.node]
        planned = _leaving(desired, self._address, ingress.port)
        seen = self._seen[ingress.node]
        leaving: tuple[str, ...] = ()
        done: dict[str, str] = {}
        deviation: str | None
        if isinstance(seen, DeviceError):
            deviation = seen.reason
        elif fault := seen.link_faults.get(ingress.port):
            deviation = f"no frames arrive at {ingress.port}: {fault}"
            self._without_link.append(ingress)
        else:
            does = seen.bridge.forwarding
            at_hop = {
                each.shown.hop_key: self._at_hop(
                    each.shown, does[each.part], desired[each.part], ingress.port
                )
                for each in MECHANISMS
            }
            deviation = next((its.deviation for its in at_hop.values() if its.ends), None)
            if deviation is None:
                listed = _leaving(does, self._address, ingress.port)
                leaving = tuple(port for port in listed if port not in seen.link_faults)
                self._without_link += [
                    PortRef(ingress.node, port) for port in listed if port not in leaving
                ]
                done = {key: its.does for key, its in at_hop.items() if its.does}
                deviation = (
                    _deviation(does, self._address, ingress.port, listed, planned)
                    or _without_link(listed, seen.link_faults)
                    or next((its.deviation for its in at_hop.values() if its.deviation), None)
                )
        cabled = [PortRef(ingress.node, port) for port in leaving]
        windows = tuple(self._windows.get(ingress, ()))
        self._hops.append(
            PathHop(ingress.node, ingress.port, leaving, planned, deviation, done, windows)
        )
        if deviation:
            self._deviations.append(f"{ingress.node}: {deviation}")
        return [port for port in cabled if port in self._network.links]

    def _at_hop(self, shown: Shown[Any], does: object, planned: object, port: str) -> AtHop:
        """What a mechanism does with the frames, else with all of their class."""
        its = shown.at_hop(does, planned, self._address, port)
        if its != AtHop(None):
            return its
        return shown.at_hop_of_class(does, planned, self._priority, port)

    def _compare_listeners(self) -> None:
        wanted = {*self._stream.listeners}
        self._deviations += [f"{name}: gets no frame" for name in sorted(wanted - self._reached)]
        self._deviations += [
            f"{name}: gets frames that it does not listen to"
            for name in sorted(self._reached - wanted)
        ]


def _windows(plan: Plan, stream: str) -> dict[PortRef, list[HopWindow]]:
    """By the port that frames come in by: the windows that they share where they leave."""
    links, period_ns = plan.intent.network.links, plan.intent.streams[stream].period_ns
    shared = shared_windows(plan)
    found: dict[PortRef, list[HopWindow]] = {}
    for path in plan.streams[stream].paths:
        inbound = {links[hop.egress].target.node: links[hop.egress].target for hop in path}
        for hop in path:
            if not hop.is_shared or hop.egress.node not in inbound:
                continue
            members = (
                len(its.streams)
                for its in shared[hop.egress]
                if stream in its.streams and (its.opens_ns - hop.offset_ns) % period_ns == 0
            )
            its = HopWindow(hop.egress.port, hop.offset_ns, hop.window_end_ns, max(members))
            found.setdefault(inbound[hop.egress.node], []).append(its)
    return found


def _leaving(forwarding: BridgeForwarding, address: StreamAddress, ingress: str) -> tuple[str, ...]:
    """The ports by which a bridge sends a frame that came in by `ingress`."""
    members = forwarding.vlans.get(address.vlan_id, ())
    if ingress not in members:
        return ()
    ports = forwarding.entries.get(address, ())
    return tuple(port for port in ports if port in members and port != ingress)


def _without_link(ports: Iterable[str], link_faults: Mapping[str, str]) -> str | None:
    """By which of the ports frames do not leave since there is no link; None: there is."""
    faults = [f"{port}: {link_faults[port]}" for port in ports if port in link_faults]
    return f"frames do not leave by {', '.join(faults)}" if faults else None


def _deviation(
    forwarding: BridgeForwarding,
    address: StreamAddress,
    ingress: str,
    leaving: tuple[str, ...],
    planned: tuple[str, ...],
) -> str | None:
    """How a switch does otherwise than planned, and why."""
    if leaving == planned:
        return None
    members = forwarding.vlans.get(address.vlan_id, ())
    if ingress not in members:
        return f"frames end here: {ingress} is no member of VLAN {address.vlan_id}"
    if address not in forwarding.entries:
        return "frames end here: the kernel has no filtering entry"
    missing = [port for port in planned if port not in leaving]
    parts = []
    if missing:
        outside = [port for port in missing if port not in members]
        why = f", no member of VLAN {address.vlan_id}" if outside == missing else ""
        parts.append(f"frames do not leave by {', '.join(missing)}{why}")
    if surplus := [port for port in leaving if port not in planned]:
        parts.append(f"frames leave by {', '.join(surplus)}, which is not planned")
    return "; ".join(parts)
