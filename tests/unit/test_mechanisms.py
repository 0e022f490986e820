"""What each mechanism promises the rooms that ask all of them: one test for all of `MECHANISMS`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from cnc.data_tree.tree import BridgeReport, PortReport
from cnc.finding import Verdict
from cnc.mechanism import Mechanism
from cnc.mechanisms.composition import differences, settings_summary, within
from cnc.mechanisms.forwarding.preflight import examine_bridge
from cnc.mechanisms.modules import module_filter, needs_modules
from cnc.mechanisms.registry import MECHANISMS
from cnc.model import (
    NO_FORWARDING,
    BridgeForwarding,
    Management,
    Parts,
    PortRef,
    StoredBridge,
    StoredPort,
    StreamAddress,
)
from cnc.plans.transition import joined, on_ports
from cnc.rollout.compare import needs_change
from cnc.rollout.history import encoding
from cnc.rollout.history.record import Outcome, SwitchChange
from cnc.switch.filters import configuration_filter, state_filter, watch_filter
from cnc.switch.payload import edit_config
from cnc.switch.readback import stored_ports
from cnc.switch.rollout_id import RolloutId
from tests.unit.asked import asked
from tests.unit.mechanism_examples import (
    ADDRESSES,
    CAMERA,
    EXAMPLES,
    FOREIGN,
    NAMES,
    OTHER_VLAN_ID,
    PORTS,
    VLAN_ID,
    Streams,
)
from tests.unit.places import bridge_report, reported_bridge, stored_bridge
from tests.unit.rollout_history import recorded_without
from tests.unit.stored_edits import applied, as_reported, entries

ID = RolloutId("0e1f3ac2-6f0c-4c6b-9f0c-2d0f6a5a7d11", "operator@cnc", "2026-11-23T09:00:00Z")
CHECKOUT = Path(__file__).parents[2]
FEW = settings(max_examples=25)
ALL = pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda each: each.name)


def examples(mechanism: Mechanism[Any], streams: Streams = ADDRESSES) -> st.SearchStrategy[Any]:
    return EXAMPLES[mechanism.part](streams)


def bridge(*parts: object) -> BridgeForwarding:
    """A bridge by which two streams pass, with these parts."""
    entries = dict.fromkeys(ADDRESSES, ("s2",))
    return BridgeForwarding(entries, {VLAN_ID: PORTS}, (), NAMES, Parts.of(*parts))


def rows_of(mechanism: Mechanism[Any], its: BridgeForwarding) -> set[Any]:
    """A part, in whatever order a server has the entries of a table."""
    return {*mechanism.kept.rows(its[mechanism.part])}


def with_foreign_rows(
    mechanism: Mechanism[Any], its: BridgeForwarding, foreign: list[Any]
) -> BridgeForwarding:
    """A bridge that has rows of a stream in another VLAN as well, as another client set them."""
    rows = *mechanism.kept.rows(its[mechanism.part]), *foreign
    return replace(
        its,
        entries={**its.entries, FOREIGN: ("s4",)},
        vlans={**its.vlans, OTHER_VLAN_ID: PORTS},
    ).having(mechanism.kept.part(rows))


def foreign_rows(mechanism: Mechanism[Any], data: st.DataObject) -> list[Any]:
    its = data.draw(examples(mechanism, [FOREIGN]))
    own = [*mechanism.kept.rows(mechanism.changed.within(its, {VLAN_ID}))]
    found = [each for each in mechanism.kept.rows(its) if each not in own]
    assert found
    return found


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


def sent(desired: BridgeForwarding, before: StoredPort | None = None) -> etree._Element:
    return edit_config({"br0": asked(desired)}, 0, {"br0": before}, ID)


def stored(config: etree._Element) -> StoredPort:
    return stored_ports(config, ["br0"])["br0"]


def forwarding(config: etree._Element) -> BridgeForwarding | None:
    return stored(config)[StoredBridge].forwarding


@ALL
@FEW
@given(data=st.data())
def test_what_is_sent_to_a_switch_is_what_is_read_back(
    mechanism: Mechanism[Any], data: st.DataObject
) -> None:
    its = bridge(data.draw(examples(mechanism)))
    config = sent(its)
    assert forwarding(config) == its
    report = reported_bridge(as_reported(config))
    assert report.forwarding.parts == its.parts


@FEW
@given(data=st.data())
def test_what_mechanisms_send_together_is_what_is_read_back(data: st.DataObject) -> None:
    """Each of a stream of its own, then of another's: one table tells whose frames they are."""
    streams = [StreamAddress(f"03:00:00:00:01:{n:02x}", VLAN_ID) for n in range(len(MECHANISMS))]
    first, second = (
        replace(
            bridge(
                *(
                    data.draw(examples(mechanism, [own]))
                    for mechanism, own in zip(MECHANISMS, its, strict=True)
                )
            ),
            entries=dict.fromkeys(streams, ("s2",)),
        )
        for its in (streams, streams[1:] + streams[:1])
    )
    config = sent(first)
    assert forwarding(config) == first
    config = applied(config, sent(second, stored(config)))
    found = forwarding(config)
    assert found
    assert all(rows_of(each, found) == rows_of(each, second) for each in MECHANISMS)
    assert entries(config) == entries(sent(second))


@ALL
@FEW
@given(data=st.data())
def test_the_next_push_leaves_what_it_asks_for_and_what_others_have(
    mechanism: Mechanism[Any], data: st.DataObject
) -> None:
    before, after = (bridge(data.draw(examples(mechanism))) for _ in range(2))
    foreign = foreign_rows(mechanism, data)
    config = sent(with_foreign_rows(mechanism, before, foreign))
    config = applied(config, sent(after, stored(config)))
    found, wanted = forwarding(config), with_foreign_rows(mechanism, after, foreign)
    assert found
    assert rows_of(mechanism, found) == rows_of(mechanism, wanted)
    assert entries(config) == entries(sent(wanted))


@ALL
@FEW
@given(data=st.data())
def test_what_others_have_in_other_vlans_is_no_difference(
    mechanism: Mechanism[Any], data: st.DataObject
) -> None:
    its = bridge(data.draw(examples(mechanism)))
    whole = with_foreign_rows(mechanism, its, foreign_rows(mechanism, data))
    configured = stored_bridge(whole)
    assert needs_change(asked(its), configured, kernel(whole)) is None


def kernel(does: BridgeForwarding, *lacking: str) -> PortReport:
    return bridge_report(BridgeReport(PORTS, does, lacking_modules=frozenset(lacking)))


def failures(desired: BridgeForwarding, report: PortReport) -> list[tuple[str, str | None]]:
    found = examine_bridge(PortRef("s1", "br0"), desired, report)
    return [(each.text, each.hint) for each in found if each.verdict is Verdict.FAILED]


@ALL
@FEW
@given(data=st.data())
def test_a_switch_without_a_module_prevents_a_change_that_needs_it(
    mechanism: Mechanism[Any], data: st.DataObject
) -> None:
    its = data.draw(examples(mechanism))
    needs = mechanism.switch.yang
    for module in mechanism.switch.modules:
        report = kernel(bridge(), module)
        assert failures(bridge(), report) == []
        assert any(
            text.startswith(f"cannot {needs.task} ")
            and text.endswith(f": the YANG module {module} is not installed")
            and needs.otherwise in (hint or "")
            for text, hint in failures(bridge(its), report)
        )


@ALL
@pytest.mark.parametrize("can", [True, False])
def test_a_switch_tells_of_its_modules_if_it_may(mechanism: Mechanism[Any], can: bool) -> None:
    """A user who may not read the YANG library learns it from the refusal of the edit."""
    for module in mechanism.switch.modules:
        data, library = sent(bridge()), module_filter()
        (module_set,) = library
        for each in module_set:
            if each[0].text == module and not can:
                module_set.remove(each)
        data.append(library)
        assert (module not in reported_bridge(data).lacking_modules) is can
    nothing = reported_bridge(sent(bridge()))
    assert nothing.lacking_modules.isdisjoint(mechanism.switch.modules)


@ALL
@FEW
@given(data=st.data())
def test_a_switch_is_asked_for_its_modules_only_where_it_needs_them(
    mechanism: Mechanism[Any], data: st.DataObject
) -> None:
    assert needs_modules({"br0": asked(bridge(data.draw(examples(mechanism))))})
    assert not needs_modules({"br0": asked(bridge()), "s2": asked(None)})


@ALL
@FEW
@given(data=st.data())
def test_what_is_set_beside_bridges_is_asked_for_whole_where_bridges_forward(
    mechanism: Mechanism[Any], data: st.DataObject
) -> None:
    nothing = tags(edit_config({}, 0, {}, ID))
    of_bridges, beside = (
        tags(sent(its)) - nothing for its in (bridge(), bridge(data.draw(examples(mechanism))))
    )
    assert of_bridges < beside
    for of in (configuration_filter, state_filter, watch_filter):
        wanted = of(["s2"], bridges=["br0"])
        assert beside <= tags(wanted)
        assert beside - of_bridges <= tags(each for each in wanted if not len(each))
        assert beside.isdisjoint(tags(of(["s2"])))


def tags(elements: Iterable[etree._Element]) -> set[object]:
    return {each.tag for each in elements}


@ALL
def test_a_change_that_was_recorded_before_there_was_the_mechanism_is_read(
    mechanism: Mechanism[Any],
) -> None:
    stored = stored_bridge(bridge())
    its = SwitchChange(Management("10.99.0.1"), {"br0": stored}, {"br0": asked(bridge())})
    octets = recorded_without(its, mechanism.kept.key)
    found = encoding.change_from_octets(octets, Outcome.UNKNOWN, "")
    assert (found.before, found.after) == (its.before, its.after)
