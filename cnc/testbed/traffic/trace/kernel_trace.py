"""Events of the kernel of a lab while its frames are sent, from an instance of its tracing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from cnc.errors import InputError
from cnc.model import PortRef
from cnc.testbed.lab import namespaces, wires
from cnc.testbed.lab.running import Lab
from cnc.testbed.traffic.trace import trace_text
from cnc.testbed.traffic.trace.kernel_events import KernelEvents
from cnc.testbed.traffic.trace.taps import TappedPort
from cnc.testbed.traffic.trace.tracefs import TracingInstance


class KernelTrace:
    """Use as a context manager around a run, and `start`, `stop` and `read` within it.

    Raises:
        InputError: the kernel cannot, or the cables of the lab have no interfaces of their own, or
            those of another lab have the same names.
        CncError: the kernel refused a setting.
    """

    def __init__(self, lab: Lab) -> None:
        network = lab.intent.network
        self._ports = {name: port for port, name in wires.interfaces(network).items()}
        self._switch_ports = sorted(
            {port.port for port in network.links if port.node in network.bridges}
        )
        if not lab.nodes.timed_wires:
            raise InputError(
                "--kernel: the cables of this lab take no time, so no event tells its ports apart",
                hint="`cnc lab up --wires timed`",
            )
        if both := self._ports.keys() & set(self._switch_ports):
            raise InputError(
                f"--kernel: a port is called {min(both)}, as the interface of a cable is",
                hint="rename the node that it leads to",
            )
        others = {
            home.name
            for home in namespaces.NETNS_DIRECTORY.glob(namespaces.of_wires("*"))
            if home.name != namespaces.of_wires(lab.intent.name)
        }
        if others:
            raise InputError(
                "--kernel: another lab is up, and events do not say of which lab they are: "
                f"namespace {min(others)}",
                hint="`cnc lab down` it first",
            )
        self._instance = TracingInstance(f"tsn-{lab.intent.name}", trace_text.EVENTS)
        self._programs: Mapping[str, int] = {}

    def __enter__(self) -> KernelTrace:
        self._instance.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._instance.__exit__()

    def start(self, programs: Mapping[str, int]) -> None:
        """Record from now on; `programs` are the listeners' processes, by node."""
        self._programs = programs
        processes = sorted(programs.values())
        self._instance.start(
            {
                trace_text.NET_DEV_QUEUE: _any_of("name", self._switch_ports),
                trace_text.NETIF_RX: 'name ~ "w*"',
                trace_text.SCHED_WAKING: _any_of("pid", processes),
                trace_text.SCHED_SWITCH: " || ".join(
                    _any_of(field, processes) for field in ("prev_pid", "next_pid")
                ),
            }
        )

    def stop(self) -> None:
        """Record no more; raises CncError if events are missing."""
        self._instance.stop()

    def read(self, taps: Mapping[PortRef, TappedPort]) -> KernelEvents:
        """What was recorded, joined with what the taps saw.

        Raises:
            CncError: the kernel's trace cannot be read.
        """
        ids = {self._instance.id_of(event): event for event in trace_text.EVENTS}
        with self._instance.opened(raw=True) as lines:
            stamps = trace_text.Stamps(lines, ids)
        with self._instance.opened(raw=False) as lines:
            events = trace_text.events(stamps, lines)
            return KernelEvents(events, self._ports, self._programs, taps)


def _any_of(field: str, values: Iterable[str | int]) -> str:
    """A filter for events of which a field has one of these values."""
    quoted = (f'"{each}"' if isinstance(each, str) else str(each) for each in values)
    return " || ".join(f"{field} == {each}" for each in quoted)
