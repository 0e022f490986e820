"""Three rehearsed switches, of which one is behind a link that holds an RPC and delivers it later.

Agents, sysrepo and NETCONF servers are real, the ports are in memory: what they run at which
instant is read from what each change has left there, not sampled.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Address
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from tempfile import TemporaryDirectory

from agent.mechanisms.gates.model import GateState
from cnc.model import NS_PER_S, Management, Plan, PortRef
from cnc.planner import plan as compute
from cnc.plans import file as planfile
from cnc.rollout import unresolved
from cnc.rollout.history import History
from tests.fault.director import Direction, Director
from tests.fault.kernels import Gates, Side, Sides, Snapshot
from tests.fault.late_table import Case, LateRow
from tests.fault.link import HoldingLink
from tests.fault.moments import Moment, base_time_since, rollouts_in
from tests.fault.processes import CONTROLLER, Command, Processes
from tests.fault.table import Recovery
from tests.scale.inspection import Inspector, inspector
from tests.scale.kernel_on_disk import Moment as Left
from tests.scale.line import line
from tests.scale.orders import AGENT
from tests.scale.simulation import OPERATOR, Simulation, simulated_switches

SWITCHES = 3
# In name order, in which switches are locked, there is one before it and one after it.
STRUCK = "s2"
PAYLOADS_OCTETS = (200, 400)
# The link has another address than the switch, which others reach beside it.
LINK_ADDRESS_OFFSET = 0x100
# Of the controller's requests before the commit; the default of 30 s would only take longer.
REPLY_TIMEOUT_S = 10
# No switch waits less for the confirmation of a commit.
SHORTEST_WAIT_NS = 3 * NS_PER_S
AFTER_END_S = 0.5
PUSH_TIMEOUT_S = 180
CHOICES_MAX = 3
# Without a change for so long: what was delivered has been carried out.
CALM_S = 1.5
# A base time is up to 28 times the slowest answer ahead.
REST_TIMEOUT_S = 240
POLL_S = 0.02
# Longer than any hold, also on a busy machine: a switch that has ended the session hears of no
# commit. By default a server waits 10 s for a client, which is more than a hold on a quiet one.
PEER_TIMEOUT_S = 300
TOO_LATE = "the commit comes too late"


class Unusable(Exception):
    """The network does not take a rollout that nothing disturbs."""


@dataclass(frozen=True, slots=True)
class _Push:
    """How a push ended: its steps, and of what was held when it was held and delivered, and for
    which base time (TAI), if one was chosen by then."""

    exit_status: int
    steps: Sequence[str]
    held_ns: int | None = None
    delivered_ns: int | None = None
    base_time_ns: int | None = None
    has_held: bool = False


@dataclass
class LateBench:
    """The network, and the controllers beside it. `until_ns` is the instant (TAI) until which the
    rows so far have looked at it."""

    simulation: Simulation
    link: HoldingLink
    at: Management
    director: Director
    seen: Inspector
    directory: Path
    sides: Sides
    processes: Processes = field(default_factory=Processes)
    until_ns: int = 0

    def steps(self) -> list[str]:
        """The RPCs of a push from either schedule to the other, as the controller comes to them."""
        self._undisturbed(self.sides.old)
        there = self._undisturbed(self.sides.new)
        back = self._undisturbed(self.sides.old)
        return [step for step in there if step in back and _is_rpc(step)]

    def row(self, case: Case) -> LateRow:
        """Push the schedule that does not run, and see what comes of it."""
        refusals_before = self._refusals()
        pushed = self._push(self.sides.new, case)
        recovery = self._recover(case.choice)
        is_at_rest = self._await_rest()
        begin_ns, end_ns = self.until_ns, now_ns()
        snapshots = self._snapshots(begin_ns)
        at_end = _by(snapshots[-1], end_ns)
        ports = list(self.sides.at_rest(at_end).values())
        self.until_ns = end_ns
        return LateRow(
            number=case.number,
            step=case.step,
            way=case.way,
            moment=case.moment,
            has_held=pushed.has_held,
            is_in_time=self._is_in_time(case.moment, pushed, snapshots),
            delivered_ns=pushed.delivered_ns - pushed.base_time_ns
            if pushed.delivered_ns and pushed.base_time_ns
            else None,
            has_committed="cnc: before commit confirmed" in pushed.steps,
            struck_took_it=any(
                self._newest(snapshot, STRUCK) is Side.NEW for snapshot in snapshots[1:]
            ),
            struck_refused_it=self._refusals() > refusals_before,
            controller_exit=pushed.exit_status,
            recovery=recovery,
            is_at_rest=is_at_rest,
            ports_on_old=ports.count(Side.OLD),
            ports_on_new=ports.count(Side.NEW),
            ports_on_neither=ports.count(Side.NEITHER),
            rollout_ids=len(self.seen.rollout_ids()),
            mixed_ns=self.sides.mixed_ns(snapshots, end_ns),
        )

    def log(self) -> str:
        """What the controllers have said."""
        return self._log.read_text()

    def go_on_after(self, row: LateRow) -> None:
        """Take the schedule that runs for the old one."""
        if row.outcome == Side.NEW:
            self.sides = Sides(self.sides.new, self.sides.old)

    def _undisturbed(self, plan: Plan) -> Sequence[str]:
        pushed = self._push(plan)
        if pushed.exit_status != 0 or not self._await_rest():
            raise Unusable(f"a push that nothing disturbed failed:\n{self.log()}")
        self.until_ns = now_ns()
        return pushed.steps

    def _push(self, plan: Plan, case: Case | None = None) -> _Push:
        planfile.dump(plan, self._plan_file)
        rollouts_before = rollouts_in(self._history)
        held: Future[int] = Future()

        def strike() -> None:
            if case:
                self.link.hold(case.way)
                held.set_result(now_ns())

        direction = Direction(case.step if case else None, strike)
        with self.director.directing(direction):
            controller = self._controller("push", str(self._plan_file), probed=True)
            if case is None:
                return _Push(_exit_status(controller), direction.steps)
            while not held.done() and controller.exitcode is None:
                controller.join(POLL_S)
            if not held.done():
                return _Push(_exit_status(controller), direction.steps)
            if case.moment is Moment.AFTER_END:
                _exit_status(controller)
                time.sleep(AFTER_END_S)
            base_time_ns = base_time_since(self._history, rollouts_before)
            instant_ns = case.moment.instant_ns(held.result(), base_time_ns)
            time.sleep(max(0, instant_ns - now_ns()) / NS_PER_S)
            delivered_ns = now_ns()
            has_held = self.link.release()
            return _Push(
                _exit_status(controller),
                direction.steps,
                held_ns=held.result(),
                delivered_ns=delivered_ns,
                base_time_ns=base_time_ns,
                has_held=has_held,
            )

    def _is_in_time(
        self,
        moment: Moment,
        pushed: _Push,
        snapshots: Sequence[Snapshot],
    ) -> bool:
        if pushed.held_ns is None or pushed.delivered_ns is None:
            return False
        if moment is Moment.BEFORE_REVERT:
            return pushed.delivered_ns - pushed.held_ns < SHORTEST_WAIT_NS
        if moment is Moment.AFTER_END or pushed.base_time_ns is None:
            return True
        if moment is Moment.AFTER_BASE_TIME:
            return pushed.delivered_ns > pushed.base_time_ns
        # Whoever reverts has done so.
        before = [s for s in snapshots if _read_ns(s) <= pushed.delivered_ns][-1]
        reverted = [
            name
            for name in self.simulation.switches
            if self._newest(snapshots[-1], name) is Side.OLD
        ]
        return pushed.delivered_ns < pushed.base_time_ns and all(
            self._newest(before, name) is Side.OLD for name in reverted
        )

    def _newest(self, snapshot: Snapshot, switch: str) -> Side:
        """The side of the newest lists of a switch, which may wait for their base time."""
        sides = {
            self.sides.of(port, gates.pending or gates.running)
            for port, gates in snapshot.items()
            if port.node == switch
        }
        return sides.pop() if len(sides) == 1 else Side.NEITHER

    def _refusals(self) -> int:
        """How many commits were too late for the struck switch's agent."""
        return self.simulation.switches[STRUCK].log(AGENT).count(TOO_LATE)

    def _recover(self, choice: Recovery) -> Recovery:
        """Choose, if an operator has to, and again if that fails: on a busy machine, or as the
        session that was held keeps its locks until its end has been delivered."""
        managed = self.sides.new.intent.network.managed.values()
        made = Recovery.NONE
        for _ in range(CHOICES_MAX):
            with History(self._history) as history:
                if not unresolved(managed, history):
                    break
            made = choice
            if _exit_status(self._controller("push", f"--{choice}")):
                self._await_idle_link()
        return made

    def _await_idle_link(self) -> None:
        give_up_s = time.monotonic() + REST_TIMEOUT_S
        while not self.link.is_idle and time.monotonic() < give_up_s:
            time.sleep(CALM_S / 4)

    def _await_rest(self) -> bool:
        """Wait until nothing changes any more; returns whether it came to that."""
        give_up_s = time.monotonic() + REST_TIMEOUT_S
        calm_since_s, before = time.monotonic(), self._count()
        while time.monotonic() < give_up_s:
            if not self._is_resting() or self._count() != before:
                calm_since_s, before = time.monotonic(), self._count()
            elif time.monotonic() - calm_since_s >= CALM_S:
                return True
            time.sleep(CALM_S / 4)
        return False

    def _is_resting(self) -> bool:
        at = now_ns()
        waits = any(gates.pending for gates in _by(self._snapshots(at)[-1], at).values())
        return (
            self.link.is_idle
            and not waits
            and self.seen.held() is None
            and self.seen.lists_if_they_agree() is not None
        )

    def _count(self) -> list[int]:
        """What tells whether a kernel has changed since."""
        return [moments[-1].tai_ns for moments in self._moments().values()]

    def _moments(self) -> dict[str, Sequence[Left]]:
        return {name: each.kernel.moments for name, each in self.simulation.switches.items()}

    def _snapshots(self, since_ns: int) -> list[Snapshot]:
        """All ports at `since_ns`, and as each change since has left them."""
        moments = self._moments()
        first: dict[PortRef, Gates] = {}
        for name, its in moments.items():
            last = [each for each in its if each.tai_ns <= since_ns][-1]
            first |= _by(_gates(name, last), since_ns)
        snapshots: list[Snapshot] = [first]
        changes = ((each.tai_ns, name, each) for name, its in moments.items() for each in its)
        for tai_ns, name, left in sorted(changes, key=lambda change: change[:2]):
            if tai_ns > since_ns:
                snapshots.append({**snapshots[-1], **_gates(name, left)})
        return snapshots

    def _controller(self, *arguments: str, probed: bool = False) -> ForkServerProcess:
        environment = {
            "CNC_IDENTITY": str(self.simulation.connect.identity),
            "CNC_KNOWN_HOSTS": str(self.directory / "known_hosts"),
            "CNC_STATE_DIR": str(self._history.parent),
        }
        return self.processes.start(
            Command(
                [CONTROLLER, *arguments, "--timeout", str(REPLY_TIMEOUT_S)],
                environment=environment,
                log=self._log,
                director=self.director.path if probed else None,
                struck=STRUCK,
                struck_address=self.at.address,
            )
        )

    @property
    def _plan_file(self) -> Path:
        return self.directory / "plan.json"

    @property
    def _history(self) -> Path:
        return self.directory / "history" / "history.sqlite"

    @property
    def _log(self) -> Path:
        return self.directory / "controller.log"


@contextmanager
def late_bench() -> Iterator[LateBench]:
    """The network, up, for the time of a `with` block."""
    with (
        simulated_switches(SWITCHES, PEER_TIMEOUT_S) as simulation,
        TemporaryDirectory() as scratch,
    ):
        directory = Path(scratch)
        there = simulation.switches[STRUCK].chassis.management
        at = replace(there, address=str(IPv4Address(there.address) + LINK_ADDRESS_OFFSET))
        (directory / "known_hosts").write_text(_known_hosts(simulation, there, at))
        with (
            HoldingLink(at, there) as link,
            Director(directory / "director") as director,
            inspector(simulation) as seen,
        ):
            sides = Sides(*(_plan(simulation, at, octets) for octets in PAYLOADS_OCTETS))
            yield LateBench(simulation, link, at, director, seen, directory, sides)


def _known_hosts(simulation: Simulation, there: Management, at: Management) -> str:
    """The host keys of all switches; the struck one has its own at the link's address, too."""
    known = simulation.connect.known_hosts.read_text()
    (key,) = (its for its in known.splitlines() if its.startswith(f"[{there.address}]:"))
    return f"{known}{key.replace(there.address, at.address)}\n"


def _plan(simulation: Simulation, at: Management, payload_octets: int) -> Plan:
    """The line whose struck switch is managed at the link's address."""
    addresses = {
        name: each.chassis.management.address for name, each in simulation.switches.items()
    }
    addresses[STRUCK] = at.address
    return compute(line(addresses, port=at.port, user=OPERATOR, payload_octets=payload_octets))


def _gates(switch: str, left: Left) -> Snapshot:
    """The ports of a switch as a change left them."""
    return {
        PortRef(switch, name): Gates(
            left.tai_ns, state[GateState].running, state[GateState].pending
        )
        for name, state in left.ports.items()
    }


def _by(snapshot: Snapshot, at_ns: int) -> dict[PortRef, Gates]:
    """The ports at a later instant, to which nothing has changed."""
    return {
        port: Gates(
            at_ns,
            gates.in_force(at_ns),
            gates.pending if (gates.switch_over_ns or 0) > at_ns else None,
        )
        for port, gates in snapshot.items()
    }


def _read_ns(snapshot: Snapshot) -> int:
    return max(gates.read_ns for gates in snapshot.values())


def _is_rpc(step: str) -> bool:
    """Whether the controller is about to connect or to send an RPC."""
    said = step.removeprefix("cnc: before ")
    return said != step and not said.startswith(("journal", "fsync"))


def _exit_status(controller: ForkServerProcess) -> int:
    controller.join(PUSH_TIMEOUT_S)
    if controller.exitcode is None:
        raise TimeoutError(f"a push did not end within {PUSH_TIMEOUT_S} s")
    return controller.exitcode


def now_ns() -> int:
    """TAI, as switches with ports in memory have it."""
    return time.time_ns()
