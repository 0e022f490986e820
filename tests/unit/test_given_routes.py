"""Routes that an operator gives: planned so, judged so, and refused where there is no such way.

t ── s1 ── s2 ── s3 ── l
      │     └─── m
      └─── s4 ───┘ (s4 to s3)
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from cnc import check, planner
from cnc import intent as intents
from cnc.errors import InputError, Unschedulable
from cnc.intent.source import parse
from cnc.keys.written import keys_of
from cnc.model import Forwarding, Intent, Plan
from tests.unit.planner_networks import MS, RING, intent, network, stream

AROUND = ("s1", "s4", "s3")

DOCUMENT = """
name: ring
defaults: {rate: 1Gbps, propagation: 100ns, processing: {min: 1us, max: 5us}, clock-error: 1us,
           gate-margin: 1us, windows: exact, recovery: none}
classes:
  cyclic: {traffic-class: 6, priority: 6, dscp: 46, role: scheduled}
  best-effort: {traffic-class: 0, priority: 0, dscp: 0, role: best-effort}
switches: {s1: {ports: [t, s2, s4]}, s2: {ports: [s1, s3, m]}, s3: {ports: [s2, s4, l]},
           s4: {ports: [s1, s3]}}
end-stations: [t, l, m]
links: [[t/eth0, s1/t], [s1/s2, s2/s1], [s2/s3, s3/s2], [s3/s4, s4/s3], [s4/s1, s1/s4],
        [s3/l, l/eth0], [s2/m, m/eth0]]
streams:
  a: {talker: t, listeners: [l], period: 1ms, payload: 100B, max-latency: 1ms, KEYS}
"""


def read(keys: str, listeners: str = "[l]") -> Intent:
    text = DOCUMENT.replace("KEYS", keys).replace("listeners: [l]", f"listeners: {listeners}")
    return intents.intent_of(parse(text.encode(), "ring.yaml"))


def ways(plan: Plan, name: str = "a") -> list[list[str]]:
    return [[str(hop.egress) for hop in path] for path in plan.streams[name].paths]


def codes(plan: Plan) -> set[str]:
    return {each.code for each in check.judge(plan)}


def test_a_stream_takes_the_route_that_is_given_and_no_shorter_one() -> None:
    plan = planner.plan(read("route: [s1, s4, s3, s2]", "[m]"))
    assert ways(plan) == [["t/eth0", "s1/s4", "s4/s3", "s3/s2", "s2/m"]]
    assert not codes(plan)


def test_each_listener_has_a_route_of_its_own() -> None:
    plan = planner.plan(read("route: [[s1, s4, s3], [s1, s2]]", "[l, m]"))
    assert ways(plan) == [["t/eth0", "s1/s4", "s4/s3", "s3/l", "s1/s2", "s2/m"]]
    assert not codes(plan)


def test_each_of_two_paths_has_a_route_of_its_own() -> None:
    plan = planner.plan(read("paths: 2, route: [[s1, s4, s3], [s1, s2, s3]]"))
    first, second = ways(plan)
    assert "s1/s4" in first
    assert "s1/s2" in second
    assert not codes(plan)


def test_a_stream_in_shared_windows_takes_its_route() -> None:
    plan = planner.plan(read("windows: shared, route: [s1, s4, s3, s2]", "[m]"))
    assert plan.streams["a"].is_shared
    assert ways(plan) == [["t/eth0", "s1/s4", "s4/s3", "s3/s2", "s2/m"]]
    assert not codes(plan)


def test_a_stream_that_comes_to_a_running_plan_takes_its_route() -> None:
    before = planner.plan(read("ip: 6"))
    live = planner.Live(before)
    its = read("route: [s1, s4, s3]").streams["a"]
    live.add([replace(its, name="b")])
    assert ways(live.plan, "b")[0][1] == "s1/s4"
    assert not codes(live.plan)


def test_of_parallel_cables_the_least_loaded_is_taken() -> None:
    text = DOCUMENT.replace("s4: {ports: [s1, s3]}", "s4: {ports: [s1, s1b, s3]}")
    text = text.replace("s1: {ports: [", "s1: {ports: [s4b, ").replace(
        "links: [", "links: [[s1/s4b, s4/s1b], "
    )
    text = text.replace("KEYS", "route: [s1, s4, s3]") + text.splitlines()[-1].replace(
        "  a:", "  b:"
    ).replace("KEYS", "route: [s1, s4, s3]")
    plan = planner.plan(intents.intent_of(parse(text.encode(), "ring.yaml")))
    assert {ways(plan, name)[0][1] for name in "ab"} == {"s1/s4", "s1/s4b"}


def test_full_links_do_not_lead_a_stream_off_its_route() -> None:
    """Four at 25 % of the short way each: without routes two of them go around."""
    load = {"payload_octets": 1500, "period_ns": 50_000, "max_latency_ns": MS}
    given = [stream(name, "t", "l", routes=(("s1", "s2", "s3"),), **load) for name in "abcd"]
    router = planner.routing.Router(wanted := intent(RING, *given))
    trees = router.route_all(wanted.streams.values())
    taken = {str(router.links[link].source) for (tree,) in trees.values() for link in tree}
    assert "s1/s4" not in taken


def test_the_judge_refuses_a_plan_that_leads_a_stream_elsewhere() -> None:
    plan = planner.plan(read("route: [s1, s4, s3]"))
    its = replace(plan.intent.streams["a"], routes=(("s1", "s2", "s3"),))
    other = replace(plan, intent=replace(plan.intent, streams={"a": its}))
    (found,) = check.judge(other)
    assert found.code == "given-route"
    assert found.text == "goes to l by s1 - s4 - s3, its route is s1 - s2 - s3"


def test_the_judge_compares_each_path_with_its_route() -> None:
    plan = planner.plan(read("paths: 2, route: [[s1, s4, s3], [s1, s2, s3]]"))
    its = plan.intent.streams["a"]
    swapped = replace(its, routes=(its.routes[1], its.routes[0]))
    other = replace(plan, intent=replace(plan.intent, streams={"a": swapped}))
    assert codes(other) == {"given-route"}


def test_switches_that_would_multiply_copies_refuse_two_routes() -> None:
    net = network(
        "t-s1", "s1-s2", "s1-s3", "s2-s4", "s3-s4", "s4-s5", "s4-s6", "s5-s7", "s6-s7", "s7-l"
    )
    routes = (("s1", "s2", "s4", "s5", "s7"), ("s1", "s3", "s4", "s6", "s7"))
    twice = stream("a", "t", "l", paths=2, routes=routes)
    bridged = replace(net, forwarding=Forwarding.BRIDGED)
    why = "do not keep the routes s1 - s2 - s4 - s5 - s7 and"
    with pytest.raises(Unschedulable, match=why):
        planner.plan(intent(bridged, twice))
    live = planner.Live(planner.plan(intent(bridged, stream("b", "t", "l"))))
    with pytest.raises(Unschedulable, match=why):
        live.add([twice])


@pytest.mark.parametrize(
    ("keys", "listeners", "problem"),
    [
        ("route: [s1, s3]", "[l]", "found s1 - s3, expected a cable from s1 to s3"),
        ("route: [s4, s3]", "[l]", "found s4 - s3, expected a cable from t to s4"),
        ("route: [s1, s2]", "[l]", "found s1 - s2, expected a cable from s2 to l"),
        ("route: [s1, s5, s3]", "[l]", "found 's5', expected a switch"),
        ("route: [s1, s2, s1, s4, s3]", "[l]", "found s1 twice in"),
        ("route: [s1, s2, s3]", "[l, m]", "found 1 route, expected 2, one for each listener"),
        ("paths: 2, route: [s1, s2, s3]", "[l]", "found 1 route, expected 2, one for each path"),
        (
            "paths: 2, route: [[s1, s2, s3], [s1, s2, s3]]",
            "[l]",
            "found the cable s1 - s2 in both routes, expected two paths that share no such cable",
        ),
        (
            "paths: 2, route: [[s1, s2, s3], [s1, s4, s3]]",
            "[l, m]",
            "found 2 routes, 2 paths and 2 listeners, expected one listener",
        ),
        (
            "route: [[s1, s2, s3], [s1, s4, s3, s2]]",
            "[l, m]",
            "by which frames come to s3 from s4, and from s2 by another, expected routes to",
        ),
        ("route: []", "[l]", "streams.a.route: found"),
        ("route: s1", "[l]", "streams.a.route: found"),
    ],
)
def test_a_route_that_the_network_does_not_have_is_refused(
    keys: str, listeners: str, problem: str
) -> None:
    with pytest.raises(InputError) as caught:
        read(keys, listeners)
    assert problem in str(caught.value)
    assert str(caught.value).startswith("ring.yaml:14: streams.a.route:")


def test_a_route_is_written_as_it_is_read() -> None:
    its = read("route: [s1, s4, s3]")
    keys = keys_of(its.streams["a"], its.document)
    assert keys["route"] == [[*AROUND]]


def test_a_running_stream_gets_the_route_that_it_is_given() -> None:
    running = planner.plan(read("ip: 6"))
    plan = planner.plan(read("route: [s1, s4, s3]"), keep=running)
    assert ways(plan)[0][1] == "s1/s4"
    assert ways(running)[0][1] == "s1/s2"
