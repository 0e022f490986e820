"""From a plan to the configuration of each node: values first, then the NETCONF `<config>`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lxml import etree
from lxml.builder import ElementMaker

from cnc.data_tree.tree import (
    BRIDGE,
    IF_TYPE,
    INTERFACES,
    NETCONF,
    PRIORITIES,
    SCHED,
    SCHED_BRIDGE,
    SCHED_INTERFACE,
    TSN_LINUX,
)
from cnc.mechanisms.composition import edits
from cnc.mechanisms.forwarding.derive import bridge_forwarding, bridge_forwardings
from cnc.mechanisms.forwarding.tree import bridges_element, regeneration_element, regenerations
from cnc.mechanisms.gates.tree import gate_table
from cnc.mechanisms.talker_offsets.tree import talker_element, talker_ports
from cnc.model import (
    NO_FORWARDING,
    BridgeForwarding,
    ClassRole,
    Forwarding,
    Plan,
    PortConfiguration,
    PortSettings,
    StoredPort,
    StreamAddress,
    TalkerConfiguration,
)
from cnc.switch.rollout_id import RolloutId, rollout_id_element

Element = etree._Element  # noqa: SLF001  lxml has no public name for it

_NC = ElementMaker(namespace=NETCONF, nsmap={"nc": NETCONF})
_IF = ElementMaker(namespace=INTERFACES, nsmap={None: INTERFACES, "ianaift": IF_TYPE})
_BRIDGE = ElementMaker(namespace=BRIDGE, nsmap={None: BRIDGE})
_GATES = ElementMaker(namespace=SCHED_BRIDGE, nsmap={None: SCHED_BRIDGE, "sched": SCHED})
_INTERFACE_GATES = ElementMaker(namespace=SCHED_INTERFACE, nsmap={None: SCHED_INTERFACE})
_TSNL = ElementMaker(namespace=TSN_LINUX, nsmap={None: TSN_LINUX})

_OPERATION = f"{{{NETCONF}}}operation"
_REPLACE = {_OPERATION: "replace"}
_REMOVE = {_OPERATION: "remove"}


Settings = dict[str, PortSettings | None]


def desired_nodes(plan: Plan) -> dict[str, Settings]:
    """`desired_ports` of every node that a rollout configures, in one pass over a bridged plan."""
    network = plan.intent.network
    if network.forwarding is Forwarding.ROUTED:
        return {name: desired_ports(plan, name) for name in network.managed}
    bridges = bridge_forwardings(plan)
    return {name: _desired(plan, name, bridges.get(name)) for name in network.managed}


def desired_ports(plan: Plan, node: str) -> Settings:
    """The desired configuration of every cabled port of a switch or an end station, and of a
    switch's bridge where forwarding is bridged; None where the plan has no gates for a switch's
    port."""
    network = plan.intent.network
    is_bridged = network.forwarding is Forwarding.BRIDGED and node in network.bridges
    return _desired(plan, node, bridge_forwarding(plan, node) if is_bridged else None)


def _desired(plan: Plan, node: str, forwarding: BridgeForwarding | None) -> Settings:
    network = plan.intent.network
    if node in network.end_stations:
        return _station_ports(plan, node)
    ports: Settings = dict(_gated_ports(plan, node))
    if forwarding is not None:
        names = {its: name for name, its in plan.addresses.items() if its in forwarding.entries}
        ports[network.bridges[node].bridge_device] = replace(forwarding, names=names)
    return ports


def with_vlans_left(desired: Mapping[str, Settings], former: Plan | None) -> dict[str, Settings]:
    """`desired` by node, with the VLANs in which only `former`, the plan before, had streams."""
    if former is None or former.intent.network.forwarding is Forwarding.ROUTED:
        return {**desired}
    bridges, before = former.intent.network.bridges, bridge_forwardings(former)
    names = {address: name for name, address in former.addresses.items()}
    return {
        node: _with_vlans(settings, bridges[node].bridge_device, before[node], names)
        if node in bridges
        else settings
        for node, settings in desired.items()
    }


def _with_vlans(
    desired: Settings,
    device: str,
    before: BridgeForwarding,
    names_before: Mapping[StreamAddress, str],
) -> Settings:
    now = desired.get(device)
    after = now if isinstance(now, BridgeForwarding) else NO_FORWARDING
    left: dict[int, tuple[str, ...]] = dict.fromkeys(before.vlans, ())
    # Messages name also the streams that go.
    names = {its: names_before[its] for its in before.entries if its in names_before}
    vlans = {**left, **after.vlans}
    return {**desired, device: replace(after, vlans=vlans, names={**names, **after.names})}


def _station_ports(plan: Plan, node: str) -> Settings:
    """What talkers are told; where the station has gates, with the list of each port."""
    told = talker_ports(plan, node)
    if plan.intent.network.gate_mode(node) is None:
        return dict(told)
    gated = _gated_ports(plan, node)
    return {port: replace(its, gates=gated[port], owns_gates=True) for port, its in told.items()}


def without_former_gates(desired: Settings, former: Plan | None, node: str) -> Settings:
    """`desired` of an end station, without the gates of its ports that only `former` has, the plan
    before."""
    if former is None or node not in former.intent.network.end_stations:
        return desired
    if former.intent.network.gate_mode(node) is None:
        return desired
    return {
        port: replace(its, owns_gates=True) if isinstance(its, TalkerConfiguration) else its
        for port, its in desired.items()
    }


def _gated_ports(plan: Plan, node: str) -> dict[str, PortConfiguration | None]:
    """The gates of each cabled port of a node with gates; None where no stream leaves by it."""
    mode = plan.intent.network.gate_mode(node)
    if mode is None:
        raise ValueError(f"{node} has no gates")
    classes = plan.intent.classes.values()
    fallback = plan.intent.classes_with(ClassRole.BEST_EFFORT)[0].number
    by_priority = {c.priority: c.number for c in classes}
    priority_map = tuple(by_priority.get(p, fallback) for p in range(PRIORITIES))
    dscp_priorities = {dscp: c.priority for c in classes for dscp in c.dscps}
    return {
        egress.port: PortConfiguration(
            number_of_classes=1 + max(c.number for c in classes),
            priority_map=priority_map,
            mode=mode,
            gates=plan.gates[egress],
            dscp_priorities=dscp_priorities,
        )
        if egress in plan.gates
        else None
        for egress in plan.intent.network.links
        if egress.node == node
    }


def edit_config(
    changes: Mapping[str, PortSettings | None],
    base_time_ns: int,
    stored: Mapping[str, StoredPort | None],
    rollout_id: RolloutId,
) -> Element:
    """The `<config>` that sets the ports and bridges in `changes`, and the id of the rollout.

    Nothing else changes: a port's other bridge settings, and other ports, keep their values.
    """
    bridges = {
        name: desired for name, desired in changes.items() if isinstance(desired, BridgeForwarding)
    }
    interfaces = {
        name: _interface(name, desired, base_time_ns, stored.get(name))
        for name, desired in changes.items()
        if not isinstance(desired, BridgeForwarding)
    }
    before = {name: at.forwarding if (at := stored.get(name)) else None for name in bridges}
    tables = {name: at.tables for name in bridges if (at := stored.get(name))}
    of_switch, of_bridges = edits(bridges, before, tables, base_time_ns)
    _add_bridge_ports(interfaces, bridges, before)
    return _NC(
        "config",
        _IF("interfaces", *(interface for _, interface in sorted(interfaces.items()))),
        *([bridges_element(bridges, before, of_bridges)] if bridges else []),
        *of_switch,
        rollout_id_element(rollout_id),
    )


def _add_bridge_ports(
    interfaces: dict[str, Element],
    bridges: Mapping[str, BridgeForwarding],
    before: Mapping[str, BridgeForwarding | None],
) -> None:
    """Add what bridges need of their ports: that they are configured, since entries refer to them,
    and whether a frame's PCP gives its priority."""
    members = {port for each in bridges.values() for port in each.members}
    changed = regenerations([(bridges[name], before[name]) for name in bridges])
    for port in sorted(members | changed.keys()):
        interface = interfaces.setdefault(port, named_interface(port))
        if operation := changed.get(port):
            bridge_port = interface.find(f"{{{BRIDGE}}}bridge-port")
            if bridge_port is None:
                bridge_port = _BRIDGE("bridge-port")
                interface.append(bridge_port)
            bridge_port.append(regeneration_element(operation))


def named_interface(name: str) -> Element:
    """A port, for what augments interfaces, or refers to one."""
    return _IF("interface", _IF("name", name), _IF("type", "ianaift:ethernetCsmacd"))


def _interface(
    name: str,
    desired: PortConfiguration | TalkerConfiguration | None,
    base_time_ns: int,
    stored: StoredPort | None,
) -> Element:
    interface = named_interface(name)
    if isinstance(desired, TalkerConfiguration):
        interface.append(talker_element(desired, base_time_ns))
        if desired.owns_gates:
            interface.append(_bridge_port(desired.gates, base_time_ns, stored))
    else:
        interface.append(_bridge_port(desired, base_time_ns, stored))
    # Servers may not know its module: it is named only where it is there.
    if (
        stored
        and stored.has_interface_gates
        and interface.find(f"{{{BRIDGE}}}bridge-port") is not None
    ):
        interface.append(_INTERFACE_GATES("gate-parameter-table", _REMOVE))
    return interface


def _bridge_port(
    desired: PortConfiguration | None, base_time_ns: int, stored: StoredPort | None
) -> Element:
    obsolete = set(stored.dscps) if stored else set()
    if desired is None:
        port = _BRIDGE(
            "bridge-port", _GATES("gate-parameter-table", _REMOVE), _TSNL("taprio", _REMOVE)
        )
    else:
        obsolete -= desired.dscp_priorities.keys()
        port = _BRIDGE(
            "bridge-port",
            _traffic_classes(desired),
            gate_table(desired.gates, base_time_ns),
            _TSNL("taprio", _REPLACE, _TSNL("mode", desired.mode)),
            *(
                _TSNL("dscp-rule", _TSNL("dscp", str(dscp)), _TSNL("priority", str(priority)))
                for dscp, priority in sorted(desired.dscp_priorities.items())
            ),
        )
    for dscp in sorted(obsolete):
        port.append(_TSNL("dscp-rule", _REMOVE, _TSNL("dscp", str(dscp))))
    return port


def _traffic_classes(desired: PortConfiguration) -> Element:
    return _BRIDGE(
        "traffic-class",
        _BRIDGE(
            "traffic-class-table",
            _REPLACE,
            _BRIDGE("number-of-traffic-classes", str(desired.number_of_classes)),
            *(
                _BRIDGE(f"priority{priority}", str(number))
                for priority, number in enumerate(desired.priority_map)
            ),
        ),
    )
