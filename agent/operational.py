"""What the ports do → the operational tree. Pure: the kernel was read once, before.

The dictionaries are RFC 7951 JSON (64-bit integers are strings there); leaves are those of RFC
8343 and `tsn-linux`; mechanisms add theirs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from types import MappingProxyType

from agent.datastore.terms import KeptTerm
from agent.driver_facts import FACTS, DriverFacts, Takes
from agent.filter_placement import FilterPlacement
from agent.lldp import Identifier, Lldp, Neighbor
from agent.mechanism import BRIDGE_PORT, BRIDGES, TAPRIO, Mechanism, Node, ReportContext
from agent.model import Clock, LastChange, PortState, PtpStatus
from agent.wake_ups import WakeUps

# RFC 8343: counter32; the other counters of an interface are counter64.
SHORT_COUNTERS = {
    "in-discards",
    "in-errors",
    "in-unknown-protos",
    "out-discards",
    "out-errors",
}
COUNTER32_SIZE = 2**32  # where they start again from 0


def interfaces(
    mechanisms: Collection[Mechanism],
    states: Mapping[str, PortState],
    history: Mapping[str, object],
    now_ns: Callable[[Clock], int],
    *,
    counting_since: Mapping[str, datetime],
    on_interfaces: bool,
    wake_ups: WakeUps | None = None,
) -> Node:
    """`/ietf-interfaces:interfaces` with these ports of the switch, configured or not.

    `history` is what the agent remembers of ports, `counting_since` when the counters of each were
    last seen to begin anew; `on_interfaces`: the module that has the gate table directly under the
    interface is installed, too; `wake_ups` is how late the kernel's timers woke up, None: not
    measured.
    """
    return {
        "ietf-interfaces:interfaces": {
            "interface": [
                _interface(
                    mechanisms,
                    state,
                    ReportContext(now_ns, history.get(name), on_interfaces, wake_ups),
                    counting_since[name],
                )
                for name, state in sorted(states.items())
            ]
        }
    }


def bridges(mechanisms: Collection[Mechanism], states: Mapping[str, PortState]) -> Node:
    """`/ieee802-dot1q-bridge:bridges` with these bridges of the switch; nothing without any."""
    listed = [
        _bridge(mechanisms, state, states)
        for _name, state in sorted(states.items())
        if state.as_bridge
    ]
    return {BRIDGES: {"bridge": listed}} if listed else {}


def of_switch(mechanisms: Collection[Mechanism], states: Mapping[str, PortState]) -> Node:
    """The top-level nodes that mechanisms fill from all ports."""
    node: Node = {}
    for mechanism in mechanisms:
        node |= mechanism.operational_of_switch(states.values())
    return node


def agent(
    *,
    version: str,
    pid: int,
    started: datetime,
    kernel_release: str,
    of_mechanisms: Node,
    tai_offset_s: int,
    ptp: PtpStatus | None,
    last_change: LastChange | None,
    gates_wait: str | None = None,
    not_applied: Mapping[str, str] = MappingProxyType({}),
    kept_term: KeptTerm | None = None,
) -> Node:
    """`/tsn-linux:agent`; `of_mechanisms` are the leaves that mechanisms fill, `gates_wait` is what
    stored gate control lists wait for, `not_applied` by port why its stored configuration is not in
    force, `kept_term` who acts for the network."""
    node: Node = {
        "version": version,
        "pid": pid,
        "started": _date_and_time(started),
        "kernel-release": kernel_release,
        "tai-offset": tai_offset_s,
        "refuses-late-rollouts": True,
        "keeps-terms": True,
        **of_mechanisms,
    }
    if ptp:
        node["ptp"] = _ptp(ptp)
    if gates_wait:
        node["gates-wait"] = gates_wait
    if not_applied:
        node["not-applied"] = [
            {"interface": port, "reason": reason} for port, reason in sorted(not_applied.items())
        ]
    if kept_term:
        node["kept-term"] = {
            "network": kept_term.network,
            "term": str(kept_term.term),
            "controller": kept_term.controller,
            "taken": kept_term.taken,
        }
    if last_change:
        node["last-change"] = {
            "time": _date_and_time(last_change.time),
            "duration-us": str(last_change.duration_us),
            "ports": last_change.ports,
        }
    return {"tsn-linux:agent": node}


def lldp(reported: Lldp | None) -> Node:
    """`/tsn-linux:lldp`; nothing where no LLDP daemon answers."""
    if reported is None:
        return {}
    node: Node = _identified("chassis-id", reported.chassis_id)
    if reported.system_name:
        node["system-name"] = reported.system_name
    at_port: Counter[str] = Counter()
    node["neighbor"] = []
    for neighbor in reported.neighbors:
        index = at_port[neighbor.interface]
        at_port[neighbor.interface] += 1
        node["neighbor"].append(_neighbor(neighbor, index))
    return {"tsn-linux:lldp": node}


def _neighbor(neighbor: Neighbor, index: int) -> Node:
    leaves: Node = {
        **_identified("chassis-id", neighbor.chassis_id),
        **_identified("port-id", neighbor.port_id),
        "port-desc": neighbor.port_description,
        "system-name": neighbor.system_name,
        "management-address": list(neighbor.management_addresses),
        "system-capabilities-enabled": " ".join(neighbor.capabilities),
    }
    return {
        "interface": neighbor.interface,
        "index": index,
        **{name: value for name, value in leaves.items() if value},
    }


def _identified(leaf: str, identifier: Identifier | None) -> Node:
    if identifier is None:
        return {}
    node: Node = {leaf: identifier.text}
    if identifier.subtype:
        node[f"{leaf}-subtype"] = identifier.subtype
    return node


def _interface(
    mechanisms: Collection[Mechanism],
    state: PortState,
    context: ReportContext,
    counting_since: datetime,
) -> Node:
    node: Node = {
        "name": state.name,
        "type": "iana-if-type:ethernetCsmacd",
        "oper-status": str(state.oper_status),
        BRIDGE_PORT: {TAPRIO: {"kernel": _kernel(state)}},
    }
    for mechanism in mechanisms:
        _merge(node, mechanism.operational(state, context))
    if state.mac_address is not None:
        node["phys-address"] = state.mac_address
    if state.link_speed_bps is not None:
        node["speed"] = str(state.link_speed_bps)
    if state.statistics:
        statistics = {
            "discontinuity-time": _date_and_time(counting_since),
            **{name: _counter(name, count) for name, count in state.statistics.items()},
        }
        _merge(node, {"statistics": statistics})
    return node


def _bridge(
    mechanisms: Collection[Mechanism], state: PortState, states: Mapping[str, PortState]
) -> Node:
    """A bridge with its one component."""
    if state.as_bridge is None:
        raise TypeError(f"{state.name} is no bridge")
    ports = sorted(state.as_bridge.ports)
    component: Node = {
        "name": state.name,
        "type": "c-vlan-component",
        "tsn-linux:vlan-filtering": state.as_bridge.vlan_filtering,
        "tsn-linux:multicast-snooping": state.as_bridge.multicast_snooping,
    }
    node: Node = {
        "name": state.name,
        "bridge-type": "customer-vlan-bridge",
        "components": 1,
        "component": [component],
    }
    if state.mac_address is not None:
        node["address"] = state.mac_address.replace(":", "-").upper()
    if ports:  # the standard's counts begin with 1
        node["ports"] = component["ports"] = len(ports)
        component["bridge-port"] = ports
    if state.as_bridge.port_states:
        component["tsn-linux:port"] = [
            {
                "interface": port,
                "spanning-tree-state": stp_state,
                "rx-vlan-offload": port in states and states[port].rx_vlan_offload,
            }
            for port, stp_state in sorted(state.as_bridge.port_states.items())
        ]
    for mechanism in mechanisms:
        _merge(component, mechanism.operational_of_bridge(state))
    return node


def _counter(name: str, count: int) -> int | str:
    return count % COUNTER32_SIZE if name in SHORT_COUNTERS else str(count)


def _kernel(state: PortState) -> Node:
    foreign = state.foreign_qdisc
    node: Node = {
        "tx-queues": state.tx_queues,
        "mac-merge": state.mac_merge is not None,
        "hardware-time-stamps": state.has_hardware_stamps,
        "hardware-forwards": state.switch_id is not None,
        "root-qdisc": f"foreign: {foreign}" if foreign else state.root_qdisc,
    }
    if state.driver is not None:
        node["driver"] = state.driver
        if facts := FACTS.get(state.driver):
            node["offload"] = _offload(facts)
    if state.bridge is not None:
        node["bridge"] = state.bridge
        if (in_hardware := state[FilterPlacement].in_hardware) is not None:
            node["bridged-frames"] = {"filters-in-hardware": in_hardware}
    if state.link_speed_bps is not None:
        node["link-speed-bps"] = str(state.link_speed_bps)
    if state.mtu_octets is not None:
        node["mtu"] = state.mtu_octets
    return node


def _offload(facts: DriverFacts) -> Node:
    leaves: Node = {
        "list-max": facts.list_max,
        "cycle-max": facts.cycle_max_ns,
        "interval-min": facts.interval_min_ns,
        "interval-max": facts.interval_max_ns,
        "tick": facts.tick_ns,
        "takes": [str(each) for each in Takes if each in facts.takes],
        "note": list(facts.notes),
    }
    return {
        "source": list(facts.source),
        "drops-long-frames": facts.drops_long_frames,
        **{name: value for name, value in leaves.items() if value},
    }


def _merge(into: Node, nodes: Node) -> None:
    """Add nodes to a tree; containers that are there already are merged."""
    for name, value in nodes.items():
        if isinstance(value, dict) and name in into:
            _merge(into[name], value)
        else:
            into[name] = value


def _ptp(ptp: PtpStatus) -> Node:
    node: Node = {
        "clock-identity": ptp.clock_identity,
        "parent-identity": ptp.parent_identity,
        "grandmaster-identity": ptp.grandmaster_identity,
        "is-grandmaster": ptp.is_grandmaster,
        "port": [
            {"number": number, "state": str(state)} for number, state in sorted(ptp.ports.items())
        ],
    }
    if ptp.offset_from_master_ns is not None:
        node["offset-from-master-ns"] = str(ptp.offset_from_master_ns)
    return node


def _date_and_time(moment: datetime) -> str:
    return moment.isoformat(timespec="microseconds")
