"""The instances of `ieee1588-ptp-tt`, read from the configuration for each port. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from agent.mechanism import PTP, Refused, Tree
from agent.model import PortState
from agent.ptp_daemons.model import (
    GPTP,
    ClockConfig,
    DelayMechanism,
    Instance,
    InstancePort,
    Servo,
    TimeStamping,
)

LINUX = "tsn-linux:ptp4l"
AS = "ieee802-dot1as-gptp:"

# IEEE Std 802.1AS-2020, 8.6.2.1: of what a network is made of; and 8.6.2.5
PRIORITY1, PRIORITY2 = 246, 248
DOMAIN_MAX = 127  # ptp4l's

# time-interval: nanoseconds multiplied by this
SCALED_NS = 65536
INT32_MAX = 2**31 - 1

DELAY_MECHANISMS = {"e2e": DelayMechanism.END_TO_END, "p2p": DelayMechanism.PEER_TO_PEER}

# Leaves that ptp4l has as they are, with the least value that it takes.
PLAIN_OPTIONS = {
    "log-announce-interval": ("logAnnounceInterval", -128),
    "announce-receipt-timeout": ("announceReceiptTimeout", 2),
    "log-sync-interval": ("logSyncInterval", -128),
    "log-min-delay-req-interval": ("logMinDelayReqInterval", -128),
    "log-min-pdelay-req-interval": ("logMinPdelayReqInterval", -128),
    f"{AS}sync-receipt-timeout": ("syncReceiptTimeout", 0),
}
# Intervals, with the range of nanoseconds that ptp4l takes.
INTERVAL_OPTIONS = {
    "delay-asymmetry": ("delayAsymmetry", -INT32_MAX, INT32_MAX),
    f"{AS}mean-link-delay-thresh": ("neighborPropDelayThresh", 0, INT32_MAX),
    f"{AS}neg-mean-link-delay-thresh": ("min_neighbor_prop_delay", -INT32_MAX, -1),
}


def configured(interface: Tree, _state: PortState | None) -> ClockConfig:
    """Raises `Refused` for a value that ptp4l does not take."""
    ports = [_instance_port(each["instance"], each["port"]) for each in interface.get(PTP, ())]
    return ClockConfig(tuple(sorted(ports, key=lambda each: each.instance.index)))


def _instance_port(node: Tree, port: Tree) -> InstancePort:
    instance = _instance(node)
    number = int(port["port-index"])
    where = f"port {number} of PTP instance {instance.index}"
    return InstancePort(instance, number, tuple(_options(port.get("port-ds", {}), where)))


def _instance(node: Tree) -> Instance:
    default, linux = node.get("default-ds", {}), node.get(LINUX, {})
    stamping = linux.get("time-stamping")
    steps = default.get("max-steps-removed")
    return Instance(
        index=int(node["instance-index"]),
        domain=_bounded(
            int(default.get("domain-number", 0)), 0, DOMAIN_MAX, f"{_words(node)}: domain-number"
        ),
        sdo_id=int(default.get("sdo-id", GPTP)),
        priority1=int(default.get("priority1", PRIORITY1)),
        priority2=int(default.get("priority2", PRIORITY2)),
        time_receiver_only=bool(default.get("time-receiver-only", False)),
        max_steps_removed=None if steps is None else int(steps),
        time_stamping=TimeStamping(stamping) if stamping else None,
        free_running=bool(linux.get("free-running", False)),
        servo=_servo(linux.get("servo", {})),
    )


def _words(node: Tree) -> str:
    return f"PTP instance {node['instance-index']}"


def _servo(servo: Tree) -> Servo:
    first, later = servo.get("first-step-threshold"), servo.get("step-threshold")
    return Servo(
        _decimal(servo.get("proportional-constant")),
        _decimal(servo.get("integral-constant")),
        None if first is None else int(first),
        None if later is None else int(later),
    )


def _decimal(text: str | None) -> str | None:
    """Without zeros at its end, which libyang writes and a person leaves out."""
    return None if text is None else f"{Decimal(text).normalize():f}"


def _options(data_set: Tree, where: str) -> Iterator[tuple[str, str]]:
    for leaf, (option, least) in PLAIN_OPTIONS.items():
        if leaf in data_set:
            yield option, str(_bounded(int(data_set[leaf]), least, 255, f"{where}: {leaf}"))
    for leaf, (option, low_ns, high_ns) in INTERVAL_OPTIONS.items():
        if leaf in data_set:
            interval_ns = _whole_ns(int(data_set[leaf]), f"{where}: {leaf}")
            yield option, str(_bounded(interval_ns, low_ns, high_ns, f"{where}: {leaf} in ns"))
    if "delay-mechanism" in data_set:
        yield "delay_mechanism", DELAY_MECHANISMS[data_set["delay-mechanism"]].value
    if data_set.get("time-transmitter-only"):
        yield "masterOnly", "1"


def _whole_ns(interval: int, where: str) -> int:
    if interval % SCALED_NS:
        raise Refused(
            f"{where} is {interval / SCALED_NS} ns; ptp4l takes whole nanoseconds: use a multiple "
            f"of {SCALED_NS}"
        )
    return interval // SCALED_NS


def _bounded(value: int, low: int, high: int, where: str) -> int:
    if not low <= value <= high:
        raise Refused(f"{where} is {value}; ptp4l takes {low} to {high}")
    return value
