"""Stream filters as part of rollouts: real agents and NETCONF servers, bridges in memory."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cnc import intent as intents
from cnc.errors import RolloutError
from cnc.mechanisms.handles import StoredIdentities
from cnc.mechanisms.stream_filters.model import (
    CountedFrames,
    FilteredStream,
    StoredFilters,
    StreamFilter,
    StreamFilters,
    normal,
)
from cnc.model import InHardware, Parts, Plan, StoredBridge
from cnc.planner import plan as compute
from cnc.rollout import follow, status
from tests.intent_documents import (
    CLASSES,
    addresses_of,
    class_of,
    defaults_of,
    stream,
    topology,
)
from tests.stack.netconfd_process import wait_until
from tests.stack.test_bridge_rollout import (  # noqa: F401  the fixtures
    BOTH,
    BRIDGE,
    SWITCHES,
    Network,
    network,
    running,
    told,
)


def planned(plan: Plan) -> dict[str, list[StreamFilter]]:
    return {
        name: [normal(each) for each in its[StreamFilters].filters]
        for name, its in told(plan).items()
    }


def filters(network: Network) -> dict[str, list[StreamFilter]]:  # noqa: F811
    """What the kernels of the switches have, in memory."""
    return {name: [*network.forwards(name)[StreamFilters].filters] for name in SWITCHES}


@pytest.mark.parametrize("policing", ["", "drop"])
def test_a_push_brings_stream_filters_in_the_same_change(network: Network, policing: str):  # noqa: F811
    plan = network.plan(policing=policing)
    network.push(plan)
    assert filters(network) == planned(plan)
    assert len(filters(network)["s1"]) == 3
    configured = {name: [*network.configured(name)[StreamFilters].filters] for name in SWITCHES}
    assert configured == planned(plan)
    assert all(port.agrees for port in status(plan, connect=network.running.connect))
    assert not network.push(plan).changes


def test_a_filter_is_pending_until_its_windows_begin(network: Network):  # noqa: F811
    network.push(network.plan(policing="count"))

    def pending() -> set[bool]:
        report = network.state("s1").bridge(BRIDGE)
        assert report
        return {each.is_pending for each in report.counts[CountedFrames].by_filter.values()}

    wait_until(lambda: pending() == {False})
    network.push(network.plan(policing="drop"))
    assert True in pending()
    wait_until(lambda: pending() == {False})


def stored_filters(network: Network) -> dict[int, StreamFilter | None]:  # noqa: F811
    """By their number the filters that the first switch has."""
    tables = network.stored("s1").ports[BRIDGE][StoredBridge].tables
    return {each.number: each.filter for each in tables[StoredFilters].entries}


def test_a_stream_that_comes_leaves_the_filters_of_others_as_they_are(network: Network):  # noqa: F811
    network.push(network.plan({"motion": ["l1"]}, policing="drop"))
    before = stored_filters(network)
    plan = network.plan(policing="drop")
    network.push(plan)
    after = stored_filters(network)
    of_others = {
        number: its.of
        for number, its in before.items()
        if its and not isinstance(its.of, FilteredStream)
    }
    assert of_others.items() <= {n: its.of for n, its in after.items() if its}.items()
    assert filters(network) == planned(plan)


def test_without_policing_no_filter_and_no_name_stays(network: Network):  # noqa: F811
    network.push(network.plan(policing="drop"))
    network.push(network.plan(policing="off"))
    assert not any(filters(network).values())
    assert all(
        network.stored(name).ports[BRIDGE][StoredBridge].tables == Parts() for name in SWITCHES
    )


def test_path_shows_the_filter_that_the_first_switch_has(network: Network):  # noqa: F811
    plan = network.plan(BOTH, policing="drop")
    network.push(plan)
    found = follow(plan, "motion", connect=network.running.connect)
    assert found.deviations == ()
    first, *rest = [hop.done.get("filters") for hop in found.hops]
    assert first
    assert first.startswith("violations are dropped, the gate opens at ")
    assert not any(rest)


def test_streams_of_two_talkers_to_one_address_have_a_filter_and_a_name_each(
    network: Network,  # noqa: F811
):
    """Both stations are at s1, and send with another PCP to one address of l1."""
    priorities = {"cyclic": 6, "slower": 5}
    shared = {"destination-mac": "02:00:5e:10:00:01", "vlan": 10}
    document = {
        "name": "bridges",
        "forwarding": "bridged",
        "policing": "drop",
        "defaults": defaults_of(network.running),
        **topology(
            [("s1", "s2")], {"t1": "s1", "l2": "s1", "l1": "s2"}, addresses_of(network.running)
        ),
        "classes": {**CLASSES, "slower": class_of(5, "scheduled")},
        "streams": {
            name: stream(talker, "l1", **shared, pcp=priorities[its], **{"class": its})
            for name, talker, its in (("set", "t1", "cyclic"), ("ask", "l2", "slower"))
        },
    }
    plan = compute(intents.from_document(document, "bridges"))
    network.push(plan)
    wanted = planned(plan)["s1"]
    assert filters(network)["s1"] == wanted
    of_streams = [its for its in wanted if isinstance(its.of, FilteredStream)]
    assert [(its.of.port, its.priority) for its in of_streams] == [("l2", 5), ("t1", 6)]
    assert len(network.forwards("s1").entries) == 1
    stored = network.stored("s1").ports[BRIDGE][StoredBridge].tables[StoredIdentities]
    assert sorted(each.named_at for each in stored.entries) == [("l2",), ("t1",)]
    assert not network.push(plan).changes
    assert all(port.agrees for port in status(plan, connect=network.running.connect))
    found = follow(plan, "ask", connect=network.running.connect)
    assert found.deviations == ()
    alone = compute(
        intents.from_document({**document, "streams": {"set": document["streams"]["set"]}}, "one")
    )
    network.push(replace(alone, intent=replace(alone.intent, name="bridges")))
    assert filters(network)["s1"] == planned(alone)["s1"]


def test_filters_that_have_to_be_in_hardware_are_refused_before_anything_changes(
    network: Network,  # noqa: F811
):
    plan = network.plan(policing="drop")
    its = plan.intent.network
    placed = replace(its.bridges["s1"], filters_in_hardware=InHardware.REQUIRED)
    required = replace(its, bridges={**its.bridges, "s1": placed})
    with pytest.raises(RolloutError) as refusal:
        network.push(replace(plan, intent=replace(plan.intent, network=required)))
    reasons = str(refusal.value)
    assert (
        "s1/br0: filters-in-hardware is required, and a BPF program of the kernel is to police "
        "what end stations send: no driver takes it\n" in reasons
    )
    for port in ("l1", "s2", "s3", "t1"):
        in_software = (
            f"s1/{port}: filters-in-hardware is required, and the kernel forwards the frames"
        )
        assert (in_software in reasons) is (port != "l1")
    assert not any(each in reasons for each in ("s2/", "s3/"))
    assert not any(filters(network).values())
    assert not any(network.forwards(name).entries for name in SWITCHES)
