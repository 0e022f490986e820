"""The PTP daemons of this network namespace: their configuration, and what they answer.

The agent may not set a clock. It writes what each ptp4l is to do into a file, and `tsn-clock`
(`agent.clock_service`), which may, runs a ptp4l for each file and writes what became of it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from agent import whole_file
from agent.composition import Contribution, KernelObject
from agent.kernel import ptp, timex, virtual_clocks
from agent.kernel.clock_monitor import ClockMonitor, ManagedClock
from agent.kernel.ethtool import Ethtool
from agent.kernel.ptp_management import (
    CurrentDataSet,
    DefaultDataSet,
    GptpPort,
    ManagementId,
    ParentDataSet,
    PortDataSet,
    TimePropertiesDataSet,
    ask,
)
from agent.mechanism import KernelAdapter, Node, Observation
from agent.mechanisms.clock import settled
from agent.mechanisms.clock.changes import changes
from agent.mechanisms.clock.rules import PtpDaemons, by_instance
from agent.model import AgentError, PortState, PtpStatus
from agent.ptp_daemons import files, status
from agent.ptp_daemons.files import Daemon, management_domain
from agent.ptp_daemons.model import (
    ClockState,
    Instance,
    InstancePort,
    InstanceReport,
    Membership,
    TimeStamping,
)

LOG = logging.getLogger(__name__)

# A ptp4l answers a few milliseconds after its start; sysrepo lets a subscriber take 5 s.
START_TIMEOUT_S = 3.0
START_POLL_S = 0.02
READABLE_FOR_ALL = 0o644
# The socket of a daemon is made in it by tsn-clock, which is in the agent's group.
DIRECTORY_MODE = 0o770

QUESTIONS = (
    ManagementId.DEFAULT_DATA_SET,
    ManagementId.CURRENT_DATA_SET,
    ManagementId.PARENT_DATA_SET,
    ManagementId.TIME_PROPERTIES_DATA_SET,
    ManagementId.PORT_DATA_SET,
    ManagementId.PORT_DATA_SET_NP,
)
OF_EACH_PORT = 2  # of these questions


class PtpDaemonAdapter(KernelAdapter):
    """The daemons of one network namespace, by the files in a directory.

    `shared_clock`: all switches of the network have the clock of this machine.
    """

    def __init__(self, directory: Path, *, shared_clock: bool = False) -> None:
        self._directory = directory
        self._shared_clock = shared_clock
        self._monitor = ClockMonitor()
        self._ignored: dict[Path, str] = {}
        # The interfaces of the ptp4l that keeps the clock, by port number, and what it said last
        # when that was observed.
        self._managed_ports: Mapping[int, str] = {}
        self._told: tuple[ManagedClock, PtpStatus] | None = None
        self._instances: Sequence[Instance] = ()
        self.objects = {PtpDaemons: self._replace}

    def read(self, states: Mapping[str, PortState]) -> dict[str, PortState]:
        """A file that cannot be read counts as none, so that the next change replaces it."""
        memberships: dict[str, list[Membership]] = {}
        daemons = self._daemons()
        self._instances = [daemon.instance for daemon in daemons]
        self._monitor.follow(self._managed_clock(daemons))
        for daemon in daemons:
            report = self._report(daemon)
            if self._monitor.clock and self._monitor.clock.instance == daemon.instance.index:
                self._managed_ports = dict(enumerate((name for name, _ in daemon.ports), start=1))
            for number, (name, port) in enumerate(daemon.ports, start=1):
                memberships.setdefault(name, []).append(
                    Membership(port, number, daemon.time_stamping, report, daemon.virtual_clock)
                )
        return {
            name: state.with_part(ClockState(tuple(memberships[name])))
            if name in memberships
            else state
            for name, state in states.items()
        }

    def observe(self, now_ns: int) -> Observation:  # noqa: ARG002
        """What ptp4l says otherwise than when it was last observed. While it does not answer
        nothing is known to have changed."""
        clock, status = self._monitor.clock, self._monitor.status
        if clock is None or status is None:
            return Observation()
        told, self._told = self._told, (clock, status)
        if told is None or told[0] != clock:
            return Observation()
        return Observation(tuple(changes(clock.instance, self._managed_ports, told[1], status)))

    def leaves(self) -> Node:
        """What the clock can be trusted with."""
        return {"clock": self._trust()}

    def ptp_status(self) -> PtpStatus | None:
        return self._monitor.status

    def unsettled(self, clock_error_ns: int) -> str | None:
        if self._shared_clock:
            return None
        if clock := self._monitor.clock:
            return settled.managed(clock.instance, self._monitor.measured(), clock_error_ns)
        # A ptp4l that the agent does not manage says more of the clock than the kernel does.
        if status := ptp.status():
            return settled.followed(status, clock_error_ns)
        try:
            return settled.unmanaged(timex.read())
        except OSError:
            return None  # a push is not refused, either, where the kernel cannot be asked

    def close(self) -> None:
        self._monitor.close()

    def _trust(self) -> Node:
        if self._shared_clock:
            return {"source": "shared"}
        if clock := self._monitor.clock:
            measured = self._monitor.measured()
            node: Node = {
                "source": "managed",
                "instance": clock.instance,
                "domain": clock.domain.number,
                "measured-seconds": measured.seconds,
            }
            if others := [each for each in self._instances if each.index != clock.instance]:
                node["other-instance"] = [
                    {"instance": each.index, "domain": each.domain} for each in others
                ]
            if measured.offset_max_ns is not None:
                node["offset-max-ns"] = str(measured.offset_max_ns)
            return node
        node = {"source": "unmanaged"}
        with suppress(OSError):
            node["synchronised"] = timex.read().synchronised
        return node

    def _managed_clock(self, daemons: Sequence[Daemon]) -> ManagedClock | None:
        """The one that sets the clock; the others only measure."""
        for daemon in daemons:
            if not daemon.instance.free_running:
                index = daemon.instance.index
                address = str(files.socket_address(self._directory, index))
                return ManagedClock(index, address, management_domain(daemon.instance))
        return None

    def _daemons(self) -> list[Daemon]:
        daemons = []
        for file in self._directory.glob("*.conf"):
            try:
                with file.open("rb") as opened:
                    daemons.append(files.decode(opened.read(files.MAX_FILE_OCTETS)))
            except FileNotFoundError:
                continue
            # RecursionError: brackets nested a thousand deep.
            except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as e:
                if self._ignored.get(file) != repr(e):
                    LOG.warning("%s is ignored and will be replaced: %r", file, e)
                self._ignored[file] = repr(e)
        return sorted(daemons, key=lambda daemon: daemon.instance.index)

    def _report(self, daemon: Daemon) -> InstanceReport:
        index = daemon.instance.index
        address = str(files.socket_address(self._directory, index))
        single: dict[type, Any] = {}
        ports: dict[int, PortDataSet] = {}
        gptp_ports: dict[int, GptpPort] = {}
        with suppress(OSError):
            for answer in ask(address, [management_domain(daemon.instance)], QUESTIONS):
                match answer:
                    case PortDataSet():
                        ports[answer.port_number] = answer
                    case GptpPort():
                        gptp_ports[answer.port_number] = answer
                    case _:
                        single[type(answer)] = answer
                if len(single) == len(QUESTIONS) - OF_EACH_PORT and len(ports) == len(
                    gptp_ports
                ) == len(daemon.ports):
                    break
        return InstanceReport(
            single.get(DefaultDataSet),
            single.get(CurrentDataSet),
            single.get(ParentDataSet),
            single.get(TimePropertiesDataSet),
            ports,
            gptp_ports,
            failure=None if single else self._failure(index),
        )

    def _failure(self, index: int) -> str:
        if not status.is_locked(self._directory):
            return status.NOT_SUPERVISED
        found = status.read(files.status_file(self._directory, index))
        return (found.failure if found else None) or "it does not answer"

    def _replace(
        self,
        _target: KernelObject,
        before: Sequence[Contribution],
        after: Sequence[Contribution],
    ) -> None:
        """Start, restart and stop the daemons that change; a refused one takes back the others.

        A restart leaves the clock at the frequency that it had, and ptp4l begins with that: a
        schedule goes on.
        """
        old, new = by_instance(before), by_instance(after)
        changing = [
            index for index in sorted(old.keys() | new.keys()) if old.get(index) != new.get(index)
        ]
        if any(index in new for index in changing) and not status.is_locked(self._directory):
            raise AgentError(f"PTP instance {changing[0]}: {status.NOT_SUPERVISED}")
        self._directory.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
        contents = {each: self._content(each) for each in changing}
        try:
            for index in changing:
                self._set(index, new.get(index))
        except (AgentError, OSError):
            for index, content in contents.items():
                self._write(index, content)
            raise

    def _set(self, index: int, ports: Mapping[str, InstancePort] | None) -> None:
        if ports is None:
            self._write(index, None)
            return
        instance = next(iter(ports.values())).instance
        stamping, clocks = _time_stamping(instance, list(ports))
        virtual_clock = None
        if stamping is TimeStamping.HARDWARE:
            virtual_clock = self._virtual_clock(index, clocks)
        daemon = Daemon(instance, stamping, tuple(ports.items()), virtual_clock)
        content = files.encode(daemon)
        self._write(index, content)
        self._wait_for(index, files.digest(content))

    def _virtual_clock(self, index: int, clocks: Mapping[str, int]) -> int | None:
        """The one that an instance is to steer, of those of its ports' clock that no other instance
        steers; None where that has none. `AgentError` where it has, and the instance gets none."""
        virtual = {clock: virtual_clocks.of(clock) for clock in clocks.values()}
        if not any(virtual.values()):
            return None
        where = f"PTP instance {index}"
        if len(virtual) > 1:
            each = ", ".join(f"{name} (/dev/ptp{clock})" for name, clock in clocks.items())
            raise AgentError(
                f"{where}: its ports have several clocks, {each}, and one of them has virtual "
                "clocks, of which an instance steers one: have one instance for each network card, "
                "or write 0 into n_vclocks"
            )
        ((clock, numbers),) = virtual.items()
        taken = {
            daemon.virtual_clock: daemon.instance.index
            for daemon in self._daemons()
            if daemon.instance.index != index
        }
        for number in numbers:
            if number not in taken:
                return number
        by = ", ".join(str(taken[number]) for number in numbers)
        raise AgentError(
            f"{where}: each virtual clock of /dev/ptp{clock} belongs to another instance ({by}), "
            "and while there are any the kernel refuses to set that clock itself (Device or "
            f"resource busy): write {len(numbers) + 1} into /sys/class/ptp/ptp{clock}/n_vclocks"
        )

    def _content(self, index: int) -> bytes | None:
        with suppress(FileNotFoundError):
            return files.configuration_file(self._directory, index).read_bytes()
        return None

    def _write(self, index: int, content: bytes | None) -> None:
        file = files.configuration_file(self._directory, index)
        if content is None:
            file.unlink(missing_ok=True)
        else:
            # After a power cut the agent writes it again, from the startup configuration.
            whole_file.replace(file, content, durable=False, mode=READABLE_FOR_ALL)

    def _wait_for(self, index: int, digest: str) -> None:
        """Until the daemon of this configuration answers; `AgentError` with its own reason."""
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline_s:
            found = status.read(files.status_file(self._directory, index))
            if found and found.configuration == digest:
                if found.failure:
                    raise AgentError(f"PTP instance {index}: ptp4l does not run: {found.failure}")
                if found.running:
                    return
            time.sleep(START_POLL_S)
        raise AgentError(
            f"PTP instance {index}: ptp4l does not answer within {START_TIMEOUT_S:g} s; its log "
            "says why (journalctl -u tsn-clock)"
        )


def _time_stamping(
    instance: Instance, ports: Sequence[str]
) -> tuple[TimeStamping, Mapping[str, int]]:
    """What is asked for; else the hardware's, where all ports have it; and the hardware clocks of
    ports that have one. `AgentError` where the driver of a port has no such stamps."""
    ethtool = Ethtool()
    try:
        abilities = {name: ethtool.time_stamping(name) for name in ports}
    finally:
        ethtool.close()
    wanted = instance.time_stamping or (
        TimeStamping.HARDWARE
        if all(each.hardware_clock is not None for each in abilities.values())
        else TimeStamping.SOFTWARE
    )
    for name, each in abilities.items():
        able = each.in_software if wanted is TimeStamping.SOFTWARE else each.hardware_clock
        if able in (False, None):
            raise AgentError(
                f"port {name}: PTP instance {instance.index}: its driver has no {wanted} time "
                f"stamps (ethtool -T {name})"
            )
    clocks = {name: each.hardware_clock for name, each in abilities.items()}
    return wanted, {name: clock for name, clock in clocks.items() if clock is not None}
