"""While some nodes go by one plan and the rest by the next, those that stay keep their promise."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from cnc.check import Violation, judge
from cnc.check.change import Judged
from cnc.model import IpIdentification, Plan, StreamAddress
from cnc.planner import Live, plan
from tests.simulator.changes import WALKS
from tests.simulator.mixtures import mixed, outcomes
from tests.simulator.mutations import with_stream
from tests.unit.bridged_networks import RING5, bridged
from tests.unit.planner_networks import LINE, US, intent, stream
from tests.unit.test_live_bridged import after

FLOW, OTHER = stream("flow", "t", "l"), stream("other", "t", "l")
CUT = {"s1/s2", "s2/s1"}


@pytest.fixture(scope="module")
def running() -> Plan:
    return plan(intent(LINE, FLOW, OTHER))


def compatible(before: Plan, following: Plan) -> list[Violation]:
    return Judged(before).compatible(following)


def wanted_later(running: Plan, name: str) -> Plan:
    """The plan in which a stream is sent at another time."""
    later = replace(running.intent.streams[name], earliest_ns=500 * US)
    asked = replace(running.intent, streams={**running.intent.streams, name: later})
    return plan(asked, keep=running)


# --- what is compatible ---------------------------------------------------------------------------


@pytest.mark.parametrize("kind", sorted(WALKS))
def test_mixtures_that_are_to_be_sound_are(kind: str) -> None:
    counts: Counter[str] = Counter()
    for seed in range(1, 4):
        for outcome in outcomes(kind, seed):
            assert not outcome.startswith("WRONG"), f"walk {kind} {seed}: {outcome}"
            counts[outcome] += 1
    assert counts["at once"] > 0


def test_a_stream_may_come_while_some_switches_do_not_know_it(running: Plan) -> None:
    more = stream("more", "t", "l")
    longer = after(running, Live(running).add([more]), more)
    assert compatible(running, longer) == []


def test_a_stream_that_goes_is_sent_until_its_talker_stops(running: Plan) -> None:
    shorter = after(running, Live(running).remove(["other"]), without="other")
    found = compatible(running, shorter)
    assert {each.where for each in found if each.code == "gate-window"} == {"s1/s2", "s2/l"}
    assert all("other" in each.text for each in found)
    assert Judged(running).compatible(shorter, silent=["other"]) == []


def test_what_another_list_does_to_a_stream_that_stays_names_port_and_stream(running: Plan) -> None:
    following = wanted_later(running, "other")
    (path,) = following.streams["flow"].paths
    assert compatible(running, replace(following, gates=running.gates)) != []
    shut = with_stream(running, "flow", following.streams["flow"])
    assert compatible(running, shut) == []
    moved = tuple(replace(hop, offset_ns=hop.offset_ns + 200 * US) for hop in path)
    planned = replace(following.streams["flow"], paths=(moved,))
    found = compatible(running, with_stream(running, "flow", planned))
    assert {each.code for each in found} == {"gate-window", "gate-exclusive", "gate-guard"}
    assert all("flow" in each.text for each in found)


def test_plans_for_other_networks_are_not_compatible(running: Plan) -> None:
    net = replace(running.intent.network, clock_error_ns=0)
    other = replace(running, intent=replace(running.intent, network=net))
    assert [each.code for each in compatible(running, other)] == ["mixture"]


# --- what switches are told -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def around() -> tuple[Plan, Plan]:
    """Two plans of a ring, of which the second has a stream on the other way."""
    former = plan(bridged(RING5, stream("around", "e1", "e2"), stream("stays", "e4", "e3")))
    net = former.intent.network
    links = {port: link for port, link in net.links.items() if str(port) not in CUT}
    later = replace(former.intent.streams["around"], earliest_ns=500 * US)
    wanted = replace(former.intent, streams={**former.intent.streams, "around": later})
    cut = replace(wanted, network=replace(net, links=links))
    following = replace(plan(cut, keep=former), intent=wanted)
    assert following.streams["stays"] == former.streams["stays"]
    return former, following


def test_no_stream_goes_another_way_under_its_address(around: tuple[Plan, Plan]) -> None:
    former, following = around
    assert former.addresses == following.addresses  # no push reaches its talker
    assert "address" in {each.code for each in compatible(former, following)}


def test_an_address_that_is_in_use_is_not_given_to_a_stream_that_comes() -> None:
    former = plan(bridged(RING5, stream("old", "e1", "e2")))
    following = plan(bridged(RING5, stream("new", "e4", "e3")))
    assert former.addresses["old"] == following.addresses["new"]
    assert "address" in {each.code for each in compatible(former, following)}
    assert Judged(former).compatible(following, silent=["old"]) == []


def test_frames_that_are_on_the_way_are_not_taken_for_those_of_a_stream_that_comes() -> None:
    known_by = IpIdentification("192.0.2.1")
    stations = {
        name: replace(its, mac=f"02:00:00:00:00:0{name[1]}")
        for name, its in RING5.end_stations.items()
    }
    ring = replace(RING5, end_stations=stations)
    old = stream("old", "e1", "e2", identification=known_by, ip_version=4)
    new = replace(old, name="new", listeners=("e3",))
    former, following = plan(bridged(ring, old)), plan(bridged(ring, new))
    address = StreamAddress("06:54:53:4e:00:77", following.addresses["new"].vlan_id)
    following = replace(following, addresses={"new": address})
    assert judge(following) == []
    assert "identification" in {each.code for each in compatible(former, following)}


def test_a_stream_that_moves_is_lost_while_its_talker_alone_goes_by_the_next_plan(
    running: Plan,
) -> None:
    following = wanted_later(running, "other")
    assert following.streams["flow"] == running.streams["flow"]
    assert compatible(running, following) != []
    assert judge(mixed(running, following, {"t"})) != []
