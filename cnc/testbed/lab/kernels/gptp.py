"""gPTP between the kernels of a lab: at each node a ptp4l, which follows that of the first switch.

On a node with an agent it is an instance of `ieee1588-ptp-tt`, which the lab configures as any
operator would; on another one the lab's own ptp4l, which is configured in the same way. Cards of
these kernels have no stamps of hardware, so the kernel's are used.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lxml.builder import ElementMaker

from cnc.data_tree.reply import Element
from cnc.data_tree.tree import INTERFACES, NETCONF, PTP, TSN_LINUX
from cnc.model import Intent, PortRef
from cnc.support.format import duration
from cnc.support.lazy import lazy_import
from cnc.switch.payload import named_interface
from cnc.testbed.lab.kernels.beside import ask
from cnc.testbed.lab.management import SWITCH_PORT
from cnc.testbed.lab.running import Lab

if TYPE_CHECKING:
    from cnc.clocks import settled
    from cnc.switch import device as netconf
else:  # no end station needs them
    settled = lazy_import("cnc.clocks.settled")
    netconf = lazy_import("cnc.switch.device")

# IEEE Std 802.1AS-2020, 8.6.2.1: 246 is what the equipment of a network has, 248 an end station.
GRANDMASTER_PRIORITY1 = 245
SWITCH_PRIORITY1 = 246
STATION_PRIORITY1 = 248
# With these ptp4l is in step 2 s after it has a time transmitter. A clock whose own transmitter was
# only about to be set is set, too: to slew it would take minutes.
PROPORTIONAL_CONSTANT = "0.7"
INTEGRAL_CONSTANT = "0.3"
STEP_THRESHOLD_NS = 20_000

STATION_LOG = "ptp4l.log"
STATION_CONFIGURATION = "ptp4l.conf"
_COMMIT_S = 60
_COMMIT = "the lab's clocks"
_POLL_S = 1.0
# A clock settles in about 4 s for each switch between it and the grandmaster, and 10 s more.
SETTLE_TIMEOUT_S = 180.0
# What ptp4l writes of each second in which it follows.
_SECOND = re.compile(r": rms +\d+ max +(\d+) freq")

_NC = ElementMaker(namespace=NETCONF, nsmap={"nc": NETCONF})
_IF = ElementMaker(namespace=INTERFACES)
_PTP = ElementMaker(namespace=PTP, nsmap={None: PTP})
_LINUX = ElementMaker(namespace=TSN_LINUX, nsmap={None: TSN_LINUX})


def grandmaster(intent: Intent) -> str:
    """The switch that all follow."""
    return next(iter(intent.network.bridges))


def ports_of(intent: Intent, node: str) -> list[str]:
    """The ports of a node at which its ptp4l runs: all that have a cable."""
    return sorted(port.port for port in intent.network.links if port.node == node)


def instance(intent: Intent, node: str) -> Element:
    """The `<config>` that gives a node with an agent its PTP instance."""
    names = ports_of(intent, node)
    servo = {
        "proportional-constant": PROPORTIONAL_CONSTANT,
        "integral-constant": INTEGRAL_CONSTANT,
        "first-step-threshold": str(STEP_THRESHOLD_NS),
        "step-threshold": str(STEP_THRESHOLD_NS),
    }
    leaves = (_LINUX(name, value) for name, value in servo.items())
    ports = (
        _PTP.port(
            _PTP("port-index", str(number)),
            _PTP("underlying-interface", port),
            _PTP("port-ds", _PTP("delay-asymmetry", _interval(_asymmetry_ns(intent, node, port)))),
        )
        for number, port in enumerate(names, start=1)
    )
    return _NC.config(
        _IF.interfaces(*map(named_interface, names)),
        _PTP.ptp(
            _PTP.instances(
                _PTP.instance(
                    _PTP("instance-index", "0"),
                    _PTP("default-ds", _PTP.priority1(str(_priority1(intent, node)))),
                    _PTP.ports(*ports),
                    _LINUX.ptp4l(_LINUX.servo(*leaves)),
                )
            )
        ),
    )


def station_configuration(intent: Intent, station: str) -> str:
    """The configuration file of ptp4l on an end station without an agent: as an agent writes it for
    `instance`, and a line in the log for each second."""
    threshold_s = f"0.{STEP_THRESHOLD_NS:09}"
    options = {
        "time_stamping": "software",
        "domainNumber": 0,
        "priority1": _priority1(intent, station),
        "priority2": 248,
        "socket_priority": 7,
        "network_transport": "L2",
        "delay_mechanism": "P2P",
        "transportSpecific": "0x1",
        "ptp_dst_mac": "01:80:C2:00:00:0E",
        "logAnnounceInterval": 0,
        "logSyncInterval": -3,
        "syncReceiptTimeout": 3,
        "path_trace_enabled": 1,
        "follow_up_info": 1,
        "assume_two_step": 1,
        "neighborPropDelayThresh": 20_000_000,
        "min_neighbor_prop_delay": -20_000_000,
        "pi_proportional_const": PROPORTIONAL_CONSTANT,
        "pi_integral_const": INTEGRAL_CONSTANT,
        "first_step_threshold": threshold_s,
        "step_threshold": threshold_s,
        "summary_interval": 0,
    }
    lines = ["[global]", *(f"{name} {value}" for name, value in options.items())]
    for port in ports_of(intent, station):
        lines += [f"[{port}]", f"delayAsymmetry {_asymmetry_ns(intent, station, port)}"]
    return "\n".join([*lines, ""])


def _interval(interval_ns: int) -> str:
    """As ieee1588-ptp-tt has it: multiplied by 2^16."""
    return str(interval_ns << 16)


def _asymmetry_ns(intent: Intent, node: str, port: str) -> int:
    """How much longer a frame takes on the cable to a port than the mean of both ways (IEEE Std
    1588-2019, 7.4.2): the lab has it spend the processing time of a switch there, which hardware
    spends after the stamp. Between two switches that is the same both ways, unless one is slower:
    such a cable is asymmetric without their knowledge."""
    bridges = intent.network.bridges
    peer = intent.network.links[PortRef(node, port)].target.node
    if (node in bridges) == (peer in bridges):
        return 0
    half_ns = bridges[node if node in bridges else peer].processing_min_ns // 2
    return half_ns if node in bridges else -half_ns


def configure(lab: Lab) -> None:
    """Give every node with an agent its PTP instance, one after the other.

    Raises:
        DeviceError: a node refuses it.
    """
    for node in lab.intent.network.managed.values():
        if not ports_of(lab.intent, node.name):
            continue
        with netconf.Device(node, lab.connect) as device:
            device.lock("candidate")
            device.edit(instance(lab.intent, node.name))
            device.commit_confirmed(_COMMIT_S, _COMMIT)
            device.confirm(_COMMIT)
            device.unlock()


def management_socket(lab: Lab, node: str) -> Path:
    """At which socket the ptp4l of a node with an agent answers, on that node."""
    return lab.switch(node).agent_state / "ptp" / "0.socket"


def await_settled(lab: Lab, timeout_s: float = SETTLE_TIMEOUT_S) -> dict[str, str]:
    """Wait until all clocks have settled (docs/operate/clocks.md); what is wrong with those that
    have not when the time is over, by node."""
    deadline = time.monotonic() + timeout_s
    time.sleep(settled.SETTLED_S)
    waiting = dict(_unsettled(lab, [*lab.intent.network.managed, *_stations(lab.intent)]))
    while waiting and time.monotonic() < deadline:
        time.sleep(_POLL_S)
        waiting = dict(_unsettled(lab, [*waiting]))
    return waiting


def seconds_off_ns(log: Sequence[str]) -> list[int]:
    """How far a clock was from its time transmitter's in each second of the last ones of a ptp4l's
    log in which it followed without a gap, at most."""
    found: list[int] = []
    for line in reversed(log):
        if (match := _SECOND.search(line)) is None:
            break
        found.append(int(match[1]))
    return found[::-1]


def _priority1(intent: Intent, node: str) -> int:
    if node == grandmaster(intent):
        return GRANDMASTER_PRIORITY1
    return SWITCH_PRIORITY1 if node in intent.network.bridges else STATION_PRIORITY1


def _stations(intent: Intent) -> list[str]:
    """Those whose ptp4l is the lab's own."""
    network = intent.network
    return [node for node in network.end_stations if node not in network.managed]


def _unsettled(lab: Lab, nodes: Sequence[str]) -> Iterator[tuple[str, str]]:
    for node in nodes:
        if not ports_of(lab.intent, node):
            continue
        reason = _managed_unsettled if node in lab.intent.network.managed else _station_unsettled
        if text := reason(lab, node):
            yield node, text


def _managed_unsettled(lab: Lab, node: str) -> str | None:
    with netconf.Device(lab.intent.network.managed[node], lab.connect) as device:
        agent = device.state([SWITCH_PORT]).agent
    if agent is None or agent.clock is None:
        return "its agent does not say what keeps its clock"
    found = settled.trust(agent.clock, agent.tai_offset_s, lab.intent.network.clock_error_ns)
    return None if found.is_settled else found.text


def _station_unsettled(lab: Lab, node: str) -> str | None:
    tail = ["tail", "-n", str(settled.SETTLED_S), str(station_log(lab.directory))]
    shown = ask(lab.directory, node, tail).decode(errors="replace")
    offsets_ns = seconds_off_ns(shown.splitlines())
    if not offsets_ns:
        return "its ptp4l does not follow a grandmaster"
    figure = f"at most {duration(max(offsets_ns))} off in the last {len(offsets_ns)} s"
    if len(offsets_ns) < settled.SETTLED_S:
        return f"{figure}, of the {settled.SETTLED_S} s that it takes"
    allowed_ns = lab.intent.network.clock_error_ns
    if max(offsets_ns) > allowed_ns:
        return f"{figure}; the plan allows {duration(allowed_ns)}"
    return None


def station_log(directory: Path) -> Path:
    """What the ptp4l of an end station without an agent prints; `directory` is the lab's there."""
    return directory / STATION_LOG
