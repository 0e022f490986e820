"""What operators see of policing in `status`, `watch`, metrics and `path`; what a change keeps."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from cnc.check.transition import judge_transition
from cnc.cli import render
from cnc.cli.render import comparison
from cnc.data_tree.state import SwitchState
from cnc.data_tree.tree import AgentReport, BridgeReport, PortReport
from cnc.json_output.document import Forwarding as ForwardingDocument
from cnc.mechanisms.composition import bridge_forwardings
from cnc.mechanisms.stream_filters.counts import Refused, refused_frames
from cnc.mechanisms.stream_filters.model import (
    NO_POLICING,
    Cause,
    CountedFrames,
    FilterCapacity,
    FilterCounts,
    FilteredStream,
    Policing,
    PolicingRules,
    Strangers,
    StreamFilter,
    StreamFilters,
    WindowGate,
)
from cnc.mechanisms.stream_filters.watched import HINT_TALKERS, FilteredFrames
from cnc.model import (
    NS_PER_S,
    BridgeForwarding,
    EndStation,
    Intent,
    Management,
    Parts,
    Plan,
    PortRef,
)
from cnc.page.data import page_data
from cnc.planner import plan
from cnc.plans.difference import difference
from cnc.plans.transition import joined, transition
from cnc.rollout.compare import PortStatus
from cnc.rollout.compare import _port_status as port_status
from cnc.rollout.goal import Goal
from cnc.rollout.path import Seen, StreamPath, walk
from cnc.rollout.stream_counts import Look, compared
from cnc.switch.device import DeviceError, Managed, StoredSwitch
from cnc.watch.condition import Event
from cnc.watch.metrics import _of_mechanisms as metrics_of_mechanisms
from cnc.watch.observation import Poll
from cnc.watch.observer import Observer
from tests.json_documents import documented
from tests.unit.asked import asked, desired_ports
from tests.unit.bridged_networks import RING5, bridged
from tests.unit.places import bridge_report
from tests.unit.planner_networks import stream

START = datetime(2026, 11, 23, 9, 0, tzinfo=UTC)
CUT = (PortRef("s1", "s2"), PortRef("s2", "s1"))
DROPPED = PolicingRules(Policing.DROP)
PRIORITY = 6


def managed(intent: Intent, *stations: str) -> Intent:
    ends = {
        name: EndStation(name, Management(f"10.99.3.{number}"))
        for number, name in enumerate(stations, start=1)
    }
    net = intent.network
    return replace(intent, network=replace(net, end_stations={**net.end_stations, **ends}))


@pytest.fixture(scope="module")
def made() -> Plan:
    around, stays = stream("around", "e1", "e2"), stream("stays", "e4", "e3")
    intent = bridged(RING5, around, stays).having(DROPPED)
    return plan(managed(intent, "e1", "e4"))


def report(
    made: Plan, switch: str, met: Mapping[str, int] | None = None, pending: str | None = None
) -> PortReport:
    """A bridge that does as planned; `met` are frames that were refused, by stream, or by port. The
    gates of the stream that is `pending` have not begun their lists."""
    does = bridge_forwardings(made)[switch]
    names = {(a.destination_mac, a.vlan_id): name for name, a in made.addresses.items()}
    counts: dict[StreamFilter, FilterCounts] = {}
    for its in does[StreamFilters].filters:
        key = its.of.port
        if isinstance(its.of, FilteredStream):
            key = names[its.of.destination_mac, its.of.vlan_id]
        elif its.priority != PRIORITY:
            key = ""
        counts[its] = FilterCounts(1_000, (met or {}).get(key, 0), 0, key == pending)
    bridge = BridgeReport((), does, counts=Parts.of(CountedFrames(counts)))
    return bridge_report(bridge)


# --- status --------------------------------------------------------------------------------------


def seen(made: Plan, *met: Mapping[str, int]) -> PortStatus:
    """What `status` finds by two looks, with the frames that were refused by each."""
    desired = desired_ports(made, "s1")["br0"][BridgeForwarding]
    looks = [Look(poll(made, after_s, its).state, {}) for after_s, its in enumerate(met)]
    return port_status(
        PortRef("s1", "br0"),
        asked(desired),
        looks[-1].state.ports["br0"],
        (),
        compared("br0", desired, looks[0], looks[-1]),
        stored=None,
        is_crossed=True,
        hint=None,
    )


def verdict(made: Plan, met: Mapping[str, int]) -> tuple[str, bool]:
    found = seen(made, met)
    return found.verdict, found.agrees


def test_status_names_whose_frames_did_not_come_as_planned(made: Plan) -> None:
    assert verdict(made, {}) == ("running", True)
    text, agrees = verdict(made, {"around": 12, "e1": 1})
    assert text == (
        "running; 12 frames of around arrived at e1 outside their window or beyond their limit: "
        "dropped, 1 unidentified frame with priority 6 arrived at e1: dropped"
    )
    assert agrees


def test_frames_that_come_while_status_looks_are_a_problem(made: Plan) -> None:
    found = seen(made, {"around": 12, "e1": 1}, {"around": 15, "e1": 1})
    assert found.verdict == (
        "running; 15 frames of around arrived at e1 outside their window or beyond their limit: "
        "dropped, 3 of them just now, 1 unidentified frame with priority 6 arrived at e1: dropped"
    )
    assert not found.agrees
    assert found.hints == (HINT_TALKERS,)
    stranger = seen(made, {"around": 12, "e1": 1}, {"around": 12, "e1": 9})
    assert stranger.hints == ("find the program that sends on the station at e1",)
    counting = replace(made, intent=made.intent.having(PolicingRules(Policing.COUNT)))
    assert seen(counting, {"e1": 1}, {"e1": 9}).hints == (
        "find the program that sends on the station at e1; `policing: drop` keeps its frames out",
    )
    counts = [each for each in found.counts.of(FilteredFrames) if each.out_of_window]
    assert [(each.stream, each.port, each.out_of_window, each.lately) for each in counts] == [
        ("around", "e1", 15, 3),
        (None, "e1", 1, 0),
    ]


@pytest.mark.parametrize("pending", [(True, True), (True, False), (False, True)])
def test_what_comes_as_planned_before_is_no_problem_until_the_new_windows_begin(
    made: Plan, pending: tuple[bool, bool]
) -> None:
    """Frames that are too long for the new plan, and those with the priority of another class."""
    desired = desired_ports(made, "s1")["br0"][BridgeForwarding]
    looks = [
        Look(poll(made, after_s, met, "around" if its else None).state, {})
        for after_s, met, its in zip(
            (0, 1), ({"around": 12, "e1": 1}, {"around": 15, "e1": 4}), pending, strict=True
        )
    ]
    counts = compared("br0", desired, *looks)
    assert counts.problems == counts.hints == ()
    assert {each.lately for each in counts.of(FilteredFrames)} == {0}


def test_frames_too_long_are_told_from_those_out_of_their_window(made: Plan) -> None:
    desired = desired_ports(made, "s1")["br0"][BridgeForwarding]
    long = {Refused(0, Cause.LENGTH): 2}
    assert refused_frames(desired, long) == ["2 frames of around arrived at e1 too long: dropped"]
    both = {**long, Refused(0, Cause.GATE): 3}
    why = "3 outside their window or beyond their limit, and 2 too long"
    assert refused_frames(desired, both) == [f"5 frames of around arrived at e1, {why}: dropped"]


def test_status_says_that_counted_frames_passed(made: Plan) -> None:
    counting = replace(made, intent=made.intent.having(PolicingRules(Policing.COUNT)))
    text, _ = verdict(counting, {"around": 3})
    assert text.endswith(
        "; 3 frames of around arrived at e1 outside their window or beyond their limit: counted "
        "and forwarded"
    )


# --- watch and metrics ---------------------------------------------------------------------------


def poll(made: Plan, after_s: float, met: Mapping[str, int], pending: str | None = None) -> Poll:
    now_ns = round(after_s * NS_PER_S)
    reports = {"br0": report(made, "s1", met, pending)}
    state = SwitchState(AgentReport(37, 100), reports, now_ns, now_ns)
    at = START + timedelta(seconds=after_s)
    return Poll("s1", at, state, StoredSwitch({}, None), {})


def policed(events: Sequence[Event]) -> list[tuple[str, str]]:
    return [(each.what, each.text) for each in events if each.kind == "policed"]


def test_watch_tells_when_an_end_station_begins_to_send_otherwise_and_when_it_has_ended(
    made: Plan,
) -> None:
    observer = Observer(made, is_known=lambda _: True)
    assert policed(observer.take(poll(made, 0, {"around": 5}))) == []
    text = "2 frames of around arrived at e1 outside their window or beyond their limit: dropped"
    assert policed(observer.take(poll(made, 10, {"around": 7}))) == [("began", text)]
    assert policed(observer.take(poll(made, 20, {"around": 7}))) == []
    assert policed(observer.take(poll(made, 90, {"around": 7}))) == [("ended", text)]


def test_watch_does_not_blame_a_talker_that_sends_as_planned_before(made: Plan) -> None:
    observer = Observer(made, is_known=lambda _: True)
    assert policed(observer.take(poll(made, 0, {}))) == []
    # A push: of what has come since, some may have come before the look.
    assert policed(observer.take(poll(made, 1, {"around": 20, "e1": 9}, "around"))) == []
    # The base time is past: what has come since the look before may have come before it.
    assert policed(observer.take(poll(made, 11, {"around": 4_000, "e1": 2_000}))) == []
    text = "2 frames of around arrived at e1 outside their window or beyond their limit: dropped"
    assert policed(observer.take(poll(made, 21, {"around": 4_002, "e1": 2_000}))) == [
        ("began", text)
    ]


def test_metrics_have_the_frames_of_each_filter(made: Plan) -> None:
    families = metrics_of_mechanisms({"s1": poll(made, 0, {"around": 5, "e1": 2})})
    refused = {
        (sample.labels["port"], sample.labels["priority"], sample.labels["destination_mac"]): sample
        for family in families
        if family.name == "tsn_stream_filter_refused_frames"
        for sample in family.samples
        if sample.labels["cause"] == "gate"
    }
    address = made.addresses["around"].destination_mac
    assert {key: sample.value for key, sample in refused.items()} == {
        ("e1", "6", address): 5,
        ("e1", "6", ""): 2,
        ("e1", "4", ""): 0,
    }


# --- path and JSON -------------------------------------------------------------------------------


def followed(made: Plan, *filters: StreamFilter) -> StreamPath:
    """Through switches that do as planned, but for the filters of the first."""
    does = bridge_forwardings(made)
    if filters:
        does["s1"] = does["s1"].having(StreamFilters(filters))

    def ask(names: Sequence[str]) -> Mapping[str, Seen | DeviceError]:
        return {name: Seen(BridgeReport((), does[name])) for name in names}

    return walk(made, "around", ask)


def test_path_tells_of_the_filter_at_the_first_hop(
    made: Plan, capsys: pytest.CaptureFixture[str]
) -> None:
    found = followed(made)
    first, *rest = [hop.done.get("filters") for hop in found.hops]
    assert first
    assert first.startswith("violations are dropped, the gate opens at ")
    assert rest == [None]
    assert found.deviations == ()
    render.path(found, as_json=True)
    hops = documented("path", capsys.readouterr().out)["hops"]
    assert ["filters" in hop for hop in hops] == [True, False]
    render.path(found, as_json=False)
    assert "at s1, ingress e1: violations are dropped, the" in capsys.readouterr().out


def test_path_says_where_a_filter_is_missing(made: Plan) -> None:
    strangers = [
        its
        for its in bridge_forwardings(made)["s1"][StreamFilters].filters
        if isinstance(its.of, Strangers)
    ]
    (deviation,) = followed(made, *strangers).deviations
    assert deviation.startswith("s1: stream filter: none; planned: violations are")


def test_filters_are_part_of_what_json_says_of_a_bridge(made: Plan) -> None:
    does = desired_ports(made, "s1")["br0"][BridgeForwarding]
    adapter = json.loads(ForwardingDocument.model_validate(_tables(does)).model_dump_json())
    first, *others = adapter["filters"]
    assert (first["stream"], first["port"], first["policing"]) == ("around", "e1", "drop")
    assert first["window"]["period_ns"] == 1_000_000
    assert [each["gate"] for each in others] == ["closed", "closed"]


def _tables(forwarding: BridgeForwarding) -> object:
    from cnc.json_output.document import _stream_entries  # noqa: PLC0415

    return _stream_entries(forwarding)


# --- what a session asks for, and what a change keeps --------------------------------------------


def test_a_session_asks_for_the_module_where_frames_are_to_be_filtered(made: Plan) -> None:
    bridges = made.intent.network.bridges
    asked = [Managed.of(its, desired_ports(made, name)) for name, its in bridges.items()]
    assert all(each.needs_modules for each in asked)


def test_the_filter_of_a_former_way_stays_until_its_last_frame_has_come(made: Plan) -> None:
    links = {port: link for port, link in made.intent.network.links.items() if port not in CUT}
    without = replace(made.intent, network=replace(made.intent.network, links=links))
    new = plan(without, keep=made)
    between = transition(made, new)
    assert between.moved == ("around",)
    own = bridge_forwardings(new)["s1"]
    both = joined(own, between.former["s1"])
    macs = [
        its.of.destination_mac
        for its in both[StreamFilters].filters
        if isinstance(its.of, FilteredStream)
    ]
    assert macs == [each.addresses["around"].destination_mac for each in (new, made)]
    assert all(isinstance(its.of, Strangers) for its in both[StreamFilters].filters[2:])
    small = with_room(new, 3)
    assert [each.code for each in judge_transition(small, made, between)] == ["stream-filters"]


def with_room(its: Plan, filters: int) -> Plan:
    """At s1."""
    return replace(its, intent=its.intent.having(FilterCapacity({"s1": filters})))


def test_a_switch_that_counts_by_default_keeps_former_filters_if_it_has_room(made: Plan) -> None:
    links = {port: link for port, link in made.intent.network.links.items() if port not in CUT}
    by_default = made.intent.having(PolicingRules(None))
    counting = replace(made, intent=by_default)
    without = replace(by_default, network=replace(by_default.network, links=links))
    new = plan(without, keep=counting)
    kept = {
        room: len(transition(counting, with_room(new, room)).former["s1"][StreamFilters].filters)
        for room in (3, 4)
    }
    assert kept == {3: 0, 4: 1}
    between = transition(counting, with_room(new, 3))
    assert judge_transition(with_room(new, 3), counting, between) == []


def changed(made: Plan, **keys: object) -> Plan:
    """The plan of the same streams, one of them with other requirements."""
    streams = {**made.intent.streams, "around": stream("around", "e1", "e2", **keys)}
    return plan(replace(made.intent, streams=streams), keep=made)


@pytest.mark.parametrize(
    ("keys", "exposed"),
    [
        ({"payload_octets": 99}, "its first switch drops frames as long as they were"),
        (
            {"traffic_classes": ("slower",)},
            "its first switch knows its frames by their new priority",
        ),
        ({"payload_octets": 101}, None),
        ({"period_ns": 2_000_000}, None),
    ],
)
def test_frames_that_a_new_filter_drops_before_the_base_time_are_told_beforehand(
    made: Plan, keys: dict[str, object], exposed: str | None
) -> None:
    found = transition(made, changed(made, **keys)).exposed
    stays = "its address stays: `addresses` has no other, or none was asked for"
    assert found == ({"around": f"{exposed}, from the commit on; {stays}"} if exposed else {})
    counting = made.intent.having(PolicingRules(Policing.COUNT))
    counted = changed(replace(made, intent=counting), **keys)
    assert transition(made, counted).exposed == {}


def test_diff_shows_what_is_policed_otherwise(made: Plan) -> None:
    rules = PolicingRules(Policing.COUNT, streams={"stays": Policing.OFF})
    found = difference(made, replace(made, intent=made.intent.having(rules)))
    assert [*found.foundations] == ["policing"]
    rows = [tuple(row) for row in comparison._foundation("policing", found.foundations["policing"])]
    assert rows == [
        ("policing", "network", "drop", "count"),
        ("policing", "streams", "–", "stays off"),  # noqa: RUF001
    ]


def test_base_times_are_multiples_of_the_periods_of_stream_gates(made: Plan) -> None:
    ports = {"s1": {"br0": desired_ports(made, "s1")["br0"]}}
    goal = replace(Goal.of(made), ports=ports)
    assert goal.cycles_ns() == {1_000_000}


def test_the_plan_says_of_which_streams_misfits_are_dropped(
    made: Plan, capsys: pytest.CaptureFixture[str]
) -> None:
    net = replace(made.intent.network, disturbance_ns=0)
    recovering = replace(made.intent, network=net)
    render.planning.plan(plan(recovering), None)
    assert "policing: drop for 2 of 2 streams: their out-of-profile frames are dropped" in " ".join(
        capsys.readouterr().out.split()
    )
    render.planning.plan(plan(recovering.having(PolicingRules(Policing.COUNT))), None)
    assert "is dropped" not in capsys.readouterr().out


def test_the_page_of_a_plan_has_the_window_and_sizes_of_each_stream(made: Plan) -> None:
    streams = {each["name"]: each for each in page_data(made)["streams"]}
    (filtered,) = streams["around"]["filters"]
    first = bridge_forwardings(made)["s1"][StreamFilters].filters[0]
    assert isinstance(first.gate, WindowGate)
    assert filtered == {
        "port": "s1/e1",
        "policing": "drop",
        "max_sdu_octets": first.max_sdu_octets,
        "opens_ns": first.gate.start_ns,
        "closes_ns": first.gate.start_ns + first.gate.open_ns,
        "octets_max": first.gate.octets_max,
    }
    some = PolicingRules(Policing.DROP, streams={"around": Policing.OFF})
    for rules, of in ((some, ["stays"]), (NO_POLICING, [])):
        its = replace(made, intent=made.intent.having(rules))
        assert [each["name"] for each in page_data(its)["streams"] if "filters" in each] == of
