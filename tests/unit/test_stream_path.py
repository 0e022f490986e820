"""`cnc path`: a stream is followed through what bridges do, wherever that leads."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from cnc import intent as intents
from cnc.cli import render
from cnc.data_tree.tree import BridgeReport
from cnc.errors import InputError
from cnc.model import BridgeForwarding, Plan
from cnc.planner import plan as compute
from cnc.rollout.path import HopWindow, Seen, StreamPath, require_bridged, walk
from cnc.switch.device import DeviceError
from tests.unit.asked import bridge_forwarding
from tests.unit.shared_windows import example

LINE3 = yaml.safe_load((Path(__file__).parents[2] / "schedules" / "line3.yaml").read_text())
Tables = dict[str, BridgeForwarding]


@pytest.fixture(scope="module")
def plan() -> Plan:
    return compute(intents.from_document({**LINE3, "forwarding": "bridged"}, "line3"))


def tables(plan: Plan) -> Tables:
    return {name: bridge_forwarding(plan, name) for name in plan.intent.network.bridges}


def followed(
    plan: Plan, kernels: Tables, stream: str = "motion", silent: str = "", down: str = ""
) -> StreamPath:
    """Through switches that do this; `silent` does not answer, the link of the port `down` is."""
    switch, _, port = down.partition("/")

    def ask(names: Sequence[str]) -> Mapping[str, Seen | DeviceError]:
        return {
            name: DeviceError(name, "no answer to get in time")
            if name == silent
            else Seen(
                BridgeReport((), kernels[name]),
                {port: "the link is down"} if name == switch else {},
            )
            for name in names
        }

    return walk(plan, stream, ask)


def with_ports(plan: Plan, switch: str, ports: tuple[str, ...], stream: str = "motion") -> Tables:
    """As planned, but frames of the stream leave this switch by `ports`; none: no entry."""
    kernels = tables(plan)
    entries = dict(kernels[switch].entries)
    del entries[plan.addresses[stream]]
    if ports:
        entries[plan.addresses[stream]] = ports
    return {**kernels, switch: replace(kernels[switch], entries=entries)}


def test_a_stream_is_followed_hop_by_hop_to_its_listener(plan: Plan) -> None:
    found = followed(plan, tables(plan))
    assert [(hop.switch, hop.ingress, hop.leaves_by) for hop in found.hops] == [
        ("s1", "t1", ("s2",)),
        ("s2", "s1", ("s3",)),
        ("s3", "s2", ("l1",)),
    ]
    assert (found.talker, found.listeners, found.deviations) == ("t1", ("l1",), ())


def test_frames_without_an_entry_end_there(plan: Plan) -> None:
    found = followed(plan, with_ports(plan, "s2", ()))
    assert [hop.switch for hop in found.hops] == ["s1", "s2"]
    assert found.deviations == (
        "s2: frames end here: the kernel has no filtering entry",
        "l1: gets no frame",
    )


def test_frames_do_not_leave_by_a_port_whose_link_is_down(plan: Plan) -> None:
    found = followed(plan, tables(plan), down="s2/s3")
    assert [(hop.switch, hop.leaves_by) for hop in found.hops] == [("s1", ("s2",)), ("s2", ())]
    assert found.deviations == (
        "s2: frames do not leave by s3: the link is down",
        "l1: gets no frame",
    )


def test_frames_do_not_come_in_by_a_port_whose_link_is_down(
    plan: Plan, capsys: pytest.CaptureFixture[str]
) -> None:
    found = followed(plan, tables(plan), down="s1/t1")
    assert found.deviations == (
        "s1: no frames arrive at t1: the link is down",
        "l1: gets no frame",
    )
    render.path(found, as_json=False)
    assert capsys.readouterr().out.endswith("hint: check the cable and the far end of s1/t1\n")


def test_a_link_that_the_stream_does_not_take_may_be_down(plan: Plan) -> None:
    assert followed(plan, tables(plan), down="s1/t2").deviations == ()


def test_frames_that_leave_elsewhere_are_followed_there(plan: Plan) -> None:
    found = followed(plan, with_ports(plan, "s3", ("l2",)))
    assert found.listeners == ("l2",)
    assert found.deviations == (
        "s3: frames do not leave by l1; frames leave by l2, which is not planned",
        "l1: gets no frame",
        "l2: gets frames that it does not listen to",
    )


def test_a_port_that_is_no_member_lets_nothing_in(plan: Plan) -> None:
    kernels = tables(plan)
    (vlan_id,) = kernels["s3"].vlans
    kernels["s3"] = replace(kernels["s3"], vlans={vlan_id: ("l1", "l2")})
    found = followed(plan, kernels)
    assert found.deviations[0] == f"s3: frames end here: s2 is no member of VLAN {vlan_id}"


def test_a_port_that_is_no_member_lets_nothing_out(plan: Plan) -> None:
    kernels = tables(plan)
    (vlan_id,) = kernels["s3"].vlans
    kernels["s3"] = replace(kernels["s3"], vlans={vlan_id: ("l2", "s2")})
    found = followed(plan, kernels)
    assert found.deviations[0] == (f"s3: frames do not leave by l1, no member of VLAN {vlan_id}")


def test_frames_never_leave_by_the_port_that_they_came_in_by(plan: Plan) -> None:
    found = followed(plan, with_ports(plan, "s2", ("s1", "s3")))
    assert found.deviations == ()


def test_frames_that_go_round_are_followed_once_and_told(plan: Plan) -> None:
    document = {
        **LINE3,
        "forwarding": "bridged",
        "switches": {
            "s1": {"management": "10.99.0.1", "ports": ["t1", "t2", "s2", "s3"]},
            "s2": {"management": "10.99.0.2", "ports": ["s1", "s3"]},
            "s3": {"management": "10.99.0.3", "ports": ["s2", "l1", "l2", "s1"]},
        },
        "links": [*LINE3["links"], ["s1/s3", "s3/s1"]],
    }
    ring = compute(intents.from_document(document, "ring"))
    address = ring.addresses["motion"]
    ways = {"s1": ("s2", "s3"), "s2": ("s1", "s3"), "s3": ("l1", "s1", "s2")}
    kernels = {
        name: BridgeForwarding({address: ports}, {address.vlan_id: (*ports, "t1", "l2", "l1")}, ())
        for name, ports in ways.items()
    }
    found = followed(ring, kernels)
    assert any(text.endswith("frames come in again: they go round") for text in found.deviations)
    places = [(hop.switch, hop.ingress) for hop in found.hops]
    assert len(places) == len(set(places))


def test_a_switch_that_does_not_answer_is_where_nobody_can_tell(plan: Plan) -> None:
    found = followed(plan, tables(plan), silent="s2")
    assert found.deviations == ("s2: no answer to get in time", "l1: gets no frame")


def test_a_network_that_routes_is_refused_with_the_reason() -> None:
    intent = intents.from_document(LINE3, "line3")
    with pytest.raises(InputError, match="line3 forwards by IP routes"):
        require_bridged(intent)
    with pytest.raises(InputError, match="line3 forwards by IP routes"):
        followed(compute(intent), {})


@pytest.mark.parametrize(
    ("stream", "message"),
    [
        ("nobody", "line3 has no stream nobody"),
        ("motion", "stream motion is not in the plan: full"),
    ],
)
def test_a_stream_without_a_way_is_refused(plan: Plan, stream: str, message: str) -> None:
    others = {name: its for name, its in plan.streams.items() if name != "motion"}
    without = replace(plan, streams=others, refused={"motion": "full"})
    with pytest.raises(InputError, match=message):
        followed(without, tables(plan), stream)


def printed(capsys: pytest.CaptureFixture[str], found: StreamPath, **how: bool) -> str:
    show: Callable[..., None] = render.path
    show(found, **{"as_json": False, **how})
    return capsys.readouterr().out


def test_the_table_ends_with_where_the_stream_leaves_the_plan(
    plan: Plan, capsys: pytest.CaptureFixture[str]
) -> None:
    text = printed(capsys, followed(plan, with_ports(plan, "s2", ())))
    assert "leaves the plan: s2: frames end here: the kernel has no filtering entry" in text
    text = printed(capsys, followed(plan, tables(plan)))
    assert text.rstrip().endswith("from t1 by 3 switches to l1: as planned")


def test_programs_get_the_same(plan: Plan, capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(printed(capsys, followed(plan, tables(plan)), as_json=True))
    assert document["destination_mac"] == plan.addresses["motion"].destination_mac
    assert document["hops"][0]["leaves_by"] == ["s2"]
    assert document["deviations"] == []


def test_where_frames_share_windows_these_are_told_of_each_hop(
    capsys: pytest.CaptureFixture[str],
) -> None:
    plan = example("line3", window_ns=60_000, slot_ns=100_000, forwarding="bridged")
    found = followed(plan, tables(plan))
    assert [hop.windows for hop in found.hops] == [
        (HopWindow("s2", 100_000, 160_000, 4),),
        (HopWindow("s3", 200_000, 260_000, 4),),
        (HopWindow("l1", 300_000, 360_000, 3),),
    ]
    render.path(found, as_json=False)
    render.path(found, as_json=True)
    table, document = capsys.readouterr().out.split("from t1 by 3 switches to l1: as planned\n")
    lines = [" ".join(line.split()) for line in table.splitlines()]
    assert "s1 t1 s2 s2 s2 100 to 160 µs, 4 streams as planned" in lines
    first, *_ = json.loads(document)["hops"]
    assert first["windows"] == [
        {"port": "s2", "opens_ns": 100_000, "closes_ns": 160_000, "streams": 4}
    ]


def test_a_window_of_each_copy_is_told_where_it_comes_in() -> None:
    plan = example("bridged5", window_ns=45_000, slot_ns=120_000)
    found = followed(plan, tables(plan), "set-point-1")
    at_s2 = {hop.ingress: hop.windows for hop in found.hops if hop.switch == "s2"}
    assert at_s2 == {
        "s1": (HopWindow("drive1", 240_000, 285_000, 1),),
        "s3": (HopWindow("drive1", 600_000, 645_000, 1),),
    }


def test_exact_plans_tell_of_no_window(plan: Plan, capsys: pytest.CaptureFixture[str]) -> None:
    found = followed(plan, tables(plan))
    render.path(found, as_json=False)
    render.path(found, as_json=True)
    assert "window" not in capsys.readouterr().out
