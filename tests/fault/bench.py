"""The lab with one switch that can be struck at every step, and what an operator does after it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import wait
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from unittest.mock import patch

from agent.kernel import clock
from agent.model import Clock
from cnc.model import NS_PER_S, Plan
from cnc.plans import file as planfile
from cnc.rollout import left_over, unresolved
from cnc.rollout.history import History
from cnc.testbed.lab import Lab, lab
from cnc.testbed.lab.namespaces import members, of_node
from cnc.testbed.lab.process import stop
from cnc.testbed.lab.running import management_of
from cnc.testbed.lab.switch import AGENT, NETCONF_SERVER, PROGRAMS
from tests.fault.attackers import Attackers
from tests.fault.copies import Copies, kept
from tests.fault.director import Direction, Director
from tests.fault.kernels import Recorder
from tests.fault.late_packets import LatePackets
from tests.fault.moments import Moment, base_time_since, rollouts_in
from tests.fault.network import STRUCK, Subject, network, telling_ports, two_plans
from tests.fault.processes import BROKER, CONTROLLER, Command, Processes
from tests.fault.table import Fault, Recovery
from tests.fault.ways import EntryLog

# Far more than the time-outs of all RPCs that can be in vain one after another.
PUSH_TIMEOUT_S = 600
START_TIMEOUT_S = 60
END_TIMEOUT_S = 60
POLL_S = 0.1
# The switches' own time-outs are over: that of a commit; and behind a cut link that of a session
# whose client does not answer. The sessions of a program that is killed end with it.
SELF_HEALING_S, SELF_HEALING_OF_LINK_S = 8, 20
# A commit waits for its agent that was killed, and until it has given up, no agent can subscribe.
READY_TIMEOUT_S = 40
# The kernel goes over at the end of an entry, so within a cycle of the base time.
AFTER_BASE_TIME_S = 0.1


@dataclass(frozen=True, slots=True)
class Pushed:
    """How `cnc push` ended, the probed places that were passed, and whether the fault struck."""

    exit_status: int
    steps: tuple[str, ...]
    has_struck: bool


@dataclass(frozen=True, slots=True)
class Bench:
    """A lab whose struck switch and controllers are probed, and whose switches may be attacked."""

    lab: Lab
    struck: str
    processes: Processes
    director: Director
    recorder: Recorder
    attackers: Attackers
    entries: EntryLog
    copies: Copies
    packets: LatePackets

    @property
    def log(self) -> Path:
        """What the controllers said."""
        return self.lab.directory / "controller.log"

    @property
    def plan_file(self) -> Path:
        """What the controllers push."""
        return self.lab.directory / "plan.json"

    @property
    def history(self) -> Path:
        return self.lab.directory / "history" / "history.sqlite"

    def push(self, plan: Plan, *, fault: Fault | None = None, step: str | None = None) -> Pushed:
        """Push a plan; at `step` the fault strikes, before anything else goes on."""
        planfile.dump(plan, self.plan_file)
        # It can be at the step before we know its process id.
        started: Future[ForkServerProcess] = Future()
        rollouts_before = rollouts_in(self.history)
        delivery = Thread(target=self._deliver, args=(rollouts_before,), name="late link")

        def strike() -> None:
            if fault is Fault.LATE:
                self.packets.hold()
                delivery.start()
            elif fault is not None:
                self._strike(fault, started.result(START_TIMEOUT_S))

        direction = Direction(step, strike)
        with self.director.directing(direction):
            started.set_result(self._controller("push", str(self.plan_file), probed=True))
            exit_status = _exit_status(started.result())
        if delivery.ident is not None:
            delivery.join()
        return Pushed(exit_status, tuple(direction.steps), direction.has_struck)

    def _deliver(self, rollouts_before: int) -> None:
        """Deliver what the link holds, after the base time of the push."""
        held_ns = clock.now_ns(Clock.TAI)
        base_time_ns = base_time_since(self.history, rollouts_before)
        instant_ns = Moment.AFTER_BASE_TIME.instant_ns(held_ns, base_time_ns)
        time.sleep(max(0, instant_ns - held_ns) / NS_PER_S)
        self.packets.deliver()

    def recover(self, fault: Fault, choice: Recovery) -> Recovery:
        """Start what died, mend what is cut, wait, and choose if an operator has to."""
        switch = self.lab.switch(self.struck)
        if self._broker() is None:
            # Its front ends by itself; a service manager starts them again only then.
            self._await_end(NETCONF_SERVER)
        times_ready = self._times_agent_was_ready()
        ended = [program for program in PROGRAMS if switch.pid(program) is None]
        for program in ended:
            self.lab.start(self.struck, program)
        self.lab.link_up(self.struck)
        time.sleep(SELF_HEALING_OF_LINK_S if fault is Fault.LINK else SELF_HEALING_S)
        if AGENT in ended:
            self._await_agent(times_ready + 1)
        with History(self.history) as history:
            has_choice = bool(unresolved(self.lab.intent.network.managed.values(), history))
        if has_choice:
            _exit_status(self._controller("push", f"--{choice}"))
        if self._push_what_runs():
            return choice if has_choice else Recovery.PUSH
        return choice if has_choice else Recovery.NONE

    def _push_what_runs(self) -> bool:
        """Do what `cnc status` says where former ways are left; returns whether they were."""
        name = self.lab.intent.name
        with History(self.history) as history:
            if left_over(history, name) is None:
                return False
            plan = history.running_plan(name)
        if plan is not None:
            planfile.dump(plan, self.plan_file)
            _exit_status(self._controller("push", str(self.plan_file)))
        return plan is not None

    def await_rest(self) -> None:
        """Return when every list that waits now has come into force."""
        begins_ns = [gates.switch_over_ns or 0 for gates in self.recorder.now().values()]
        time.sleep(max(0, max(begins_ns) - clock.now_ns(Clock.TAI)) / NS_PER_S + AFTER_BASE_TIME_S)

    def logs(self) -> str:
        """What the controllers and the struck switch's programs have said."""
        switch = self.lab.switch(self.struck)
        files = [self.log, *(switch.log(program) for program in PROGRAMS)]
        return "\n".join(f"=== {file.name}\n{file.read_text()}" for file in files)

    def _controller(self, *arguments: str, probed: bool = False) -> ForkServerProcess:
        environment = {
            "CNC_IDENTITY": str(self.lab.identity),
            "CNC_KNOWN_HOSTS": str(self.lab.known_hosts),
            "CNC_STATE_DIR": str(self.history.parent),
        }
        return self.processes.start(
            Command(
                [CONTROLLER, *arguments],
                environment=environment,
                log=self.log,
                director=self.director.path if probed else None,
                struck=self.struck,
                struck_address=management_of(self.lab.intent, self.struck).address,
            )
        )

    def _strike(self, fault: Fault, controller: ForkServerProcess) -> None:
        if fault is Fault.CONTROLLER:
            os.kill(controller.pid or 0, signal.SIGKILL)
            wait([controller.sentinel])
        elif fault is Fault.LINK:
            self.lab.link_down(self.struck)
        elif fault is Fault.BROKER:
            broker = self._broker()
            if broker is not None:
                stop({broker: self.lab.namespace(self.struck)}, signal.SIGKILL)
        else:
            self.lab.kill(self.struck, AGENT if fault is Fault.AGENT else NETCONF_SERVER)

    def _broker(self) -> int | None:
        """The process id of the struck switch's broker."""
        for pid in members(self.lab.namespace(self.struck)):
            with suppress(OSError):  # it has ended meanwhile
                if Path(f"/proc/{pid}/comm").read_text().strip() == BROKER:
                    return pid
        return None

    def _await_end(self, program: str) -> None:
        deadline_s = time.monotonic() + END_TIMEOUT_S
        while self.lab.switch(self.struck).pid(program) is not None:
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"{program} did not end within {END_TIMEOUT_S} s")
            time.sleep(POLL_S)

    def _await_agent(self, times_ready: int) -> None:
        deadline_s = time.monotonic() + READY_TIMEOUT_S
        while self._times_agent_was_ready() < times_ready:
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"{AGENT} was not ready within {READY_TIMEOUT_S} s")
            time.sleep(POLL_S)

    def _times_agent_was_ready(self) -> int:
        return self.lab.switch(self.struck).log(AGENT).read_text().count(f"{AGENT}: ready\n")


@contextmanager
def bench(subject: Subject, *, is_attacked: bool = True, struck: str = STRUCK) -> Iterator[Bench]:
    """The lab of a network, up. Its programs are forks, the struck switch's with probes in them."""
    processes = Processes()
    intent, plans = network(subject), two_plans(subject)
    attacked = list(intent.network.bridges) if is_attacked else []
    with TemporaryDirectory() as directory, Director(Path(directory, "director")) as director:

        def spawn(
            namespace: str, argv: Sequence[str], *, environment: Mapping[str, str], log: Path
        ) -> int:
            is_struck = namespace == of_node(intent.name, struck)
            probed_by = director.path if is_struck else None
            process = processes.start(Command(argv, environment, log, namespace, probed_by))
            return process.pid or 0

        with (
            patch("cnc.testbed.lab.switch.spawn", spawn),
            lab(intent) as running,
            Recorder(running, telling_ports(*plans)) as recorder,
            Attackers(running, attacked, struck) as attackers,
            EntryLog(running, plans[0]).open() as entries,
            Copies(running, kept(*plans)).sending() as copies,
        ):
            packets = LatePackets(intent.name, struck)
            yield Bench(
                running,
                struck,
                processes,
                director,
                recorder,
                attackers,
                entries,
                copies,
                packets,
            )


def _exit_status(process: ForkServerProcess) -> int:
    process.join(PUSH_TIMEOUT_S)
    if process.exitcode is None:
        raise TimeoutError(f"a push did not end within {PUSH_TIMEOUT_S} s")
    return process.exitcode
