"""What the daemons of PTP instances answer → the data sets of `ieee1588-ptp-tt`. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from agent.kernel.ptp_management import (
    CurrentDataSet,
    DefaultDataSet,
    ParentDataSet,
    PortDataSet,
    TimePropertiesDataSet,
)
from agent.mechanism import PTP, Node
from agent.mechanisms.clock.tree import AS, LINUX
from agent.model import PortState
from agent.ptp_daemons.model import GPTP, ClockState, Instance, InstanceReport, Membership

MODULE = "ieee1588-ptp-tt:"

# IEEE Std 1588-2019, table 4; other classes have no identity in the module.
CLOCK_CLASSES = {
    6: "cc-primary-sync",
    7: "cc-primary-sync-lost",
    13: "cc-application-specific-sync",
    14: "cc-application-specific-sync-lost",
    52: "cc-primary-sync-alternative-a",
    58: "cc-application-specific-alternative-a",
    187: "cc-primary-sync-alternative-b",
    193: "cc-application-specific-alternative-b",
    248: "cc-default",
    255: "cc-time-receiver-only",
}
# Table 5, from 0x17 on; 0xFE is unknown.
_ACCURACIES = (
    *("1000-fs", "2500-fs", "10-ps", "25ps", "100-ps", "250-ps", "1000-ps", "2500-ps"),
    *("10-ns", "25-ns", "100-ns", "250-ns", "1000-ns", "2500-ns"),
    *("10-us", "25-us", "100-us", "250-us", "1000-us", "2500-us"),
    *("10-ms", "25-ms", "100-ms", "250-ms", "1-s", "10-s", "gt-10-s"),
)
CLOCK_ACCURACIES = {
    number: f"ca-time-accurate-to-{name}" for number, name in enumerate(_ACCURACIES, start=0x17)
}
# Table 6
TIME_SOURCES = {
    0x10: "atomic-clock",
    0x20: "gnss",
    0x30: "terrestrial-radio",
    0x39: "serial-time-code",
    0x40: "ptp",
    0x50: "ntp",
    0x60: "hand-set",
    0x90: "other",
    0xA0: "internal-oscillator",
}
# Table 20
_STATES = (
    *("initializing", "faulty", "disabled", "listening", "pre-time-transmitter"),
    *("time-transmitter", "passive", "uncalibrated", "time-receiver"),
)
PORT_STATES = dict(enumerate(_STATES, start=1))
# Table 21
DELAY_MECHANISMS = {1: "e2e", 2: "p2p", 254: "no-mechanism"}

# Table 66
LEAP61, LEAP59, UTC_OFFSET_VALID, PTP_TIMESCALE, TIME_TRACEABLE, FREQUENCY_TRACEABLE = (
    1 << bit for bit in range(6)
)


def instances(states: Iterable[PortState]) -> Node:
    """The instances that have ports; nothing without any."""
    by_index: dict[int, list[tuple[str, Membership]]] = {}
    for state in states:
        for each in state[ClockState].memberships:
            by_index.setdefault(each.configured.instance.index, []).append((state.name, each))
    if not by_index:
        return {}
    nodes = [_instance(index, members) for index, members in sorted(by_index.items())]
    return {PTP: {"instances": {"instance": nodes}}}


def _instance(index: int, members: list[tuple[str, Membership]]) -> Node:
    _, any_member = members[0]
    instance, report = any_member.configured.instance, any_member.report
    linux: Node = {
        "time-stamping": str(any_member.time_stamping),
        "free-running": instance.free_running,
    }
    if any_member.virtual_clock is not None:
        linux["virtual-clock"] = any_member.virtual_clock
    if report.failure is not None:
        linux["failure"] = report.failure
    node: Node = {
        "instance-index": index,
        LINUX: linux,
        "ports": {
            "port": [
                _port(name, member)
                for name, member in sorted(members, key=lambda each: each[1].ptp_number)
            ]
        },
    }
    return node | _data_sets(instance, report)


def _data_sets(instance: Instance, report: InstanceReport) -> Node:
    node: Node = {}
    if report.default:
        node["default-ds"] = _default(instance, report.default)
    if report.current:
        node["current-ds"] = _current(report.current)
    if report.parent:
        node["parent-ds"] = _parent(report.parent)
    if report.time_properties:
        node["time-properties-ds"] = _time_properties(report.time_properties)
    return node


def _default(instance: Instance, data: DefaultDataSet) -> Node:
    node: Node = {
        "clock-identity": _identity(data.clock_identity),
        "number-ports": data.number_of_ports,
        "clock-quality": _quality(
            data.clock_class, data.clock_accuracy, data.offset_scaled_log_variance
        ),
        "priority1": data.priority1,
        "priority2": data.priority2,
        "domain-number": data.domain,
        "sdo-id": instance.sdo_id,
        "time-receiver-only": instance.time_receiver_only,
    }
    if instance.sdo_id == GPTP:
        node[f"{AS}gm-capable"] = not instance.time_receiver_only
    return node


def _current(data: CurrentDataSet) -> Node:
    return {
        "steps-removed": data.steps_removed,
        "offset-from-time-transmitter": str(data.offset_from_master),
        "mean-delay": str(data.mean_path_delay),
    }


def _parent(data: ParentDataSet) -> Node:
    return {
        "parent-port-identity": _port_identity(data.parent_clock, data.parent_port),
        "grandmaster-identity": _identity(data.grandmaster_identity),
        "grandmaster-clock-quality": _quality(
            data.grandmaster_clock_class,
            data.grandmaster_clock_accuracy,
            data.grandmaster_offset_scaled_log_variance,
        ),
        "grandmaster-priority1": data.grandmaster_priority1,
        "grandmaster-priority2": data.grandmaster_priority2,
    }


def _time_properties(data: TimePropertiesDataSet) -> Node:
    node: Node = {
        "current-utc-offset-valid": bool(data.flags & UTC_OFFSET_VALID),
        "leap59": bool(data.flags & LEAP59),
        "leap61": bool(data.flags & LEAP61),
        "time-traceable": bool(data.flags & TIME_TRACEABLE),
        "frequency-traceable": bool(data.flags & FREQUENCY_TRACEABLE),
        "ptp-timescale": bool(data.flags & PTP_TIMESCALE),
    }
    if data.flags & UTC_OFFSET_VALID:
        node["current-utc-offset"] = data.current_utc_offset_s
    if data.time_source in TIME_SOURCES:
        node["time-source"] = MODULE + TIME_SOURCES[data.time_source]
    return node


def _port(name: str, member: Membership) -> Node:
    report, number = member.report, member.ptp_number
    node: Node = {"port-index": member.configured.number, "underlying-interface": name}
    data_set: Node = {}
    if data := report.ports.get(number):
        data_set |= _port_data_set(data)
    if gptp := report.gptp_ports.get(number):
        data_set[f"{AS}as-capable"] = bool(gptp.as_capable)
    if data_set:
        node["port-ds"] = data_set
    return node


def _port_data_set(data: PortDataSet) -> Node:
    node: Node = {
        "port-identity": _port_identity(data.clock_identity, data.port_number),
        "mean-link-delay": str(data.peer_mean_path_delay),
        "log-min-delay-req-interval": data.log_min_delay_req_interval,
        "log-announce-interval": data.log_announce_interval,
        "announce-receipt-timeout": data.announce_receipt_timeout,
        "log-sync-interval": data.log_sync_interval,
        "log-min-pdelay-req-interval": data.log_min_pdelay_req_interval,
    }
    if data.state in PORT_STATES:  # others are reserved
        node["port-state"] = PORT_STATES[data.state]
    if data.delay_mechanism in DELAY_MECHANISMS:
        node["delay-mechanism"] = DELAY_MECHANISMS[data.delay_mechanism]
    return node


def _port_identity(clock: bytes, number: int) -> Node:
    return {"clock-identity": _identity(clock), "port-number": number}


def _quality(clock_class: int, accuracy: int, variance: int) -> Node:
    node: Node = {"offset-scaled-log-variance": variance}
    if clock_class in CLOCK_CLASSES:
        node["clock-class"] = MODULE + CLOCK_CLASSES[clock_class]
    if accuracy in CLOCK_ACCURACIES:
        node["clock-accuracy"] = MODULE + CLOCK_ACCURACIES[accuracy]
    return node


def _identity(clock: bytes) -> str:
    """Eight pairs of capital digits: 00-11-22-FF-FE-33-44-55."""
    return clock.hex("-").upper()
