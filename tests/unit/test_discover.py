"""The draft of a network from what its switches say."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cnc import intent
from cnc.cli import cnc
from cnc.data_tree.tree import BridgeReport
from cnc.discover import Answers, as_data, as_yaml, draft, targets
from cnc.discover.asking import View
from cnc.errors import InputError
from cnc.intent.source import parse
from cnc.model import NO_FORWARDING, Intent, Management, PortRef
from cnc.switch.device import DeviceError
from cnc.switch.topology import (
    Identifier,
    InterfaceReport,
    LldpReport,
    NeighborReport,
    TopologyReport,
)

GBPS = 10**9


def mac(switch: int, port: int) -> str:
    return f"02:00:00:00:{switch:02x}:{port:02x}"


def chassis(switch: int) -> Identifier:
    return Identifier(mac(switch, 0), "mac-address")


def hears(port: str, switch: int, other_port: int | str, **said: object) -> NeighborReport:
    """Port `port` hears switch number `switch`, as lldpd sends by itself: port number or name."""
    port_id = (
        Identifier(mac(switch, other_port), "mac-address")
        if isinstance(other_port, int)
        else Identifier(other_port, "interface-name")
    )
    return NeighborReport(port, chassis(switch), port_id, **said)


def view(
    number: int, *neighbors: NeighborReport, ports: int = 3, lldp: bool = True, speed: int = GBPS
) -> View:
    """Switch sN at 10.0.0.N with the ports p1, p2, …"""
    interfaces = {
        f"p{port}": InterfaceReport(f"p{port}", "up", mac(number, port), speed)
        for port in range(1, ports + 1)
    }
    report = LldpReport(chassis(number), f"s{number}", neighbors) if lldp else None
    return View(Management(f"10.0.0.{number}"), TopologyReport(interfaces, report))


def drafted(*views: View):
    return draft(Answers(views, {}), "net")


def links(made) -> list[str]:
    return [" - ".join(map(str, link.ends)) for link in made.links]


def accepted(made) -> Intent:
    """The draft as the intent's own reader takes it."""
    return read(as_yaml(made))


def read(text: str) -> Intent:
    """A document as the intent's own reader takes it."""
    problems = parse(text.encode(), "draft")
    problems.raise_if_any()
    return intent.from_document(problems.document, "draft")


def test_a_cable_both_ends_tell_of_is_a_link_without_a_remark():
    made = drafted(view(1, hears("p1", 2, 2)), view(2, hears("p2", 1, 1)))
    assert links(made) == ["s1/p1 - s2/p2"]
    assert made.links[0].remarks == made.remarks == ()


def test_ports_are_found_by_name_too():
    made = drafted(view(1, hears("p1", 2, "p2")), view(2, hears("p2", 1, "p1")))
    assert links(made) == ["s1/p1 - s2/p2"]


def test_a_description_tells_ports_with_one_mac_address_apart():
    s2 = view(2, hears("p2", 1, 1))
    vlan = InterfaceReport("p2.10", "up", mac(2, 2), None)
    report = TopologyReport({"p2.10": vlan, **s2.report.interfaces}, s2.report.lldp)
    s1 = view(1, hears("p1", 2, 2, port_description="p2"))
    assert links(drafted(s1, dataclasses.replace(s2, report=report))) == ["s1/p1 - s2/p2"]


def test_switches_with_one_chassis_id_are_told_apart_by_their_ports():
    same = Identifier("rack")
    twins = [
        View(v.management, dataclasses.replace(v.report, lldp=LldpReport(same, f"s{n}", ())))
        for n, v in ((2, view(2)), (3, view(3)))
    ]
    heard = dataclasses.replace(hears("p1", 2, 1), chassis_id=same)
    assert links(drafted(view(1, heard), *twins)) == ["s1/p1 - s2/p1"]
    assert links(drafted(view(1, heard), *reversed(twins))) == ["s1/p1 - s2/p1"]


def test_what_only_one_switch_says_is_drafted_and_says_so():
    made = drafted(view(1, hears("p1", 2, 2)), view(2, lldp=False))
    assert links(made) == ["s1/p1 - switch-10-0-0-2/p2"]
    assert made.links[0].remarks == ("one-sided: only s1 says so",)
    assert "no LLDP daemon answers there: its neighbours are unknown" in made.switches[1].remarks
    assert "  # one-sided: only s1 says so\n  - [s1/p1, switch-10-0-0-2/p2]\n" in as_yaml(made)


def test_ends_that_contradict_each_other_are_no_link():
    s1, s2 = view(1, hears("p1", 2, 1)), view(2, hears("p1", 3, 1))
    made = drafted(s1, s2, view(3, hears("p1", 2, 1)))
    assert links(made) == ["s2/p1 - s3/p1"]
    assert made.remarks == ("s1/p1: it hears s2/p1, which is connected to another port",)


def test_of_two_that_name_one_silent_port_only_one_is_drafted():
    made = drafted(view(1, hears("p1", 3, 1)), view(2, hears("p1", 3, 1)), view(3))
    assert links(made) == ["s1/p1 - s3/p1"]
    assert made.remarks == ("s2/p1: it hears s3/p1, which is connected to another port",)


def test_several_neighbours_at_a_port_are_no_link():
    made = drafted(
        view(1, hears("p1", 2, 1, system_name="s2"), hears("p1", 8, 1, system_name="pc")),
        view(2, hears("p1", 1, 1)),
    )
    assert links(made) == []
    assert made.remarks[0] == (
        's1/p1: several neighbours: something between them forwards LLDP ("s2", "pc")'
    )


def test_a_loop_is_no_link():
    made = drafted(view(1, hears("p1", 1, 2), hears("p2", 1, 1)))
    assert links(made) == []
    assert len(made.remarks) == 2
    assert "it hears its own switch: a loop" in made.remarks[0]


def test_a_port_that_the_other_switch_does_not_have_is_no_link():
    made = drafted(view(1, hears("p1", 2, "p77", system_name="s2")), view(2))
    assert links(made) == []
    assert "at a port that it does not report" in made.remarks[0]


def test_a_neighbour_at_an_interface_that_is_not_told_of_is_no_link():
    made = drafted(view(1, hears("mgmt0", 9, 1, system_name="office")))
    assert links(made) == []
    assert made.remarks[0].startswith("s1/mgmt0: a neighbour at an interface that")


def test_a_name_does_not_make_anybody_a_switch():
    liar = NeighborReport("p1", Identifier("evil"), Identifier("p1"), system_name="s2")
    made = drafted(view(1, liar), view(2))
    assert links(made) == ["s1/p1 - s2-2/p1"]
    assert [station.name for station in made.end_stations] == ["s2-2"]


def test_who_was_not_asked_is_an_end_station():
    pc = hears("p1", 9, 1, system_name="pc.lab.example", port_description="enp3s0")
    made = drafted(view(1, pc))
    assert links(made) == ["s1/p1 - pc/enp3s0"]
    assert made.end_stations[0].remarks == (
        f'calls itself "pc.lab.example", chassis "{mac(9, 0)}"',
    )


def test_an_end_station_at_two_switches_is_one():
    made = drafted(
        view(1, hears("p1", 9, "eth0", system_name="pc")),
        view(2, hears("p1", 9, "eth1", system_name="pc")),
    )
    assert [station.ports for station in made.end_stations] == [("eth0", "eth1")]


def test_a_switch_that_was_not_asked_is_told_of_with_its_address():
    other = hears(
        *("p1", 9, 1),
        system_name="s9",
        capabilities=frozenset({"bridge"}),
        management_addresses=("10.0.0.9",),
    )
    made = drafted(view(1, other))
    assert made.end_stations[0].remarks == (
        (
            "forwards frames: if it is a switch, name it in the command, too "
            "(it is managed at 10.0.0.9)"
        ),
    )


def test_equal_names_are_told_apart():
    named = [dataclasses.replace(view(n).report.lldp, system_name="debian") for n in (1, 2)]
    views = [
        View(Management(f"10.0.0.{n}"), TopologyReport({}, lldp)) for n, lldp in enumerate(named, 1)
    ]
    assert [switch.name for switch in drafted(*views).switches] == ["debian", "debian-2"]


def test_a_switch_asked_at_two_addresses_is_one():
    one = view(1, hears("p1", 2, 2))
    again = View(Management("fd00::1"), one.report)
    made = drafted(one, again, view(2, hears("p2", 1, 1)))
    assert links(made) == ["s1/p1 - s2/p2"]
    assert made.remarks == ("fd00::1 is the same switch as 10.0.0.1",)


def test_a_switch_that_did_not_answer_is_a_hole_in_the_draft():
    answers = Answers((view(1),), {"10.0.0.2": DeviceError("10.0.0.2", "no answer")})
    text = as_yaml(draft(answers))
    assert "INCOMPLETE" in text
    assert "#   - 10.0.0.2 did not answer: it is missing here" in text


def at_port(name: str, **said: object) -> View:
    """A switch with one port of this name, which hears an end station."""
    report = view(1, NeighborReport(name, Identifier("pc"), Identifier("eth0"), **said)).report
    interfaces = {name: InterfaceReport(name, "up", mac(1, 1), GBPS)}
    return View(Management("10.0.0.1"), dataclasses.replace(report, interfaces=interfaces))


@pytest.mark.parametrize("name", ["1", "0x1f", "null", "true", "1.5"])
def test_a_port_whose_name_yaml_could_take_for_something_else_keeps_it(name: str):
    assert PortRef("s1", name) in accepted(drafted(at_port(name))).network.links


def test_a_port_that_an_intent_cannot_name_is_left_out_and_told():
    made = drafted(at_port("e:x"))
    assert links(made) == []
    assert made.remarks == ("s1/e:x: not a port name of an intent; its cable is omitted",)


def test_what_a_neighbour_says_stays_a_comment_of_one_line():
    said = "pc\nstreams: {}\x1b[2J"
    forwarding = frozenset({"bridge"})
    made = drafted(
        at_port("p1", system_name=said, capabilities=forwarding, management_addresses=(said,))
    )
    shown = "pc?streams: {}?[2J"
    assert f'  # calls itself "{shown}", chassis "pc"\n' in as_yaml(made)
    assert f"name it in the command, too (it is managed at {shown})\n" in as_yaml(made)


def test_the_rate_of_most_links_is_the_default():
    fast = [view(n, ports=4) for n in (1, 2)]
    pairs = [(1, GBPS), (2, GBPS), (3, GBPS // 10)]
    for index, other in ((0, 2), (1, 1)):
        neighbors = tuple(hears(f"p{p}", other, p) for p, _ in pairs)
        interfaces = {
            f"p{p}": InterfaceReport(f"p{p}", "up", mac(index + 1, p), rate) for p, rate in pairs
        }
        report = dataclasses.replace(fast[index].report.lldp, neighbors=neighbors)
        fast[index] = View(fast[index].management, TopologyReport(interfaces, report))
    text = as_yaml(drafted(*fast))
    assert "  rate: 1Gbps\n" in text
    assert "  - {ends: [s1/p3, s2/p3], rate: 100Mbps}\n" in text


def test_of_two_speeds_the_lower_is_drafted_and_both_are_told():
    slow = view(2, hears("p1", 1, 1), speed=GBPS // 10)
    (link,) = drafted(view(1, hears("p1", 2, 1)), slow).links
    assert link.rate_bps == GBPS // 10
    assert link.remarks == ("s1/p1 says 1Gbps, s2/p1 says 100Mbps: the draft uses the lower",)


def test_ports_without_a_neighbour_are_named():
    assert drafted(view(1, hears("p1", 9, 1))).switches[0].remarks == (
        "up, but no neighbour is heard: p2, p3",
    )


def test_the_draft_is_an_intent_without_streams():
    made = drafted(
        view(1, hears("p1", 2, 2), hears("p2", 8, "eth0", system_name="talker")),
        view(2, hears("p2", 1, 1), hears("p3", 9, "eth0", system_name="listener")),
    )
    found = accepted(dataclasses.replace(made, user="tsn"))
    assert found.name == "net"
    assert found.network.bridges["s2"].management == Management("10.0.0.2", 830, "tsn")
    assert found.network.links[PortRef("s1", "p1")].target == PortRef("s2", "p2")
    assert set(found.network.end_stations) == {"talker", "listener"}
    assert found.streams == {}


def test_the_example_stream_fits_the_draft():
    made = drafted(
        view(1, hears("p1", 8, "eth0", system_name="a"), hears("p2", 9, "eth0", system_name="b"))
    )
    head, _, example = as_yaml(made).partition("# streams:")
    uncommented = "".join(line.removeprefix("# ") + "\n" for line in example.splitlines()[:-1])
    assert "motion" in read(f"{head}streams:{uncommented}").streams


def test_an_empty_network_is_still_an_intent():
    assert accepted(drafted(view(1, lldp=False))).network.links == {}


def test_data_for_programs_has_the_same_document_and_all_remarks():
    made = drafted(view(1, hears("p1", 2, 2)), view(2, lldp=False))
    data = as_data(made)
    assert data["intent"] == yaml.safe_load(as_yaml(made))
    assert data["remarks"]["s1/p1 - switch-10-0-0-2/p2"] == ["one-sided: only s1 says so"]


anything = st.text(max_size=70)
identifiers = st.builds(
    Identifier, anything, st.sampled_from(["mac-address", "interface-name", "local", ""])
)
port_names = st.sampled_from(["p1", "p2", "null", "0x1f", "1", "true", "a b", "e:x", "n" * 20])
neighbors = st.builds(
    NeighborReport,
    port_names,
    st.none() | identifiers | st.just(chassis(2)),
    st.none() | identifiers | st.builds(Identifier, port_names, st.just("interface-name")),
    anything | port_names,
    anything,
    st.lists(anything, max_size=2).map(tuple),
    st.sampled_from([frozenset(), frozenset({"bridge"})]),
)


@st.composite
def views(draw, number: int) -> View:
    interfaces = {
        name: InterfaceReport(name, "up", mac(number, index), draw(st.none() | st.just(GBPS)))
        for index, name in enumerate(draw(st.sets(port_names)))
    }
    heard = tuple(draw(st.lists(neighbors, max_size=4)))
    lldp = draw(st.none() | st.just(LldpReport(chassis(number), draw(anything), heard)))
    bridges = {
        name: BridgeReport(
            tuple(draw(st.sets(port_names))),
            NO_FORWARDING,
            draw(st.booleans()),
            draw(st.booleans()),
        )
        for name in draw(st.sets(port_names | anything, max_size=2))
    }
    return View(Management(f"10.0.0.{number}"), TopologyReport(interfaces, lldp, bridges))


# Neither depends on how busy the machine is.
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.tuples(views(1), views(2)), anything)
def test_whatever_neighbours_say_the_draft_is_a_sound_intent(both, name):
    made = draft(Answers(both, {}), name)
    found = accepted(made)
    assert len(found.network.links) == 2 * len(made.links)
    assert all(line.isprintable() for line in as_yaml(made).splitlines())


@pytest.mark.parametrize(
    ("text", "address", "port"),
    [
        ("10.0.0.1", "10.0.0.1", 830),
        ("10.0.0.1:8300", "10.0.0.1", 8300),
        ("s1.lab.example:22", "s1.lab.example", 22),
        ("fd00::1", "fd00::1", 830),
        ("[fd00::1]", "fd00::1", 830),
        ("[fd00::1]:8300", "fd00::1", 8300),
    ],
)
def test_a_switch_is_named_by_address_and_port(text: str, address: str, port: int):
    (found,) = targets([text], "tsn")
    assert found.management == Management(address, port, "tsn")
    assert next(iter(targets([found.name], "tsn"))) == found


@pytest.mark.parametrize(
    "text", ["", "10.0.0.256", "s1:0", "s1:65536", "s1:ssh", "-oProxyCommand=x", "[s1]:8", "a b"]
)
def test_what_is_no_switch_is_bad_input(text: str):
    with pytest.raises(InputError, match="expected SWITCH"):
        targets([text], None)


def test_a_switch_named_twice_is_bad_input():
    with pytest.raises(InputError, match="named twice"):
        targets(["10.0.0.1", "10.0.0.1:830"], None)


def test_nothing_is_overwritten_without_being_told_to(tmp_path: Path):
    there = tmp_path / "net.yaml"
    there.write_text("mine\n")
    done = CliRunner().invoke(cnc, ["discover", "192.0.2.1", "-o", str(there)])
    assert isinstance(done.exception, InputError)
    assert there.read_text() == "mine\n"
