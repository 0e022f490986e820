"""Whatever happens to a switch and its agent, in the end the ports do what running says.

A state machine makes up histories: changes that land, are aborted, or whose client or server dies;
the timer; agents that are killed, and configuration that is edited before the next one starts;
interfaces that are unplugged and plugged in, seen or unseen; what somebody does by hand; a kernel
that refuses some things, and a read of running that fails once.

The agent's own Changes, Watch and Switch do the work. In place of the kernel there are the ports in
memory, whose steps are refused one by one; an interface that is plugged in is another one, as in
Linux: nothing of the old one can be restored on it. Looks and time-outs happen when the machine
says so.

sysrepo sends one change after another. One history is left out: a client that dies in a store of
more than SETTLE_TIMEOUT_S, whose change is taken back by the timer and lands after that without
`done`. (With `done` it is in.) Reads of the ports do not fail, nor does the read of running that a
late `done` makes; and whether gates stand still is not looked at, only which list is set.

Each test run takes a sample that is always the same. For as many others as you like:

    TSN_EXAMPLES=6000 pytest -q -o timeout=0 tests/unit/test_datastore_changes_model.py
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Mapping
from dataclasses import replace

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from agent.datastore.changes import Changes
from agent.datastore.desired import possible_ports
from agent.datastore.memory import Memory
from agent.datastore.open_change import Request
from agent.datastore.watch import Watch
from agent.events import PortDrift, PortRestored
from agent.mechanisms import MECHANISMS
from agent.mechanisms.gates.model import GateConfig, GateState
from agent.model import AgentError
from agent.root_qdisc import RootQdisc
from agent.switch import differences, plan
from tests.stack.recording_kernel import RecordedPorts, RecordingKernel, altered, bare, port
from tests.stack.sysrepo_client import BASE_TIME_S, NOW_NS, gated

EXAMPLES = int(os.environ.get("TSN_EXAMPLES", "0"))
SAMPLE = 400
STEPS = 25

PORTS = ("p1", "p2")
FOREIGN = "pfifo 1:"
REFUSALS = (AgentError("no"), OSError(errno.ENOMEM, "Cannot allocate memory"))

# What a port is configured to do: nothing, one list or another, or what taprio has not.
CONTENTS = (None, "one", "other")
IMPOSSIBLE = "impossible"


class RefusingPorts(RecordedPorts):
    """Ports whose kernel refuses steps one by one, as the `Ports` around them say."""

    def execute(self, step):
        self._kernel.refuse_some()
        super().execute(step)

    def restart(self, states, present):
        refused = {}
        for state in states:
            try:
                self._kernel.refuse_some()  # to remove it
                self.states[state.name] = bare(state)
                self._kernel.refuse_some()  # to set it again
                self.states[state.name] = state
            except (AgentError, OSError) as reason:
                refused[state.name] = str(reason)
        return refused


class Ports(RecordingKernel):
    """`refusals` says what becomes of the next steps: None, it is done; else why it is refused."""

    def __init__(self) -> None:
        super().__init__(now_ns=NOW_NS)
        self.ports = RefusingPorts(self, [])
        self.plugged = 1
        self.refusals: list[Exception | None] = []

    def plug(self, name: str, foreign_qdisc: str | None = None) -> None:
        self.plugged += 1
        self.states[name] = port(name, ifindex=self.plugged, foreign_qdisc=foreign_qdisc)

    def refuse_some(self) -> None:
        if self.refusals and (refusal := self.refusals.pop(0)):
            raise refusal


class MemoryOfAgents:
    """What one agent leaves to the next."""

    def __init__(self) -> None:
        self._memory = Memory()

    def read(self) -> Memory:
        return self._memory

    def write(self, memory: Memory) -> None:
        self._memory = memory


class ReadFailed(Exception):
    """What a time-out of sysrepo is to the agent."""


def tree_of(contents: Mapping[str, str | None]):
    """What running holds where the ports are configured so."""
    changes = {
        "one": {},
        "other": {"admin-base-time": {"seconds": str(BASE_TIME_S), "nanoseconds": 7}},
        IMPOSSIBLE: {"admin-cycle-time-extension": 5},
    }
    interfaces = [gated(name, **changes[what]) for name, what in contents.items() if what]
    return {"ietf-interfaces:interfaces": {"interface": interfaces}} if interfaces else {}


ports = st.sampled_from(PORTS)
contents = st.fixed_dictionaries(dict.fromkeys(PORTS, st.sampled_from(CONTENTS)))
edits = st.fixed_dictionaries(dict.fromkeys(PORTS, st.sampled_from((*CONTENTS, IMPOSSIBLE))))


class Histories(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.kernel = Ports()
        self.memory = MemoryOfAgents()
        self.running = {}
        self.read_fails = False
        self.agent: Changes | None = None
        self.watch: Watch | None = None
        self.told = []
        self.requests = 0
        # The change that its client has not ended: its number and what it asks.
        self.asked = None
        # The gates that somebody set since the agent was started, and on which interface. Such
        # drift is told and left, and put back by a change that is taken back; a change that lands
        # ends what was done before it.
        self.by_hand = []
        self.by_hand_before_change = 0

    @initialize(configured=contents)
    def begin(self, configured):
        for name in PORTS:
            self.kernel.plug(name)
        self.running = configured
        self.start()

    def read_running(self):
        if self.read_fails:
            self.read_fails = False
            raise ReadFailed
        return tree_of(self.running)

    # --- the agent ---

    def is_up(self):
        return self.agent is not None

    def is_down(self):
        return self.agent is None

    def has_open(self):
        return self.agent is not None and self.agent._open is not None

    @precondition(is_down)
    @rule()
    def start(self):
        self.agent = Changes(self.kernel, self.read_running, 3600, self.memory)
        self.agent.reconcile(tree_of(self.running))
        self.told.clear()
        self.watch = Watch(self.kernel, self.agent, self.told.append)
        self.by_hand.clear()

    @precondition(is_up)
    @rule(landed=st.booleans())
    def kill(self, landed):
        if self.asked and landed:
            _, self.running = self.asked
        self.asked = None
        self.end_agent()

    def end_agent(self):
        self.watch.close()
        self.agent.close()
        self.agent = self.watch = None

    @precondition(is_down)
    @rule(configured=edits)
    def edit(self, configured):
        self.running = configured

    @precondition(is_up)
    @rule()
    def look(self):
        self.watch._poll()

    @precondition(has_open)
    @rule()
    def timer(self):
        """Its thread, if it has not died."""
        timer = self.agent._timer
        if not timer.finished.is_set():
            timer.cancel()
            try:
                timer.function(*timer.args)
            except ReadFailed:
                """A thread that dies tells nobody."""

    # --- its clients ---

    def is_idle(self):
        return self.agent is not None and self.asked is None

    def is_asked(self):
        return self.asked is not None

    def is_asked_and_open(self):
        return self.asked is not None and self.has_open()

    @precondition(is_idle)
    @rule(configured=contents)
    def change(self, configured):
        self.requests += 1
        request = Request("ietf-interfaces", self.requests)
        try:
            self.agent.change(request, tree_of(configured))
        except (AgentError, OSError, ReadFailed):
            return
        self.asked = request, configured
        self.by_hand_before_change = len(self.by_hand)

    @precondition(is_asked)
    @rule()
    def land(self):
        request, self.running = self.asked
        self.asked = None
        # One that was taken back is applied anew, to all there is.
        ended = self.by_hand_before_change if self.has_open() else len(self.by_hand)
        self.agent.done(request, lambda: tree_of(self.running))
        del self.by_hand[:ended]

    @precondition(is_asked)
    @rule()
    def abort(self):
        request, _ = self.asked
        self.asked = None
        self.agent.abort(request)

    @precondition(is_asked)
    @rule()
    def client_dies_before_it_lands(self):
        self.asked = None

    @precondition(is_asked_and_open)
    @rule()
    def client_dies_after_it_landed(self):
        _, self.running = self.asked
        self.asked = None

    # --- the ports ---

    def is_unplugged(self, name):
        self.kernel.states.pop(name, None)

    def is_plugged(self, name):
        """In place of the one that is there, if there is one: nobody has looked in between."""
        self.kernel.plug(name)

    def is_plugged_with_a_foreign_qdisc(self, name):
        self.kernel.plug(name, FOREIGN)

    def loses_its_link(self, name):
        if state := self.kernel.states.get(name):
            losses = state.carrier_losses + 1
            self.kernel.states[name] = replace(state, carrier_losses=losses)

    def gets_a_foreign_qdisc(self, name):
        if state := self.kernel.states.get(name):
            self.kernel.states[name] = replace(bare(state), foreign_qdisc=FOREIGN)
            self.by_hand.append((state.ifindex, None))

    def is_rid_of_its_foreign_qdisc(self, name):
        if state := self.kernel.states.get(name):
            self.kernel.states[name] = replace(state, foreign_qdisc=None)

    @rule(
        name=ports,
        what=st.sampled_from(
            (
                is_unplugged,
                is_plugged,
                is_plugged_with_a_foreign_qdisc,
                loses_its_link,
                gets_a_foreign_qdisc,
                is_rid_of_its_foreign_qdisc,
            )
        ),
    )
    def port(self, name, what):
        what(self, name)

    @rule(name=ports, what=st.sampled_from(CONTENTS))
    def somebody_sets(self, name, what):
        if name not in self.kernel.states or self.kernel.states[name].foreign_qdisc:
            return
        is_quiet = self.is_idle() and not self.has_open() and not self.kernel.refusals
        if is_quiet:
            self.look()
            self.look()
        wanted, _ = possible_ports(tree_of({name: what}), {})
        taprio = wanted[name][GateConfig].taprio if what else None
        running = taprio and taprio.schedule
        by_hand = altered(bare(self.kernel.states[name]), taprio=taprio, running=running)
        self.kernel.states[name] = by_hand
        self.by_hand.append((by_hand.ifindex, taprio))
        if is_quiet:
            self.look()
            assert self.kernel.states[name] == by_hand, "drift is told, and left"

    # --- faults ---

    @rule(refusals=st.lists(st.sampled_from((None, *REFUSALS)), max_size=4))
    def kernel_refuses(self, refusals):
        self.kernel.refusals = refusals

    @rule()
    def reading_running_fails_once(self):
        self.read_fails = True

    # --- the end ---

    @precondition(is_idle)
    @rule()
    def rest(self):
        """Nothing is refused any more, time-outs end, and the agent looks."""
        for _ in range(2):  # running may not be readable once
            if self.has_open():
                self.timer()
        self.kernel.refusals = []
        self.look()
        self.look()
        self.check()

    def check(self):
        states = self.kernel.read()
        wanted, impossible = possible_ports(tree_of(self.running), states)
        for name in states.keys() - impossible:
            state = states[name]
            wrong = plan(MECHANISMS, wanted, {name: state})
            if (state.ifindex, state[GateState].taprio) in self.by_hand:
                wrong = [step for step in wrong if not isinstance(step.target, RootQdisc)]
            assert state.foreign_qdisc or not wrong, f"{name} does not do what running says"
        assert not self.has_open(), "nobody will ever end this change"
        told = {}
        for event in self.told:
            if isinstance(event, PortDrift | PortRestored):
                told[event.port] = isinstance(event, PortDrift)
        drifting = {name for name, is_drift in told.items() if is_drift and name in states}
        assert drifting == set(differences(MECHANISMS, self.agent.desired, states)), (
            "what was told is true"
        )

    def teardown(self):
        """What was in the way goes, and the agent has all the time it needs."""
        for name in PORTS:
            if name in self.kernel.states:
                self.is_rid_of_its_foreign_qdisc(name)
            else:
                self.is_plugged(name)
        if self.agent is None:
            self.start()
        self.rest()
        self.end_agent()


def test_in_the_end_the_ports_do_what_running_says(monkeypatch):
    monkeypatch.setattr("agent.datastore.failed_ports.RETRY_S", 0.0)
    logging.disable()
    try:
        run_state_machine_as_test(
            Histories,
            settings=settings(
                max_examples=EXAMPLES or SAMPLE,
                stateful_step_count=STEPS,
                derandomize=not EXAMPLES,
                database=None,
                deadline=None,
                report_multiple_bugs=False,
                suppress_health_check=list(HealthCheck),
            ),
        )
    finally:
        logging.disable(logging.NOTSET)
