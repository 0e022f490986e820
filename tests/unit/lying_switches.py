"""The switches of a plan as sessions without SSH, whose replies a test may change.

Unchanged, they run the plan: what a test changes is all that is wrong with them. The plan is that
of line3 unless a test names another one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from copy import deepcopy

from lxml import etree
from ncclient import manager
from ncclient.capabilities import Capabilities

from cnc.data_tree.tree import (
    BRIDGE,
    DATASTORES,
    END_STATION,
    FRER,
    IF_TYPE,
    INTERFACES,
    NETCONF,
    PRIORITIES,
    PSFP_BRIDGE,
    SCHED,
    SCHED_BRIDGE,
)
from cnc.mechanisms.composition import is_bridge
from cnc.mechanisms.frer.registration import MODULE as SEQUENCING
from cnc.mechanisms.identification.registration import MODULE as IDENTIFICATION
from cnc.mechanisms.stream_filters.registration import MODULE as POLICING
from cnc.model import (
    NO_GATES,
    NS_PER_S,
    BridgeForwarding,
    Plan,
    PortSettings,
    TalkerStreams,
    gated_port,
)
from cnc.switch import connection
from cnc.switch.payload import edit_config
from cnc.switch.push import SUBSCRIBED, YANG_PUSH
from cnc.switch.rollout_id import RolloutId
from cnc.switch.transport import PromptSession
from tests.unit.asked import desired_ports
from tests.unit.watched_switches import PLAN

NAMESPACES = {
    "nc": NETCONF,
    "if": INTERFACES,
    "ift": IF_TYPE,
    "b": BRIDGE,
    "g": SCHED_BRIDGE,
    "s": SCHED,
    "p": PSFP_BRIDGE,
    "f": FRER,
    "e": END_STATION,
    "t": "urn:tsn-control-plane:yang:tsn-linux",
    "m": "urn:ietf:params:xml:ns:yang:ietf-netconf-monitoring",
    "y": "urn:ietf:params:xml:ns:yang:ietf-yang-library",
    "nmda": "urn:ietf:params:xml:ns:yang:ietf-netconf-nmda",
    "sn": SUBSCRIBED,
    "yp": YANG_PUSH,
    "ds": DATASTORES,
}
MARK = RolloutId("6f0c4c6b-9f0c-4d11-8a7e-2d0f6a5a7d11", "alice@desk", "2026-01-01T00:00:00+00:00")
CAPABILITIES = (
    "urn:ietf:params:netconf:base:1.0",
    *(
        f"urn:ietf:params:netconf:capability:{name}"
        for name in (
            *("candidate:1.0", "confirmed-commit:1.1", "validate:1.1", "startup:1.0"),
            *("interleave:1.0", "notification:1.0"),
        )
    ),
)
BASE_TIME_NS = 1_700_000_000 * NS_PER_S
TAI_OFFSET_S = 37

Reply = etree._Element
Change = Callable[[Reply], None]


def element(name: str, *children: Reply | str) -> Reply:
    """`prefix:name` with texts and elements in it; prefixes are those of NAMESPACES."""
    prefix, _, local = name.partition(":")
    made = etree.Element(f"{{{NAMESPACES[prefix]}}}{local}", nsmap=NAMESPACES)
    for child in children:
        if isinstance(child, str):
            made.text = child
        else:
            made.append(child)
    return made


def leaves(prefix: str, **texts: object) -> list[Reply]:
    """Leaves by name, with _ for -."""
    return [element(f"{prefix}:{n.replace('_', '-')}", str(text)) for n, text in texts.items()]


def stored_data(switch: str, plan: Plan = PLAN) -> Reply:
    """What <get-config> of running returns."""
    wanted = {port: each for port, each in desired_ports(plan, switch).items() if each != NO_GATES}
    return element("nc:data", *edit_config(wanted, BASE_TIME_NS, {}, MARK))


def state_data(switch: str, plan: Plan = PLAN) -> Reply:
    """What <get> returns of all that `cnc` asks for."""
    desired = desired_ports(plan, switch)
    bridges = {name: its[BridgeForwarding] for name, its in desired.items() if is_bridge(its)}
    data = element("nc:data", element("if:interfaces"), _agent(), _lldp(switch, [*desired]))
    for name, wanted in desired.items():
        if wanted.get(TalkerStreams) is not None:
            data[0].append(_station_port(name, wanted))
        elif name not in bridges:
            data[0].append(_port(name, gated_port(wanted)))
    for name, its in bridges.items():
        data.extend(_forwarding(name, its))
        for port in data[0]:
            _add_membership(port, name, its)
    data.extend(_server())
    return data


def _port(name, wanted):
    tai_ns = time.time_ns() + TAI_OFFSET_S * NS_PER_S
    kernel = element("t:kernel", *leaves("t", root_qdisc="taprio" if wanted else "noqueue"))
    kernel.extend(leaves("t", link_speed_bps=10**9, tx_queues=8))
    if wanted:
        kernel.extend(_kernel(wanted))
    table = element(
        "g:gate-parameter-table",
        element(
            "g:current-time",
            *leaves("g", seconds=tai_ns // NS_PER_S, nanoseconds=tai_ns % NS_PER_S),
        ),
        *leaves("g", supported_list_max=1024, supported_interval_max=10**9, tick_granularity=10),
        element("g:supported-cycle-max", *leaves("g", numerator=1, denominator=1)),
        *leaves("g", config_change_error=0),
        element("g:queue-max-sdu-table", *leaves("g", traffic_class=6, transmission_overrun=0)),
    )
    return element(
        "if:interface",
        *leaves("if", name=name, oper_status="up", phys_address="02:00:00:00:00:01"),
        *leaves("if", speed=10**9),
        element("b:bridge-port", table, element("t:taprio", kernel)),
    )


def _kernel(wanted):
    yield from leaves("t", mode=wanted.mode, clock="tai", traffic_classes=wanted.number_of_classes)
    yield element(
        "t:schedule",
        *leaves("t", state="running", base_time_ns=BASE_TIME_NS),
        *leaves("t", cycle_time_ns=wanted.gates.cycle_ns),
        *(
            element(
                "t:entry",
                *leaves("t", index=index, operation="set-gate-states"),
                *leaves("t", gate_states=entry.gate_states, interval_ns=entry.interval_ns),
            )
            for index, entry in enumerate(wanted.gates.entries)
        ),
    )
    for priority, number in enumerate(wanted.priority_map):
        yield element("t:priority-map", *leaves("t", priority=priority, traffic_class=number))
    for dscp, priority in wanted.dscp_priorities.items():
        yield element("t:dscp-rule", *leaves("t", dscp=dscp, priority=priority))
    for number in range(wanted.number_of_classes):
        yield element("t:queue", *leaves("t", traffic_class=number, count=1, offset=number))
        yield element(
            "t:class-statistics",
            *leaves("t", traffic_class=number, frames=1000, backlog_frames=0),
            *leaves("t", drops=0, window_drops=0),
        )


def _station_port(name, wanted):
    """A port of an end station: what it publishes to its talkers, and how late these are."""
    port = _port(name, None)
    config = edit_config({name: wanted}, BASE_TIME_NS, {}, MARK)
    (talker,) = config.iter(f"{{{END_STATION}}}talker")
    published = element("e:published", *leaves("e", state="running"), *talker)
    for stream in published.iter(f"{{{END_STATION}}}stream"):
        late = leaves("e", count=1000, quantile_ns=900, maximum_ns=1000)
        stream.append(element("e:lateness", *late))
    port.append(element("e:talker", published))
    return port


def _forwarding(bridge, wanted):
    """What a bridge does: as it is configured, in the nodes of the state, and what it counts."""
    config = edit_config({bridge: PortSettings.of(wanted)}, BASE_TIME_NS, {}, MARK)
    for gate in config.iter(f"{{{PSFP_BRIDGE}}}stream-gate-instance-table"):
        for node in gate:
            node.tag = node.tag.replace("}admin-", "}oper-")
    for row in config.iter(f"{{{PSFP_BRIDGE}}}stream-filter-instance-table"):
        row.extend(leaves("p", matching_frames_count=9, not_passing_frames_count=0))
        row.extend(leaves("p", not_passing_sdu_count=0))
    for row in config.iter(f"{{{FRER}}}sequence-recovery"):
        row.append(
            element("t:latent-errors", *leaves("t", detected="false", difference=0, errors=0))
        )
    for component in config.iter(f"{{{BRIDGE}}}component"):
        component.extend(leaves("t", vlan_filtering="true", multicast_snooping="true"))
        for port in wanted.members:
            component.append(element("b:bridge-port", port))
            component.append(
                element(
                    "t:port",
                    *leaves("t", interface=port, spanning_tree_state="forwarding"),
                    *leaves("t", rx_vlan_offload="false"),
                )
            )
            component.append(element("t:foreign-vlans", *leaves("t", interface=port, vids="1")))
        component.append(
            element(
                "t:foreign-entries",
                *leaves("t", address="02-00-00-00-00-09", interface=bridge, vids="1"),
            )
        )
    return [each for each in config if "}interfaces" not in each.tag and "}rollout" not in each.tag]


def _add_membership(port, bridge, wanted):
    """What a port of the bridge says of it, and of the copies that come in."""
    name = port.findtext("if:name", namespaces=NAMESPACES)
    kernel = port.find("b:bridge-port/t:taprio/t:kernel", NAMESPACES)
    bridged_frames = element("t:bridged-frames")
    bridged_frames.extend(deepcopy(each) for each in kernel.iterfind("t:dscp-rule", NAMESPACES))
    if name in wanted.trusting:
        for priority in range(PRIORITIES):
            row = leaves("t", code_point=priority, priority=priority)
            bridged_frames.append(element("t:received-priority", *row))
    late = leaves("t", count=200_000, quantile_ns=0, maximum_ns=0)
    kernel.append(element("t:gate-wake-ups", *late))
    kernel.extend([*leaves("t", bridge=bridge, mtu=1500, transmit_quota=1024), bridged_frames])
    counters = leaves("f", handle=1, direction_out_facing="true", rx_passed_pkts=9)
    rows = element("f:per-port-per-stream-counters", *counters)
    port.append(element("if:statistics", element("f:frer", rows)))


def _agent():
    return element(
        "t:agent",
        *leaves("t", pid=100, tai_offset=TAI_OFFSET_S, refuses_late_rollouts="true"),
        *leaves("t", classifier="flower"),
        element("t:last-change", *leaves("t", duration_us=100)),
        element(
            "t:ptp",
            *leaves("t", grandmaster_identity="001122.fffe.334455", is_grandmaster="false"),
            *leaves("t", offset_from_master_ns=12),
            element("t:port", *leaves("t", number=1, state="slave")),
        ),
    )


def _lldp(switch, ports):
    return element(
        "t:lldp",
        *leaves("t", chassis_id=f"02:00:00:00:01:{switch[1]}0", chassis_id_subtype="mac-address"),
        *leaves("t", system_name=switch),
        element(
            "t:neighbor",
            *leaves("t", interface=ports[0], chassis_id="02:00:00:00:02:00"),
            *leaves("t", chassis_id_subtype="mac-address", port_id="eth0"),
            *leaves("t", port_id_subtype="interface-name", port_desc="eth0", system_name="t1"),
            *leaves("t", management_address="10.0.0.9", system_capabilities_enabled="bridge"),
        ),
    )


def _server():
    yield element(
        "m:netconf-state",
        element(
            "m:datastores", element("m:datastore", *leaves("m", name="running"), element("m:locks"))
        ),
        element(
            "m:sessions",
            element("m:session", *leaves("m", session_id=7, username="tsn", source_host="::1")),
        ),
    )
    yield element(
        "y:yang-library",
        element(
            "y:module-set",
            element("y:module", *leaves("y", name="tsn-linux", feature="lldp")),
            *(
                element("y:module", *leaves("y", name=name))
                for name in (IDENTIFICATION, SEQUENCING, POLICING)
            ),
        ),
    )


class LyingSwitches:
    """Stands in for `open_session`; `change(reply)` may do anything to the <data> of a reply.

    `refusals` are error messages by operation: all switches refuse these. `asked` are the
    operations that they were asked for. They have no YANG push unless `subscriptions` says what to
    subscribe to they allow; the ids count from 1.
    """

    def __init__(self, change: Change = lambda _: None, plan: Plan = PLAN) -> None:
        self.change = change
        self._plan = plan
        self._names = {
            str(node.management.address): name for name, node in plan.intent.network.managed.items()
        }
        self.refusals: dict[str, str] = {}
        self.asked: list[str] = []
        self.subscriptions: tuple[str, ...] = ()
        self._last_id = 0

    def open_session(self, *, way, timeout_s, **_):
        """A session with the switch, or the end station, at this address."""
        switch = self._names[way.host]
        handler = manager.make_device_handler(None)
        return manager.Manager(_Session(handler, timeout_s, self, switch), handler, timeout_s)

    def reply(self, switch: str, request: str) -> str:
        """The <rpc-reply> to a request."""
        rpc = etree.fromstring(request.encode())
        (operation,) = rpc.iterchildren("*")
        name = etree.QName(operation).localname
        reply = element("nc:rpc-reply")
        reply.set("message-id", rpc.get("message-id"))
        self.asked.append(name)
        if name in self.refusals:
            reply.append(_refusal(self.refusals[name]))
        elif name in {"get", "get-config"}:
            said = stored_data if name == "get-config" else state_data
            reply.append(said(switch, self._plan))
            self.change(reply[0])
        elif name == "get-data":
            data = element("nmda:data", *deepcopy(state_data(switch, self._plan)))
            reply.append(data)
            self.change(data)
        elif name == "establish-subscription":
            reply.append(self._subscribed(operation))
        else:
            reply.append(element("nc:ok"))
        return etree.tostring(reply, encoding="unicode")

    def _subscribed(self, operation: Reply) -> Reply:
        offered = {
            "stream": operation.find("sn:stream", NAMESPACES),
            "periodic": operation.find("yp:periodic", NAMESPACES),
            "on-change": operation.find("yp:on-change", NAMESPACES),
        }
        (wanted,) = (name for name, node in offered.items() if node is not None)
        if wanted not in self.subscriptions:
            return _refusal(f"no subscription of this kind: {wanted}")
        self._last_id += 1
        return element("sn:id", str(self._last_id))


def _refusal(message):
    texts = leaves("nc", error_type="application", error_tag="operation-failed")
    return element(
        "nc:rpc-error",
        *texts,
        *leaves("nc", error_severity="error"),
        element("nc:error-message", message),
    )


class _Session(PromptSession):
    """A session that answers while it sends."""

    def __init__(self, handler, timeout_s, switches, name):
        super().__init__(handler, timeout_s)
        self._switches, self._name = switches, name
        self._id, self._connected = "7", True
        self._server_capabilities = Capabilities(CAPABILITIES)

    def send(self, message):
        """Answer at once."""
        self._dispatch_message(self._switches.reply(self._name, message))

    def close(self):
        """There is no connection to end."""
        self._connected = False


def with_revision(revision: str) -> Change:
    """Has all switches name this revision of tsn-linux."""

    def change(data: Reply) -> None:
        for name in data.iterfind(".//y:module/y:name", NAMESPACES):
            if name.text == "tsn-linux":
                name.addnext(element("y:revision", revision))

    return change


def lying(monkeypatch, change: Change = lambda _: None, plan: Plan = PLAN) -> LyingSwitches:
    """Let every session of `cnc` be one with the switches of this plan."""
    switches = LyingSwitches(change, plan)
    monkeypatch.setattr(connection, "open_session", switches.open_session)
    monkeypatch.setattr(connection, "_host_keys", lambda *_: [])
    monkeypatch.setattr(connection, "login_keys", lambda _identity: [])
    return switches
