"""Streams to one MAC address in one VLAN, told apart by their PCP.

t ── s1 ── s2 ── s3 ── l
u ──┘│     └─── m
     └──── s4 ───┘ (s4 to s3)
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from cnc import check, planner
from cnc import intent as intents
from cnc.check.change import Judged
from cnc.errors import InputError, Unschedulable
from cnc.intent.source import parse
from cnc.mechanisms.composition import bridge_forwardings, named, stream_names
from cnc.mechanisms.stream_filters.model import FilteredStream, StreamFilters
from cnc.mechanisms.stream_filters.shown import SHOWN
from cnc.model import Intent, IpIdentification, Plan, PriorityAddress, StreamAddress
from cnc.page.guards import guards
from cnc.plans import file as planfile
from cnc.plans.transition import transition
from cnc.service.failures import Failure, of_unschedulable
from tests.unit.bridged_networks import deliveries

MAC, VLAN = "02:00:5e:10:00:01", 100
ADDRESS = StreamAddress(MAC, VLAN)
DOCUMENT = """
name: ring
forwarding: bridged
defaults: {rate: 1Gbps, propagation: 100ns, processing: {min: 1us, max: 5us}, clock-error: 1us,
           gate-margin: 1us, windows: WINDOWS, recovery: none}
classes:
  high: {traffic-class: 6, priority: 6, role: scheduled}
  low: {traffic-class: 5, priority: 5, role: scheduled}
  best-effort: {traffic-class: 0, priority: 0, role: best-effort}
switches: {s1: {ports: [t, u, s2, s4]}, s2: {ports: [s1, s3, m]}, s3: {ports: [s2, s4, l]},
           s4: {ports: [s1, s3]}}
end-stations: [t, u, l, m]
links: [[t/eth0, s1/t], [u/eth0, s1/u], [s1/s2, s2/s1], [s2/s3, s3/s2], [s3/s4, s4/s3],
        [s4/s1, s1/s4], [s3/l, l/eth0], [s2/m, m/eth0]]
streams:
"""
STREAM = (
    "  NAME: {talker: TALKER, listeners: [l], period: 1ms, payload: 100B, max-latency: 1ms, "
    'destination-mac: "02:00:5e:10:00:01", vlan: 100, KEYS}\n'
)


def read(*streams: tuple[str, str], text: str = DOCUMENT, windows: str = "exact") -> Intent:
    """Each of streams a, b, … with its talker and further keys."""
    text = text.replace("WINDOWS", windows) + "".join(
        STREAM.replace("NAME", name).replace("TALKER", talker).replace("KEYS", keys)
        for name, (talker, keys) in zip("abcd", streams, strict=False)
    )
    return intents.intent_of(parse(text.encode(), "ring.yaml"))


TWO_TALKERS = ("t", "pcp: 6"), ("u", "pcp: 5")
ONE_TALKER = ("t", "pcp: 6"), ("t", "pcp: 5")


def found(plan: Plan) -> list[str]:
    return [f"{each.code} {each.where}: {each.text}" for each in check.judge(plan)]


def ways(plan: Plan, name: str) -> list[str]:
    return [str(hop.egress) for hop in plan.streams[name].hops]


def filters(plan: Plan) -> StreamFilters:
    return bridge_forwardings(plan)["s1"][StreamFilters]


@pytest.mark.parametrize("windows", ["exact", "shared"])
@pytest.mark.parametrize("streams", [TWO_TALKERS, ONE_TALKER])
def test_streams_with_one_address_have_one_way_and_one_entry(
    streams: tuple[tuple[str, str], ...], windows: str
) -> None:
    """Each alone would take the way that the other leaves free."""
    plan = planner.plan(read(*streams, windows=windows))
    assert ways(plan, "a")[1:] == ways(plan, "b")[1:]
    told = bridge_forwardings(plan)
    assert [len(told[name].entries) for name in ("s1", "s2", "s3", "s4")].count(0) == 1
    assert all([*its.entries] in ([], [ADDRESS]) for its in told.values())
    for name in plan.streams:
        assert deliveries(plan, told, name)[0] == {"l": 1}
    assert not found(plan)


@pytest.mark.parametrize("streams", [TWO_TALKERS, ONE_TALKER])
def test_each_has_a_filter_of_its_own(streams: tuple[tuple[str, str], ...]) -> None:
    plan = planner.plan(read(*streams))
    of_streams = [its for its in filters(plan).filters if isinstance(its.of, FilteredStream)]
    assert [(its.of.port, its.priority) for its in of_streams] == [
        (streams[0][0], 6),
        (streams[1][0], 5),
    ]
    rows = [row.stream for row in SHOWN.rows(filters(plan), stream_names(plan)) if row.stream]
    assert rows == ["a", "b"]
    assert guards(plan).keys() == {"a", "b"}


def test_a_switch_names_a_stream_at_each_port_by_which_another_talker_sends() -> None:
    its = bridge_forwardings(planner.plan(read(*TWO_TALKERS)))["s1"]
    assert named(its) == {ADDRESS: (("t",), ("u",))}
    its = bridge_forwardings(planner.plan(read(*ONE_TALKER)))["s1"]
    assert named(its) == {ADDRESS: (("t",),)}


def test_an_address_has_the_names_of_its_streams_and_of_each_priority() -> None:
    assert stream_names(planner.plan(read(*TWO_TALKERS))) == {
        ADDRESS: "a and b",
        PriorityAddress(MAC, VLAN, 6): "a",
        PriorityAddress(MAC, VLAN, 5): "b",
    }


def test_ways_that_part_are_refused_with_the_place() -> None:
    """A way that is given leads around the ring, the other does not."""
    with pytest.raises(Unschedulable, match="its path leaves at s1 that of a"):
        planner.plan(
            read(("t", "pcp: 6, route: [s1, s4, s3]"), ("u", "pcp: 5, route: [s1, s2, s3]"))
        )


def test_a_group_with_other_listeners_is_refused() -> None:
    text = DOCUMENT
    streams = STREAM.replace("02:00", "03:00")
    both = [
        streams.replace("NAME", "a").replace("TALKER", "t").replace("KEYS", "pcp: 6"),
        streams.replace("NAME", "b").replace("TALKER", "u").replace("KEYS", "pcp: 5"),
    ]
    both[1] = both[1].replace("[l]", "[l, m]")
    document = text.replace("WINDOWS", "exact") + "".join(both)
    with pytest.raises(Unschedulable, match="which has 03:00:5e:10:00:01 in VLAN 100, too"):
        planner.plan(intents.intent_of(parse(document.encode(), "ring.yaml")))


@pytest.mark.parametrize(
    ("streams", "problem"),
    [
        ((("t", "pcp: 6"), ("u", "pcp: 6")), "streams.b.destination-mac: found 02:00:5e:10:00:01"),
        ((("t", "pcp: 6"), ("u", "class: low")), "streams.b.destination-mac: found"),
        ((("t", "class: high"), ("u", "pcp: 5")), "or a pcp of its own for each of these streams"),
        (
            (("t", "pcp: 6, identification: {source-mac: '02:00:00:00:00:09'}"), ("u", "pcp: 5")),
            "streams.a.identification: found one, and 02:00:5e:10:00:01 in VLAN 100",
        ),
    ],
)
def test_what_no_switch_could_tell_apart_is_refused(
    streams: tuple[tuple[str, str], ...], problem: str
) -> None:
    with pytest.raises(InputError) as caught:
        read(*streams)
    assert problem in str(caught.value)


def test_two_paths_to_an_address_of_others_are_refused() -> None:
    text = STREAM.replace("02:00", "03:00").replace("TALKER", "t")
    both = (
        text.replace("NAME", name).replace("KEYS", keys)
        for name, keys in (("a", "pcp: 6, paths: 2"), ("b", "pcp: 5"))
    )
    document = DOCUMENT.replace("WINDOWS", "exact") + "".join(both)
    with pytest.raises(InputError, match=r"streams\.a\.paths: found 2, and 03:00:5e:10:00:01"):
        intents.intent_of(parse(document.encode(), "ring.yaml"))


def test_the_judge_refuses_two_streams_of_one_class_to_one_address() -> None:
    text = DOCUMENT.replace("WINDOWS", "exact") + "".join(
        STREAM.replace("NAME", name)
        .replace("TALKER", "t")
        .replace(MAC, f"02:00:5e:10:00:0{number}")
        .replace("KEYS", "class: high")
        for number, name in enumerate("ab", 1)
    )
    plan = planner.plan(intents.intent_of(parse(text.encode(), "ring.yaml")))
    other = replace(plan, addresses=dict.fromkeys("ab", ADDRESS))
    assert f"address b: has {ADDRESS}, as stream a of the same class" in found(other)


def apart(*streams: tuple[str, str, str]) -> Plan:
    """A plan of streams with an address each: talker, listener, and further keys."""
    text = DOCUMENT.replace("WINDOWS", "exact") + "".join(
        STREAM.replace("NAME", name)
        .replace("TALKER", talker)
        .replace("[l]", f"[{listener}]")
        .replace(MAC, f"02:00:5e:10:00:0{number}")
        .replace("KEYS", keys)
        for number, (name, (talker, listener, keys)) in enumerate(
            zip("ab", streams, strict=True), 1
        )
    )
    return planner.plan(intents.intent_of(parse(text.encode(), "ring.yaml")))


def joined(plan: Plan) -> Plan:
    """The plan with one address for all."""
    streams = {name: replace(its, destination_mac=MAC) for name, its in plan.intent.streams.items()}
    addresses = dict.fromkeys(plan.streams, ADDRESS)
    return replace(plan, addresses=addresses, intent=replace(plan.intent, streams=streams))


def test_the_judge_sees_where_an_entry_leads_frames_of_another_stream() -> None:
    plan = apart(
        ("t", "l", "pcp: 6, route: [s1, s2, s3]"), ("u", "l", "pcp: 5, route: [s1, s4, s3]")
    )
    assert any("forwarding-stray" in each for each in found(joined(plan)))


def test_a_stream_that_comes_to_an_address_may_run_beside_the_one_that_has_it() -> None:
    one = planner.plan(read(TWO_TALKERS[0]))
    both = planner.plan(read(*TWO_TALKERS), keep=one)
    judged = Judged(one)
    # That lists change at one time is another matter: see `cnc.check.change.split`.
    assert "address" not in {each.code for each in judged.compatible(both)}
    assert judged.after(both) == []
    assert judged.after(one) == []


def test_the_judge_of_a_change_looks_again_at_those_who_share_an_entry() -> None:
    """The stream that comes the other way is as it should be, and has u get those of the other."""
    both = apart(("t", "m", "pcp: 6, route: [s1, s2]"), ("m", "u", "pcp: 5, route: [s2, s1]"))
    one = replace(
        both,
        streams={"a": both.streams["a"]},
        addresses={"a": ADDRESS},
        intent=replace(both.intent, streams={"a": both.intent.streams["a"]}),
    )
    one = replace(one, gates=planner.plan(one.intent).gates)
    judged = Judged(one)
    assert judged.violations == []
    assert [(each.code, each.where) for each in judged.after(joined(both))] == [
        ("forwarding-stray", "a")
    ]


def test_switches_hold_one_entry_for_all_that_share_it() -> None:
    text = DOCUMENT.replace("s1: {ports", "s1: {filtering-entries-max: 1, ports")
    plan = planner.plan(read(*TWO_TALKERS, text=text))
    assert plan.streams.keys() == {"a", "b"}
    assert not found(plan)


def test_a_running_stream_keeps_its_place_beside_one_that_shares_its_address() -> None:
    running = planner.plan(read(TWO_TALKERS[0]))
    plan = planner.plan(read(*TWO_TALKERS), keep=running)
    assert plan.streams["a"] == running.streams["a"]
    assert ways(plan, "b")[1:] == ways(plan, "a")[1:]
    assert not transition(running, plan).exposed
    assert not found(plan)


def test_one_of_two_that_share_an_address_may_go() -> None:
    live = planner.Live(planner.plan(read(*TWO_TALKERS)))
    live.remove(["a"])
    assert live.plan.addresses == {"b": ADDRESS}
    with pytest.raises(Unschedulable, match="which stream b has: streams that share an") as refused:
        live.add([replace(live.plan.intent.streams["b"], name="c")])
    assert of_unschedulable(refused.value) == {"c": Failure.ADDRESS_IN_USE}
    assert not found(live.plan)
    live.remove(["b"])
    assert not live.plan.addresses


@pytest.mark.parametrize("streams", [TWO_TALKERS, ONE_TALKER])
def test_a_stream_joins_the_address_of_one_that_runs_and_takes_its_way(
    streams: tuple[tuple[str, str], ...],
) -> None:
    one = planner.plan(read(streams[0]))
    live, judged = planner.Live(one), Judged(one)
    changes = live.add([read(*streams).streams["b"]])
    assert changes.addresses == {"b": ADDRESS}
    assert ways(live.plan, "b")[1:] == ways(live.plan, "a")[1:]
    assert not found(live.plan)
    assert judged.after(live.plan) == []
    live.remove(["b"])
    assert judged.after(live.plan) == []
    assert live.plan.streams == one.streams


def test_both_may_come_at_once() -> None:
    wanted = read(*TWO_TALKERS)
    document = {**wanted.document, "streams": {}}
    live = planner.Live(planner.plan(replace(wanted, streams={}, document=document)))
    live.add([*wanted.streams.values()])
    assert live.plan.addresses == {"a": ADDRESS, "b": ADDRESS}
    assert not found(live.plan)


@pytest.mark.parametrize("translated", ["a", "b"])
def test_no_stream_joins_the_address_of_another_where_a_switch_translates_frames_of_either(
    translated: str,
) -> None:
    """A switch that translates looks at no PCP."""
    streams = read(*TWO_TALKERS).streams
    one = read(TWO_TALKERS[0])
    either = {"a": one.streams["a"], "b": streams["b"]}
    either[translated] = replace(
        either[translated], identification=IpIdentification("192.0.2.1"), ip_version=4
    )
    live = planner.Live(planner.plan(replace(one, streams={"a": either["a"]})))
    with pytest.raises(Unschedulable, match="which stream a has: streams that share an"):
        live.add([either["b"]])
    assert live.plan.streams.keys() == {"a"}


def test_a_stream_whose_way_would_part_from_the_one_with_its_address_is_refused() -> None:
    live = planner.Live(planner.plan(read(("t", "pcp: 6, route: [s1, s2, s3]"))))
    both = read(("t", "pcp: 6, route: [s1, s2, s3]"), ("u", "pcp: 5, route: [s1, s4, s3]")).streams
    with pytest.raises(Unschedulable, match="its path leaves at s1 that of a, which has"):
        live.add([both["b"]])
    assert not found(live.plan)


def test_streams_that_share_an_entry_count_as_one_where_others_come() -> None:
    text = DOCUMENT.replace("s1: {ports", "s1: {filtering-entries-max: 2, ports")
    live = planner.Live(planner.plan(read(*TWO_TALKERS, text=text)))
    other = replace(live.plan.intent.streams["b"], name="c", destination_mac="02:00:5e:10:00:02")
    live.add([other])
    assert not found(live.plan)
    with pytest.raises(Unschedulable, match="3 streams cross switch s1, which holds 2 filtering"):
        live.add([replace(other, name="d", destination_mac="02:00:5e:10:00:03")])
    live.remove(["a"])  # b still has the entry
    with pytest.raises(Unschedulable, match="3 streams cross switch s1, which holds 2 filtering"):
        live.add([replace(other, name="d", destination_mac="02:00:5e:10:00:03")])
    live.remove(["b"])
    live.add([replace(other, name="d", destination_mac="02:00:5e:10:00:03")])


def test_a_plan_file_has_both() -> None:
    plan = planner.plan(read(*TWO_TALKERS))
    assert planfile.parse(planfile.dump(plan), "plan.json").addresses == plan.addresses
