"""By which ways bridges forward streams, and what talkers send to: of which schedule is that?"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path

from agent.kernel.ports import KernelPorts
from agent.mechanisms import mechanisms
from agent.mechanisms.forwarding.model import ForwardingState
from agent.model import PortState
from agent.switch import Switch
from cnc.mechanisms.composition import bridge_forwardings
from cnc.model import Forwarding, Plan, StreamAddress
from cnc.talker import OffsetFile
from cnc.testbed.lab import Lab
from cnc.testbed.lab.namespaces import inside
from tests.fault.kernels import Side

Entry = tuple[str, StreamAddress, str]
# Of a whole line: where one is cut, VLAN 10 is VLAN 1.
_ENTRY = re.compile(r"port (\S+) grp ([0-9a-f:]{17}) .*vid (\d+).*\n")


def planned(plan: Plan) -> set[Entry]:
    """The filtering entries of a plan: switch, address and port."""
    return {
        (switch, address, port)
        for switch, its in bridge_forwardings(plan).items()
        for address, ports in its.entries.items()
        for port in ports
    }


States = Mapping[str, Mapping[str, PortState]]


def states(lab: Lab) -> States:
    """The ports of all switches as their kernels have them now, by switch and port."""
    return {
        name: inside(lab.namespace(name), partial(_read, lab.switch(name).agent_state))
        for name in lab.intent.network.bridges
    }


def side(lab: Lab, found: States, old: Plan, new: Plan) -> Side:
    """Whose entries all bridges have, and whose addresses all talkers."""
    entries, addresses = _entries(found, old), _addresses(lab, old)
    for its_side, plan in ((Side.OLD, old), (Side.NEW, new)):
        if entries == planned(plan) and addresses == plan.addresses:
            return its_side
    return Side.NEITHER


def _entries(found: States, plan: Plan) -> set[Entry]:
    return {
        (name, StreamAddress(address.mac.replace("-", ":").lower(), address.vlan_id), port)
        for name, bridge in plan.intent.network.bridges.items()
        for address, port in found[name][bridge.bridge_device][ForwardingState].table.entries
    }


def _read(agent_state: Path) -> Mapping[str, PortState]:
    with closing(KernelPorts(mechanisms(agent_state))) as opened:
        return Switch(opened).read()


def _addresses(lab: Lab, plan: Plan) -> dict[str, StreamAddress]:
    """What is published to send the streams to."""
    found = {}
    for station in plan.intent.network.end_stations:
        for tables in OffsetFile(lab.offsets_file(station)).offsets().interfaces.values():
            table = tables.pending or tables.running
            for (name, _), its in (table.streams if table else {}).items():
                if its.destination_mac is not None and its.vlan_id is not None:
                    found[name] = StreamAddress(its.destination_mac, its.vlan_id)
    return found


class EntryLog:
    """What `bridge monitor` says of every bridge's entries, from `with` to its end."""

    def __init__(self, lab: Lab, plan: Plan) -> None:
        self._lab = lab
        self._is_bridged = plan.intent.network.forwarding is Forwarding.BRIDGED
        self._files: dict[str, Path] = {}

    @contextmanager
    def open(self) -> Iterator[EntryLog]:
        with ExitStack() as stack:
            for name in self._lab.intent.network.bridges if self._is_bridged else ():
                file = self._files[name] = self._lab.directory / f"{name}.entries"
                log = stack.enter_context(file.open("w"))
                # Left to itself it writes 4,096 octets at a time, rows later.
                line_by_line = ["stdbuf", "--output=L", "bridge", "monitor", "mdb"]
                command = self._lab.command(name, line_by_line)
                monitor = subprocess.Popen(command, stdout=log)
                stack.callback(monitor.wait)
                stack.callback(monitor.kill)
            yield self

    def strays(self, *plans: Plan) -> set[Entry]:
        """The entries that any bridge has had and none of the plans has: each plan has one tree for
        an address, and no address in common with the other, so that others only could close a
        circle."""
        seen = {
            (name, address, port)
            for name, file in self._files.items()
            for address, port in told(file.read_text())
        }
        return seen - set().union(*map(planned, plans))


def told(log: str) -> set[tuple[StreamAddress, str]]:
    """The entries of which `bridge monitor` has told, by address and port."""
    return {(StreamAddress(mac, int(vlan_id)), port) for port, mac, vlan_id in _ENTRY.findall(log)}
