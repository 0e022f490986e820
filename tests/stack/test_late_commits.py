"""A commit that comes after its instant does nothing; whatever brings an earlier one back does.

Over a real NETCONF server, to an agent whose clock stands still until a test sets it.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import pytest
from ncclient.operations import RPCError

from agent.datastore.rollouts import KNOWN_MAX, UNCONFIRMED_MAX_NS, AppliedRollouts
from agent.datastore.subscriptions import Datastore
from agent.mechanisms.gates.model import GateState
from agent.model import NS_PER_S
from tests.stack.netconfd_process import NetconfdProcess, wait_until
from tests.stack.recording_kernel import RecordingKernel, port
from tests.stack.repository import Repository
from tests.stack.sysrepo_client import NOW_NS

LONG_S = "60"
A_DAY_NS = 86_400 * NS_PER_S
PERSIST = "rollout"
# Durations of the first entry of lists, which tell one from another.
FORMER, NEW, OTHER = 100_000, 200_000, 300_000

CONFIG = """
<config xmlns="urn:ietf:params:xml:ns:netconf:base:1.0">
 <interfaces xmlns="urn:ietf:params:xml:ns:yang:ietf-interfaces"><interface>
  <name>p1</name>
  <type xmlns:ianaift="urn:ietf:params:xml:ns:yang:iana-if-type">ianaift:ethernetCsmacd</type>
  <bridge-port xmlns="urn:ieee:std:802.1Q:yang:ieee802-dot1q-bridge">
   <gate-parameter-table xmlns="urn:ieee:std:802.1Q:yang:ieee802-dot1q-sched-bridge">
    <gate-enabled>true</gate-enabled>
    <admin-control-list>
     <gate-control-entry><index>0</index>
      <operation-name xmlns:sched="urn:ieee:std:802.1Q:yang:ieee802-dot1q-sched"
       >sched:set-gate-states</operation-name>
      <time-interval-value>{first_ns}</time-interval-value>
      <gate-states-value>255</gate-states-value></gate-control-entry>
    </admin-control-list>
    <admin-cycle-time><numerator>{first_ns}</numerator><denominator>1000000000</denominator
    ></admin-cycle-time>
    <config-change>true</config-change>
   </gate-parameter-table>
  </bridge-port></interface></interfaces>
 <rollout xmlns="urn:tsn-control-plane:yang:tsn-linux" xmlns:nc=
  "urn:ietf:params:xml:ns:netconf:base:1.0" nc:operation="replace">{rollout}</rollout>
</config>
"""


class Switch:
    """An agent and a NETCONF server, which can be restarted."""

    def __init__(self, repository: Repository, server: NetconfdProcess, path) -> None:
        self._repository = repository
        self._path = path
        self.server = server
        self.start_agent()

    def start_agent(self) -> None:
        """With a kernel that does nothing yet, as after a boot."""
        self.kernel = RecordingKernel(port("p1"), now_ns=NOW_NS)
        self._agent = Datastore(self.kernel, rollouts=AppliedRollouts(self._path))

    def restart_agent(self) -> None:
        """The kernel goes on."""
        self.close()
        self._agent = Datastore(self.kernel, rollouts=AppliedRollouts(self._path))

    def reboot(self) -> None:
        """Cut the power: running is what startup has, and the server's own files are left."""
        now_ns = self.kernel.time_ns
        self.close()
        self.server.kill()
        self._repository.forget_shared_memory()
        self.start_agent()
        self.kernel.time_ns = now_ns
        self.server.start()

    def close(self) -> None:
        self._agent.close()

    def passes(self, duration_ns: int) -> None:
        """So much time passes at once."""
        self.kernel.time_ns += duration_ns

    def push(
        self,
        number: int,
        first_ns: int,
        *,
        seconds_left: float | None = 1,
        beside: str = "",
        **commit,
    ) -> None:
        """Commit a list as rollout `number`, which may be applied for so many seconds yet, with
        leaves `beside` those of all rollouts."""
        before_ns = None
        if seconds_left is not None:
            before_ns = self.kernel.time_ns + round(seconds_left * NS_PER_S)
        self.commit(number, first_ns, before_ns, beside, **commit)

    def commit(
        self, number: int, first_ns: int, apply_before_ns: int | None, beside: str = "", **commit
    ) -> None:
        rollout = f"<id>{UUID(int=number)}</id><controller>ann@noc</controller>{beside}"
        if apply_before_ns is not None:
            rollout += f"<apply-before>{apply_before_ns}</apply-before>"
        config = CONFIG.format(first_ns=first_ns, rollout=rollout)
        with self.server.connect() as client:
            try:
                client.edit_config(target="candidate", config=config)
                client.commit(**commit)
            finally:
                client.discard_changes()

    def save(self) -> None:
        with self.server.connect() as client:
            client.copy_config(source="running", target="startup")

    @property
    def first_ns(self) -> int | None:
        """The duration of the first entry of the list that the port has; None without one."""
        taprio = self.kernel.states["p1"][GateState].taprio
        return taprio and taprio.schedule.entries[0].interval_ns

    def comes_to(self, first_ns: int | None) -> bool:
        """Whether the port has this list soon."""
        return wait_until(lambda: self.first_ns == first_ns)


@pytest.fixture
def rollouts_file(tmp_path):
    return tmp_path / "durable" / "rollouts.json"


@pytest.fixture
def switch(sysrepo_repository, netconfd, rollouts_file):
    made = Switch(sysrepo_repository, netconfd, rollouts_file)
    yield made
    made.close()


def refusal(commit: Callable[[], None]) -> str:
    with pytest.raises(RPCError) as refused:
        commit()
    return str(refused.value)


def test_a_commit_that_comes_late_does_nothing(switch):
    switch.push(1, FORMER)
    switch.kernel.log.clear()
    reason = refusal(lambda: switch.push(2, NEW, seconds_left=-1))
    assert switch.first_ns == FORMER
    assert switch.kernel.log == []
    assert f"rollout {UUID(int=2)} of ann@noc was to be applied by" in reason
    assert (
        "2001-09-09 01:46:39.000 TAI, and here it is 2001-09-09 01:46:40.000 TAI, 1.000" in reason
    )
    assert "(TAI offset 37 s, clock settled)" in reason
    assert "Push again" in reason


def test_the_first_rollout_of_a_switch_may_be_late_as_well(switch):
    refusal(lambda: switch.push(1, NEW, seconds_left=-1))
    assert switch.first_ns is None


def test_a_client_that_names_no_instant_is_never_late(switch):
    switch.push(1, FORMER, seconds_left=None)
    switch.push(2, NEW, seconds_left=None)
    assert switch.first_ns == NEW


def pending(switch):
    """Rollout 2 waits for its confirmation, and the instants of both have long passed."""
    switch.push(1, FORMER)
    switch.save()
    switch.passes(A_DAY_NS)
    switch.push(2, NEW, confirmed=True, persist=PERSIST, timeout=LONG_S)
    assert switch.first_ns == NEW
    switch.passes(A_DAY_NS)


def test_the_revert_of_an_unconfirmed_commit_is_never_late(switch):
    switch.push(1, FORMER)
    switch.passes(A_DAY_NS)
    switch.push(2, NEW, confirmed=True, persist=PERSIST, timeout="1")
    switch.passes(A_DAY_NS)
    assert switch.comes_to(FORMER)


def test_a_cancelled_commit_is_taken_back_however_late(switch):
    pending(switch)
    with switch.server.connect() as client:
        client.cancel_commit(persist_id=PERSIST)
    assert switch.first_ns == FORMER


def test_a_server_that_starts_again_takes_an_unconfirmed_commit_back_however_late(switch):
    pending(switch)
    switch.server.kill()
    switch.server.start()
    assert switch.comes_to(FORMER)


def test_a_copy_of_startup_is_applied_however_late(switch):
    switch.push(1, FORMER)
    switch.save()
    switch.passes(A_DAY_NS)
    switch.push(2, NEW)
    switch.passes(A_DAY_NS)
    with switch.server.connect() as client:
        client.copy_config(source="startup", target="candidate")
        client.commit()
    assert switch.first_ns == FORMER


def test_a_switch_that_boots_has_what_is_stored_however_late(switch):
    pending(switch)
    switch.reboot()
    assert switch.comes_to(FORMER)


def test_what_was_never_saved_comes_back_after_a_reboot_in_the_midst_of_the_next_commit(switch):
    """The server goes back to what ran, and that is not what startup has."""
    switch.push(1, OTHER)
    switch.save()
    switch.push(2, FORMER)
    switch.passes(A_DAY_NS)
    switch.push(3, NEW, confirmed=True, persist=PERSIST, timeout=LONG_S)
    switch.passes(A_DAY_NS)
    switch.reboot()
    assert switch.comes_to(FORMER)


def test_a_way_back_that_is_given_up_again_is_not_late_either(switch):
    """An operator had rollout 1 back for a try, and the switch returns to rollout 2."""
    switch.push(1, FORMER)
    switch.push(2, NEW)
    switch.passes(A_DAY_NS)
    switch.push(1, FORMER, seconds_left=-1, confirmed=True, persist=PERSIST, timeout=LONG_S)
    assert switch.first_ns == FORMER
    with switch.server.connect() as client:
        client.cancel_commit(persist_id=PERSIST)
    assert switch.first_ns == NEW


def test_a_second_commit_of_a_rollout_that_was_taken_back_is_late(switch):
    """It was held on its way while the first one was applied, and reverted."""
    until_ns = NOW_NS + NS_PER_S
    switch.push(1, FORMER)
    switch.commit(2, NEW, until_ns, confirmed=True, persist=PERSIST, timeout=LONG_S)
    switch.passes(UNCONFIRMED_MAX_NS)
    with switch.server.connect() as client:
        client.cancel_commit(persist_id=PERSIST)
    switch.passes(2 * NS_PER_S)
    refusal(lambda: switch.commit(2, NEW, until_ns))
    assert switch.first_ns == FORMER


def test_a_second_commit_of_the_first_rollout_of_a_switch_is_late_as_well(switch):
    until_ns = NOW_NS + NS_PER_S
    switch.commit(1, NEW, until_ns, confirmed=True, persist=PERSIST, timeout=LONG_S)
    with switch.server.connect() as client:
        client.cancel_commit(persist_id=PERSIST)
    switch.passes(2 * NS_PER_S)
    refusal(lambda: switch.commit(1, NEW, until_ns))
    assert switch.first_ns is None


def test_steps_during_which_the_instant_passes_are_undone(switch, monkeypatch):
    switch.push(1, FORMER)
    execute = switch.kernel.ports.execute

    def slowly(step):
        execute(step)
        switch.passes(3 * NS_PER_S)

    monkeypatch.setattr(switch.kernel.ports, "execute", slowly)
    reason = refusal(lambda: switch.push(2, NEW, seconds_left=2.5))
    assert "0.500 s after that" in reason
    assert switch.comes_to(FORMER)
    with switch.server.connect() as client:
        running = client.get_config("running").data_xml
    assert str(UUID(int=1)) in running
    assert str(UUID(int=2)) not in running


@pytest.mark.parametrize(("step_s", "is_late"), [(37, True), (-37, False)])
def test_a_clock_that_is_set_before_the_commit_comes_counts_as_it_is_then(switch, step_s, is_late):
    """As when a switch that knew no TAI offset is told of one, or loses it."""
    switch.push(1, FORMER)
    until_ns = NOW_NS + 2 * NS_PER_S
    switch.passes(step_s * NS_PER_S)
    if is_late:
        assert "35.000 s after that" in refusal(lambda: switch.commit(2, NEW, until_ns))
    else:
        switch.commit(2, NEW, until_ns)
    assert switch.first_ns == (FORMER if is_late else NEW)


def test_an_agent_that_starts_again_knows_what_it_has_applied(switch):
    pending(switch)
    switch.restart_agent()
    with switch.server.connect() as client:
        client.cancel_commit(persist_id=PERSIST)
    assert switch.first_ns == FORMER


@pytest.mark.parametrize("lose", [Path.unlink, lambda file: file.write_bytes(b"")])
def test_without_its_file_an_agent_refuses_no_way_back(switch, rollouts_file, lose):
    pending(switch)
    lose(rollouts_file)
    switch.restart_agent()
    with switch.server.connect() as client:
        client.cancel_commit(persist_id=PERSIST)
    assert switch.first_ns == FORMER
    refusal(lambda: switch.push(3, OTHER, seconds_left=-1))


def test_the_file_does_not_grow(switch, rollouts_file):
    lists = itertools.cycle((FORMER, NEW))
    for number in range(1, KNOWN_MAX + 3):
        switch.push(number, next(lists))
    kept = json.loads(rollouts_file.read_text())
    assert [*kept["known"]] == [str(UUID(int=number)) for number in range(3, KNOWN_MAX + 3)]
