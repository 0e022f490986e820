"""A run through a lab with taps at all its ports."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from cnc.model import Plan, PortRef
from cnc.plans import file as planfile
from cnc.testbed.lab.running import Lab
from cnc.testbed.traffic import recording as records
from cnc.testbed.traffic.flows import flows, over_tcp
from cnc.testbed.traffic.recording import AnyFlow, Recording
from cnc.testbed.traffic.trace import account, circumstances
from cnc.testbed.traffic.trace.account import Account
from cnc.testbed.traffic.trace.cable_taps import CableTaps, refuse_jitter
from cnc.testbed.traffic.trace.circumstances import Circumstances
from cnc.testbed.traffic.trace.clocks import TrueTime
from cnc.testbed.traffic.trace.join import join
from cnc.testbed.traffic.trace.kernel_events import KernelEvents
from cnc.testbed.traffic.trace.kernel_trace import KernelTrace
from cnc.testbed.traffic.trace.segments import Probes
from cnc.testbed.traffic.trace.taps import TappedPort, Taps
from cnc.testbed.traffic.trace.ways import ways

_PLAN = "plan.json"


@dataclass(frozen=True, slots=True)
class Trace:
    """What was sent, all stamps of it, what passed each port, and, if asked for, what the kernel's
    events say of that.

    Stamps of `recording` are by the clocks of talkers and listeners, all else is in true time.
    """

    plan: Plan
    sent: Sequence[AnyFlow]
    recording: Recording
    taps: Mapping[PortRef, TappedPort]
    under: Circumstances
    events: KernelEvents | None = None

    @property
    def start_ns(self) -> int:
        """When the clock of the first switch showed the instant at which the run began: TAI, true
        time."""
        network = self.plan.intent.network
        first = next(iter([*network.bridges, *network.end_stations]))
        return self.under.clocks.of(first).true_ns(self.recording.start_ns)

    @property
    def true_time(self) -> TrueTime | None:
        """How far clocks were from true time; None: all nodes have one."""
        network = self.plan.intent.network
        return self.under.clocks.true_time([*network.bridges, *network.end_stations])

    @property
    def hops_max(self) -> int:
        """How many ports the longest way of a flow has."""
        return max((len(way) for flow in self.sent for way in ways(self.plan, flow)), default=0)

    def accounts(self) -> Iterator[Account]:
        """Where the time of each frame went, one for each copy, in the order of the recording.

        One at a time: together they take twenty times the room of what they are computed from.
        """
        routes = {flow.name: ways(self.plan, flow) for flow in self.sent}
        frames = self.under.clocks.in_true_time(self.recording, self.sent)
        rows = join(
            self.under.network,
            routes,
            self.sent,
            frames,
            self.taps,
            stamps_off_ns=self.under.stamps_off_ns,
        )
        return account.account(self.under, self.sent, rows, self.taps, self.events)


def record(
    lab: Lab,
    plan: Plan,
    sent: Sequence[AnyFlow],
    duration_ns: int,
    directory: Path,
    *,
    keep: bool = False,
    kernel: bool = False,
) -> Trace:
    """Send the flows as `traffic.recording.run` does, with all stamps, and tap every port of a
    lab of namespaces, all of which have one clock.

    `keep`: the trace has the first octets of each frame, so that it can be written as a capture.
    `kernel`: events of the kernel are recorded, too.

    Raises what `run` does, what `Taps` does, and with `kernel` what `KernelTrace` does.
    """
    with ExitStack() as stack:
        events = stack.enter_context(KernelTrace(lab)) if kernel else None
        links = plan.intent.network.links
        taps = stack.enter_context(Taps(lab, links, Probes(sent).of, keep=keep))
        recording = records.run(
            *(lab, sent, duration_ns, directory),
            stamps=True,
            deliveries=True,
            begun=taps.empty_from,
            listening=events.start if events else lambda _: None,
        )
        if events:
            events.stop()
        tapped = taps.read()
        found = events.read(tapped) if events else None
    under = circumstances.of_one_kernel(plan, timed_wires=lab.nodes.timed_wires)
    return Trace(plan, sent, recording, tapped, under, found)


def send(lab: Lab, plan: Plan, sent: Sequence[AnyFlow], duration_ns: int, directory: Path) -> None:
    """On the controller of a lab of kernels: send the flows, and leave in a directory what
    `record_kernels` reads.

    Raises what `cnc.testbed.traffic.recording.run` does.
    """
    records.run(lab, sent, duration_ns, directory, stamps=True, deliveries=True)
    planfile.dump(plan, directory / _PLAN)


def record_kernels(
    lab: Lab,
    sending: Callable[[], None],
    directory: Path,
    *,
    keep: bool = False,
    tcp: Sequence[str] = (),
) -> Trace:
    """On the machine that has started a lab of kernels: the trace of what `sending` has `send` send
    on the controller, with the results in `directory`, these flows over TCP. `keep`: as for
    `record`.

    Raises what `sending` does, what `CableTaps` does, and what `refuse_jitter` does.
    """
    refuse_jitter(lab.intent)
    with CableTaps(lab.intent.name) as taps:
        sending()
        plan = planfile.load(directory / _PLAN)
        sent = over_tcp(flows(plan), tcp)
        tapped = taps.read(Probes(sent).of, keep=keep)
        under = circumstances.of_own_kernels(plan, taps.clocks(tapped))
    return Trace(plan, sent, records.read(lab, sent, directory), tapped, under)
