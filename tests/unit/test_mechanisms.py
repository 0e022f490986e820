"""What each mechanism promises the rooms that ask all of them: one test for all of `MECHANISMS`."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from cnc.mechanism import Mechanism
from cnc.mechanisms.composition import differences, settings_summary, within
from cnc.mechanisms.registry import MECHANISMS
from cnc.model import (
    NO_FORWARDING,
    BridgeForwarding,
    Management,
    Parts,
    StoredPort,
    StreamAddress,
)
from cnc.plans.transition import joined, on_ports
from cnc.rollout.history import encoding
from cnc.rollout.history.record import Outcome, SwitchChange
from cnc.switch.payload import edit_config
from cnc.switch.readback import stored_ports
from cnc.switch.rollout_id import RolloutId
from tests.unit.asked import asked
from tests.unit.mechanism_examples import ADDRESSES, CAMERA, EXAMPLES, NAMES, PORTS, VLAN_ID
from tests.unit.rollout_history import recorded_without

ID = RolloutId("0e1f3ac2-6f0c-4c6b-9f0c-2d0f6a5a7d11", "operator@cnc", "2026-11-23T09:00:00Z")
CHECKOUT = Path(__file__).parents[2]
FEW = settings(max_examples=25)
ALL = pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda each: each.name)


def examples(mechanism: Mechanism[Any]) -> st.SearchStrategy[Any]:
    return EXAMPLES[mechanism.part]


def bridge(*parts: object) -> BridgeForwarding:
    """A bridge by which two streams pass, with these parts."""
    entries = dict.fromkeys(ADDRESSES, ("s2",))
    return BridgeForwarding(entries, {VLAN_ID: PORTS}, (), NAMES, Parts.of(*parts))


def test_each_mechanism_has_a_name_a_part_and_a_history_key_of_its_own() -> None:
    for own in ("name", "part"):
        assert len({getattr(each, own) for each in MECHANISMS}) == len(MECHANISMS)
    assert len({each.kept.key for each in MECHANISMS}) == len(MECHANISMS)
    assert {each.part for each in MECHANISMS} == EXAMPLES.keys()


@ALL
def test_a_mechanism_is_a_folder_of_its_name_here_and_on_the_agent(
    mechanism: Mechanism[Any],
) -> None:
    for side in ("cnc", "agent"):
        assert (CHECKOUT / side / "mechanisms" / mechanism.name / "__init__.py").exists()


@ALL
def test_a_mechanism_that_is_asked_for_nothing_says_nothing(mechanism: Mechanism[Any]) -> None:
    nothing = mechanism.part()
    assert bridge(nothing) == bridge()
    assert not any(count for count, _ in mechanism.summary(nothing))
    assert not mechanism.switch.concerned(nothing, NAMES)
    assert not mechanism.switch.refers_to(nothing, ())
    assert not [*mechanism.kept.rows(nothing)]
    assert not [*mechanism.planned.cycles_ns(nothing)]
    assert settings_summary(None, bridge(nothing)) == settings_summary(None, bridge())


@ALL
@FEW
@given(data=st.data())
def test_what_is_asked_for_is_said(mechanism: Mechanism[Any], data: st.DataObject) -> None:
    its = data.draw(examples(mechanism))
    assert bridge(its)[mechanism.part] == its
    assert any(count for count, _ in mechanism.summary(its))
    assert mechanism.switch.concerned(its, NAMES)


@ALL
@FEW
@given(data=st.data())
def test_only_what_differs_is_a_difference(mechanism: Mechanism[Any], data: st.DataObject) -> None:
    first, second = (data.draw(examples(mechanism)) for _ in range(2))
    for whose in ("configuration", "kernel"):
        assert not [*differences(bridge(first), bridge(first), whose)]
        assert bool([*differences(bridge(first), bridge(second), whose)]) is (first != second)
        assert [*differences(bridge(first), bridge(), whose)]
        assert [*differences(bridge(), bridge(first), whose)]


@ALL
@FEW
@given(data=st.data())
def test_between_two_plans_both_are_there_and_what_is_asked_for_now_wins(
    mechanism: Mechanism[Any], data: st.DataObject
) -> None:
    its, former = (bridge(data.draw(examples(mechanism))) for _ in range(2))
    assert joined(its, its) == its
    assert joined(its, bridge()) == its
    both = joined(its, former)
    assert joined(both, former) == both
    asked, told = ([*mechanism.kept.rows(each[mechanism.part])] for each in (its, both))
    assert all(row in told for row in asked)


@ALL
@FEW
@given(data=st.data())
def test_of_ports_that_are_gone_nothing_is_asked(
    mechanism: Mechanism[Any], data: st.DataObject
) -> None:
    its = bridge(data.draw(examples(mechanism)))
    assert on_ports(its, frozenset(PORTS)) == its
    some = on_ports(its, frozenset({"s2"}))
    assert on_ports(some, frozenset({"s2"})) == some


@ALL
@FEW
@given(data=st.data())
def test_of_other_vlans_and_streams_nothing_is_a_rollouts(
    mechanism: Mechanism[Any], data: st.DataObject
) -> None:
    its = bridge(data.draw(examples(mechanism)))
    assert within(its, its) == its
    elsewhere = within(its, NO_FORWARDING)
    assert within(elsewhere, NO_FORWARDING) == elsewhere
    own = mechanism.changed.of_streams(its[mechanism.part], ADDRESSES)
    others = mechanism.changed.of_streams(own, [StreamAddress(CAMERA.destination_mac, 99)])
    assert others == mechanism.part()


def stored_after(desired: BridgeForwarding) -> BridgeForwarding | None:
    """What is configured of a bridge by the edit that sets `desired` where nothing was."""
    edit = edit_config({"br0": asked(desired)}, 0, {"br0": None}, ID)
    return stored_ports(edit, ["br0"])["br0"].forwarding


@ALL
@FEW
@given(data=st.data())
def test_what_is_sent_to_a_switch_is_what_is_read_back(
    mechanism: Mechanism[Any], data: st.DataObject
) -> None:
    its = bridge(data.draw(examples(mechanism)))
    assert stored_after(its) == its


@FEW
@given(data=st.data())
def test_what_mechanisms_send_together_is_what_is_read_back(data: st.DataObject) -> None:
    """Numbers and filters, each of a stream of its own: one table tells whose frames they are."""
    about = zip(MECHANISMS, itertools.cycle(ADDRESSES), strict=False)
    parts = [
        each.changed.of_streams(data.draw(examples(each)), [address]) for each, address in about
    ]
    assert stored_after(bridge(*parts)) == bridge(*parts)


def test_a_mechanism_that_is_asked_for_nothing_sends_nothing() -> None:
    edit = etree.tostring(edit_config({"br0": asked(bridge())}, 0, {"br0": None}, ID))
    for namespace in ("ieee802-dot1cb", "dot1q-psfp", "dot1q-stream-filters-gates"):
        assert namespace.encode() not in edit


@ALL
def test_a_change_that_was_recorded_before_there_was_the_mechanism_is_read(
    mechanism: Mechanism[Any],
) -> None:
    stored = StoredPort(None, 0, frozenset(), forwarding=bridge())
    its = SwitchChange(Management("10.99.0.1"), {"br0": stored}, {"br0": asked(bridge())})
    octets = recorded_without(its, mechanism.kept.key)
    found = encoding.change_from_octets(octets, Outcome.UNKNOWN, "")
    assert (found.before, found.after) == (its.before, its.after)
