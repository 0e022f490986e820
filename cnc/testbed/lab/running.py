"""A lab that is up: connection details of its switches, and fault injection."""

from __future__ import annotations

import contextlib
import signal
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pyroute2 import IPRoute

from cnc.data_tree.tree import GatesReport, TalkerReport
from cnc.errors import CncError, InputError
from cnc.model import Intent, Management
from cnc.support.lazy import lazy_import
from cnc.switch.node import ManagedNode
from cnc.switch.options import ConnectOptions
from cnc.testbed.lab import management, namespaces, rehearsed
from cnc.testbed.lab.kernels import beside, own
from cnc.testbed.lab.namespaced import Namespaces
from cnc.testbed.lab.process import handles, stop
from cnc.testbed.lab.substrate import Substrate
from cnc.testbed.lab.switch import PROGRAMS, Switch

if TYPE_CHECKING:
    from cnc.switch import device as netconf
else:
    netconf = lazy_import("cnc.switch.device")  # no end station of a lab of kernels needs it

READY_TIMEOUT_S = 180.0  # an emulated processor imports for a minute
POLL_INTERVAL_S = 0.05
WAKE_UP_PROBE = "tsn-wake-ups"  # on which an agent measures its kernel's timers


@dataclass(frozen=True, slots=True)
class Lab:
    """A running lab: connection details for a controller, and fault injection."""

    intent: Intent
    directory: Path

    @property
    def identity(self) -> Path:
        """The client's private key."""
        return self.directory / "client-key"

    @property
    def known_hosts(self) -> Path:
        """The switches' host keys, in OpenSSH's format."""
        return self.directory / "known_hosts"

    @property
    def connect(self) -> ConnectOptions:
        """How `cnc.switch` reaches the switches."""
        return ConnectOptions(self.identity, self.known_hosts)

    def namespace(self, node: str) -> str:
        return namespaces.of_node(self.intent.name, node)

    def switch(self, name: str) -> Switch:
        links = self.intent.network.links
        rates_bps = {ref.port: link.rate_bps for ref, link in links.items() if ref.node == name}
        return Switch(name, self.namespace(name), self.directory / name, rates_bps)

    def offsets_file(self, station: str) -> Path:
        """Where the agent of an end station tells its talkers when to send."""
        return self.switch(station).agent_state / "offsets.json"

    @property
    def nodes(self) -> Substrate:
        """The nodes, as they are reached from here."""
        return substrate_of(self.intent.name, self.directory)

    def command(self, node: str, argv: Sequence[str]) -> list[str]:
        """The command line that runs `argv` on a node."""
        return self.nodes.command(node, argv)

    def kill(self, switch: str, program: str) -> None:
        """End a program of a switch by SIGKILL: no chance to clean up."""
        pid = self.switch(switch).pid(program)
        if pid is not None:
            stop({pid: self.namespace(switch)}, signal.SIGKILL)

    def start(self, switch: str, program: str) -> int:
        """Start a program of a switch that is not running; returns its process id."""
        return self.switch(switch).start(
            program, management_of(self.intent, switch), self.identity.with_suffix(".pub")
        )

    @contextlib.contextmanager
    def quiet(self) -> Iterator[None]:
        """Stop the switches' programs for the time of a `with` block; the kernels go on.

        Programs that wake during the traffic would delay it, and differently in each run. So would
        the frames by which agents measure timers, some of which they have sent ahead.
        """
        programs = {
            pid: self.namespace(name)
            for name in self.intent.network.managed
            for program in PROGRAMS
            if (pid := self.switch(name).pid(program)) is not None
        }
        with handles(programs) as stopped:
            try:
                for handle in stopped:
                    signal.pidfd_send_signal(handle, signal.SIGSTOP)
                self._set_wake_up_probes("down")
                yield
            finally:
                self._set_wake_up_probes("up")
                for handle in stopped:
                    signal.pidfd_send_signal(handle, signal.SIGCONT)

    def _set_wake_up_probes(self, state: str) -> None:
        """An interface that goes down drops what waits in its queue."""

        def set_here() -> None:
            with IPRoute() as ip:
                for index in ip.link_lookup(ifname=WAKE_UP_PROBE):
                    ip.link("set", index=index, state=state)

        for name in self.intent.network.managed:
            namespaces.inside(self.namespace(name), set_here)

    def link_down(self, switch: str) -> None:
        """Set a switch's management link down: packets are lost both ways, no connection is
        reset."""
        management.set_link(self.intent.name, switch, "down")

    def link_up(self, switch: str) -> None:
        """Set a switch's management link up; connections that waited continue."""
        management.set_link(self.intent.name, switch, "up")

    def wait_ready(self, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Wait until the agent of every managed node answers through its NETCONF server.

        Raises:
            CncError: a program ended, or the time-out expired; the message has the logs' last
            lines.
        """
        deadline = time.monotonic() + timeout_s
        for node in self.intent.network.managed.values():
            switch = self.switch(node.name)
            while (reason := _unreachable(node, self.connect)) is not None:
                pids = self.nodes.pids(node.name)
                ended = [program for program, pid in pids.items() if pid is None]
                if ended or time.monotonic() > deadline:
                    cause = f"{ended[0]} ended" if ended else f"{timeout_s:.0f} s: {reason}"
                    described = self.intent.network.described(node.name)
                    raise CncError(
                        f"{described} did not come up: {cause}\n{switch.log_tail()}",
                        hint="the last lines of its logs are above; is this kernel one with "
                        "sch_taprio? scripts/vm runs a command in one",
                    )
                time.sleep(POLL_INTERVAL_S)

    def pending_ns(self) -> int:
        """How long until the last schedule that a switch's kernel has accepted begins; 0: all run.

        A switch that does not answer is left out.
        """
        starts_ns = [0]
        for node in self.intent.network.managed.values():
            ports = [ref.port for ref in self.intent.network.links if ref.node == node.name]
            with (
                contextlib.suppress(netconf.DeviceError),
                netconf.Device(node, self.connect) as device,
            ):
                reports = device.state(ports).ports.values()
                waiting = (
                    each[GatesReport].pending or each[TalkerReport].pending for each in reports
                )
                starts_ns += [schedule.base_time_ns for schedule in waiting if schedule]
        return max(0, max(starts_ns) - time.clock_gettime_ns(time.CLOCK_TAI))

    def clocks_unsettled(self) -> Mapping[str, str]:
        """Why clocks of nodes had not settled when the lab was up, by node; none of them can be
        where all nodes have one clock."""
        return own.clocks_unsettled(self.directory) if own.is_written(self.directory) else {}

    def gates_refused(self) -> str | None:
        """Why no switch of the lab can run a gate control list, as an agent reports it.

        None: all can, or none answers. One reply is enough, since all share one kernel.
        """
        for bridge in self.intent.network.bridges.values():
            with (
                contextlib.suppress(netconf.DeviceError),
                netconf.Device(bridge, self.connect) as device,
            ):
                if agent := device.state([management.SWITCH_PORT]).agent:
                    return agent.refused.get("gates")
        return None


def substrate_of(lab: str, directory: Path) -> Substrate:
    """The nodes of a lab with this directory."""
    if own.is_written(directory):
        return own.OwnKernels(lab, directory)
    if rehearsed.is_written(directory):
        return rehearsed.Rehearsed(lab, directory)
    if beside.is_written(directory):
        return beside.KernelsBeside(lab, directory)
    return Namespaces(lab, directory)


def management_of(intent: Intent, node: str) -> Management:
    management = intent.network.managed[node].management
    if management is None:
        raise InputError(
            f"switch {node} has no management address",
            hint="give the switch `management: ADDRESS` in the intent file",
        )
    return management


def _unreachable(node: ManagedNode, connect: ConnectOptions) -> str | None:
    """Why a switch's agent does not answer yet; None if it does."""
    endpoint = node.management
    if endpoint is None:
        return "no management address"
    # An SSH session is expensive: open one only where a server listens.
    try:
        socket.create_connection((endpoint.address, endpoint.port), timeout=1).close()
    except OSError as error:
        return str(error)
    try:
        with netconf.Device(node, connect) as device:
            agent = device.state([management.SWITCH_PORT]).agent
    except netconf.DeviceError as error:
        return str(error)
    return "no agent behind the NETCONF server" if agent is None else None
