"""Who acts for a network: a switch refuses what others send, over a real NETCONF server."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import pytest
from ncclient.operations import RPCError

from agent.datastore.terms import TERMS_FILE
from tests.stack.netconfd_process import wait_until
from tests.stack.test_late_commits import FORMER, NEW, OTHER, PERSIST, Switch

LONG_S = "60"


@pytest.fixture
def durable(tmp_path):
    return tmp_path / "durable"


@pytest.fixture
def switch(sysrepo_repository, netconfd, durable):
    made = Switch(sysrepo_repository, netconfd, durable / "rollouts.json")
    yield made
    made.close()


def named(term: int | None, network: str = "plant", former: str | None = None) -> str:
    """The leaves of an edit that say who acts."""
    if term is None:
        return ""
    leaves = f"<network>{network}</network><term>{term}</term>"
    return leaves + (f"<former-network>{former}</former-network>" if former else "")


def refusal(commit: Callable[[], None]) -> str:
    with pytest.raises(RPCError) as refused:
        commit()
    return str(refused.value)


def kept(switch: Switch) -> str:
    """What a client reads of the term that is kept."""
    wanted = '<agent xmlns="urn:tsn-control-plane:yang:tsn-linux"><kept-term/></agent>'
    with switch.server.connect() as client:
        return str(client.get(filter=("subtree", wanted)).data_xml)


def test_a_commit_of_a_lower_term_does_nothing(switch):
    switch.push(1, FORMER, beside=named(6))
    switch.push(2, NEW, beside=named(7))
    switch.kernel.log.clear()
    said = refusal(lambda: switch.push(3, OTHER, beside=named(6)))
    assert f"rollout {UUID(int=3)} of ann@noc comes with term 6" in said
    assert "belongs to network plant, for which ann@noc acts since 20" in said
    assert "(term 7): another has taken over" in said
    assert switch.first_ns == NEW
    assert switch.kernel.log == []
    assert "<term>7</term>" in kept(switch)


def test_a_laptop_without_a_term_is_told_whose_the_switch_is(switch):
    switch.push(1, FORMER, beside=named(7))
    said = refusal(lambda: switch.push(2, NEW))
    assert "names no term, and this switch belongs to network plant" in said
    assert "`cnc push --take-over`" in said
    assert switch.first_ns == FORMER


def test_a_switch_leaves_its_network_for_another_if_told_which(switch):
    switch.push(1, FORMER, beside=named(7))
    assert "is of network lab" in refusal(lambda: switch.push(2, NEW, beside=named(8, "lab")))
    switch.push(3, NEW, beside=named(8, "lab", "plant"))
    assert switch.first_ns == NEW
    assert "<network>lab</network>" in kept(switch)
    assert "is of network plant" in refusal(lambda: switch.push(4, OTHER, beside=named(9)))


def test_a_rollout_names_both_or_neither(switch):
    for leaf in ("<term>7</term>", "<network>plant</network>"):
        assert "names its network and its term" in refusal(
            lambda leaf=leaf: switch.push(1, FORMER, beside=leaf)
        )


def test_where_no_term_is_kept_all_is_as_before(switch):
    """As for a controller of an older version."""
    switch.push(1, FORMER)
    switch.push(2, NEW, seconds_left=None)
    assert switch.first_ns == NEW
    assert "kept-term" not in kept(switch)


def pending(switch):
    """A new leader's first rollout waits for its confirmation."""
    switch.push(1, FORMER, beside=named(6))
    switch.save()
    switch.push(
        2, NEW, beside=named(7), confirmed=True, persist=PERSIST, timeout=LONG_S, seconds_left=1
    )
    assert switch.first_ns == NEW


def test_the_way_back_is_never_refused_and_the_term_stays(switch):
    pending(switch)
    with switch.server.connect() as client:
        client.cancel_commit(persist_id=PERSIST)
    assert switch.first_ns == FORMER
    assert "comes with term 6" in refusal(lambda: switch.push(3, OTHER, beside=named(6)))


def test_the_way_back_to_a_rollout_without_a_term_is_never_refused(switch):
    switch.push(1, FORMER, seconds_left=None)
    switch.push(2, NEW, beside=named(1), confirmed=True, persist=PERSIST, timeout="1")
    assert switch.comes_to(FORMER)
    assert "names no term" in refusal(lambda: switch.push(3, OTHER))


def test_a_server_that_starts_again_reverts_to_a_lower_term(switch):
    pending(switch)
    switch.server.kill()
    switch.server.start()
    assert switch.comes_to(FORMER)


def test_a_switch_that_reboots_between_two_leaders_commits_keeps_the_higher_term(switch):
    """Startup is older than the takeover."""
    pending(switch)
    switch.reboot()
    assert switch.comes_to(FORMER)
    assert "comes with term 6" in refusal(lambda: switch.push(3, OTHER, beside=named(6)))
    switch.push(4, OTHER, beside=named(7))
    assert switch.first_ns == OTHER


@pytest.mark.parametrize("lose", [Path.unlink, lambda file: file.write_bytes(b'{"netw')])
def test_without_its_file_the_term_of_startup_counts(switch, durable, lose):
    switch.push(1, FORMER, beside=named(6))
    switch.save()
    lose(durable / TERMS_FILE)
    switch.reboot()
    assert wait_until(lambda: "<term>6</term>" in kept(switch))
    assert "comes with term 5" in refusal(lambda: switch.push(2, NEW, beside=named(5)))


def test_a_switch_that_was_replaced_takes_the_first_term_that_comes(switch, durable):
    switch.push(1, FORMER, beside=named(3))
    assert json.loads((durable / TERMS_FILE).read_text())["term"] == 3


def test_an_agent_that_starts_again_knows_the_term(switch):
    switch.push(1, FORMER, beside=named(7))
    switch.restart_agent()
    assert "comes with term 6" in refusal(lambda: switch.push(2, NEW, beside=named(6)))


def test_a_term_that_cannot_be_kept_is_refused_with_the_commit(switch, durable):
    switch.push(1, FORMER, beside=named(7))
    (durable / TERMS_FILE).with_suffix(".new").mkdir()  # where its next version is written
    said = refusal(lambda: switch.push(2, NEW, beside=named(8)))
    assert "term 8 of network plant cannot be kept" in said
    assert switch.first_ns == FORMER
    switch.push(3, NEW, beside=named(7))
    assert switch.first_ns == NEW
