"""The files of a ptp4l: its configuration, as the agent writes it, and what has become of it.

Both are in one directory, `INDEX.conf` and `INDEX.status`, with the socket `INDEX.socket` of the
daemon: `tsn-clock` runs a ptp4l for each configuration. The first line of a configuration
says what it was made from, so that the agent finds what it has written before.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from agent.kernel.ptp_management import Domain
from agent.ptp_daemons.model import (
    DEFAULT_PROFILE,
    GPTP,
    Instance,
    InstancePort,
    Servo,
    TimeStamping,
)

FORMAT = "# tsn-ptp4l/1 "
MAX_FILE_OCTETS = 2**20
# Frames of PTP leave in the class that is never closed: cnc plans it for this priority.
SOCKET_PRIORITY = 7

# IEEE Std 802.1AS-2020, as ptp4l speaks it: linuxptp's configs/gPTP.cfg.
GPTP_OPTIONS = (
    ("network_transport", "L2"),
    ("delay_mechanism", "P2P"),
    ("transportSpecific", "0x1"),
    ("ptp_dst_mac", "01:80:C2:00:00:0E"),
    ("logAnnounceInterval", "0"),
    ("logSyncInterval", "-3"),
    ("syncReceiptTimeout", "3"),
    ("path_trace_enabled", "1"),
    ("follow_up_info", "1"),
    ("assume_two_step", "1"),
)
DEFAULT_OPTIONS = (("network_transport", "L2"), ("delay_mechanism", "E2E"))
# ptp4l refuses the words of one profile in the other.
NO_GRANDMASTER = {GPTP: {"gmCapable": "0"}, DEFAULT_PROFILE: {"slaveOnly": "1"}}
# With stamps of the kernel a link seems to take as long as its ends take to wake up, and less than
# nothing at times; the 800 ns of the standard are for stamps of the hardware.
DELAY_THRESHOLDS = {
    TimeStamping.SOFTWARE: (
        ("neighborPropDelayThresh", "20000000"),
        ("min_neighbor_prop_delay", "-20000000"),
    ),
    TimeStamping.HARDWARE: (("neighborPropDelayThresh", "800"),),
}


@dataclass(frozen=True, slots=True)
class Daemon:
    """What a ptp4l is asked to do: the ports of an instance, in the order of PTP's numbers. With a
    `virtual_clock`, /dev/ptpN, it steers that in place of the clock of the ports' card."""

    instance: Instance
    time_stamping: TimeStamping
    ports: tuple[tuple[str, InstancePort], ...]
    virtual_clock: int | None = None


def configuration_file(directory: Path, index: int) -> Path:
    return directory / f"{index}.conf"


def status_file(directory: Path, index: int) -> Path:
    return directory / f"{index}.status"


def socket_address(directory: Path, index: int) -> Path:
    return directory / f"{index}.socket"


def management_domain(instance: Instance) -> Domain:
    """Whom the ptp4l of an instance answers; an sdo id has its major part in the upper octet."""
    return Domain(instance.sdo_id >> 8, instance.domain)


def digest(content: bytes) -> str:
    """The name of a content in a status file."""
    return hashlib.sha256(content).hexdigest()


def encode(daemon: Daemon) -> bytes:
    """The configuration file, the same for the same daemon."""
    lines = [FORMAT + json.dumps(_made_from(daemon)), "[global]"]
    lines += [f"{name} {value}" for name, value in _global_options(daemon)]
    for name, port in daemon.ports:
        lines += ["", f"[{name}]", *(f"{option} {value}" for option, value in port.options)]
    return ("\n".join(lines) + "\n").encode()


def _made_from(daemon: Daemon) -> dict[str, Any]:
    clock = daemon.virtual_clock
    return {
        **({} if clock is None else {"virtual-clock": clock}),
        "instance": asdict(daemon.instance),
        "time-stamping": daemon.time_stamping,
        "ports": [[name, port.number, port.options] for name, port in daemon.ports],
    }


def decode(content: bytes) -> Daemon:
    """The daemon of a file; one of several errors if `content` is not what `encode` writes."""
    first, _, _ = content.decode().partition("\n")
    made_from = json.loads(first.removeprefix(FORMAT))
    node = made_from["instance"]
    stamping = node.pop("time_stamping")
    instance = Instance(
        **{**node, "servo": Servo(**node["servo"])},
        time_stamping=TimeStamping(stamping) if stamping else None,
    )
    ports = tuple(
        (name, InstancePort(instance, number, tuple((key, value) for key, value in options)))
        for name, number, options in made_from["ports"]
    )
    stamping, virtual_clock = TimeStamping(made_from["time-stamping"]), None
    if "virtual-clock" in made_from:
        virtual_clock = int(made_from["virtual-clock"])
    daemon = Daemon(instance, stamping, ports, virtual_clock)
    if encode(daemon) != content:
        raise ValueError("it was edited")
    return daemon


def _global_options(daemon: Daemon) -> Sequence[tuple[str, str]]:
    instance, servo = daemon.instance, daemon.instance.servo
    options: dict[str, str] = {
        "time_stamping": daemon.time_stamping,
        "domainNumber": str(instance.domain),
        "priority1": str(instance.priority1),
        "priority2": str(instance.priority2),
        "socket_priority": str(SOCKET_PRIORITY),
    }
    options |= GPTP_OPTIONS if instance.sdo_id == GPTP else DEFAULT_OPTIONS
    options |= DELAY_THRESHOLDS[daemon.time_stamping]
    if daemon.time_stamping is TimeStamping.HARDWARE:
        options["boundary_clock_jbod"] = "1"  # ports may have clocks of their own: phc2sys
    if instance.time_receiver_only:
        options |= NO_GRANDMASTER[instance.sdo_id]
    if instance.max_steps_removed is not None:
        options["maxStepsRemoved"] = str(instance.max_steps_removed)
    if daemon.virtual_clock is not None:
        options["phc_index"] = str(daemon.virtual_clock)
    elif instance.free_running:
        options["free_running"] = "1"
    if servo.proportional_constant is not None:
        options["pi_proportional_const"] = servo.proportional_constant
    if servo.integral_constant is not None:
        options["pi_integral_const"] = servo.integral_constant
    if servo.first_step_threshold_ns is not None:
        options["first_step_threshold"] = _seconds(servo.first_step_threshold_ns)
    if servo.step_threshold_ns is not None:
        options["step_threshold"] = _seconds(servo.step_threshold_ns)
    return tuple(options.items())


def _seconds(nanoseconds: int) -> str:
    return f"{nanoseconds // 10**9}.{nanoseconds % 10**9:09}"
