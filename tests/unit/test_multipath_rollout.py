"""The paths of end stations on the controller: derived, written, read back, and compared."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree
from lxml.builder import ElementMaker

from cnc.data_tree.reply import Reply
from cnc.data_tree.state import SwitchState
from cnc.data_tree.tree import AgentReport, PortReport
from cnc.mechanism import Interfaces, PlaceEdit
from cnc.mechanisms.kept import read, written
from cnc.mechanisms.multipath.compare import configured_difference, path_difference
from cnc.mechanisms.multipath.connections import (
    Application,
    ConnectionMode,
    Connections,
    Reading,
    Source,
)
from cnc.mechanisms.multipath.leaves import MULTIPATH
from cnc.mechanisms.multipath.model import (
    LIMIT_MAX,
    Endpoint,
    Mode,
    Path,
    PathReport,
    RadioTechnology,
    Settings,
    StationPath,
    SubflowReport,
)
from cnc.mechanisms.multipath.place import AT_PLACE
from cnc.mechanisms.multipath.tree import edit, reported, stored
from cnc.model import PlaceParts, PortSettings, StoredPort
from cnc.service.live import live
from cnc.switch.device import StoredSwitch
from cnc.switch.payload import named_interface
from cnc.watch.observation import Poll
from cnc.watch.observer import Snapshot
from tests.unit.rollout_history import LINE3

FULL_MESH = frozenset({"subflow", "fullmesh"})
MP = ElementMaker(namespace=MULTIPATH)
DATA = ElementMaker()
S, MS = 1_000_000_000, 1_000_000
NAMES = st.text("abz09_-", min_size=1, max_size=15)

NUMBERS = st.lists(st.integers(1, 65_535), max_size=3, unique=True).map(sorted).map(tuple)
MAYBE = st.none() | st.integers(1, 2**31)
connections = st.builds(
    Connections,
    st.lists(
        st.builds(
            Application,
            NAMES,
            st.sampled_from(ConnectionMode),
            st.sampled_from(Source),
            NUMBERS,
            st.lists(NAMES.map("/{}".format), max_size=2, unique=True).map(sorted).map(tuple),
            NUMBERS,
            MAYBE,
            MAYBE.map(lambda its: its and its * S),
        ),
        max_size=3,
        unique_by=lambda each: each.name,
    ).map(tuple),
    MAYBE.map(lambda its: its and its * MS),
    MAYBE.map(lambda its: its and its * MS),
    st.none() | st.sampled_from(Reading),
    MAYBE,
    MAYBE.map(lambda its: its and its * MS),
    st.none() | NAMES,
    st.none() | st.integers(-40, 200),
    st.none() | st.integers(-40, 200),
    MAYBE.map(lambda its: its and its * MS),
)

settings = st.builds(
    Settings,
    mode=st.sampled_from(Mode),
    enabled=st.booleans(),
    subflows=st.integers(0, LIMIT_MAX),
    add_addr_accepted=st.integers(0, LIMIT_MAX),
    scheduler=st.none() | NAMES,
    congestion_control=st.none() | NAMES,
    no_metrics_save=st.none() | st.booleans(),
    max_buffer_octets=st.none() | st.integers(4096, 2**31 - 1),
    connections=st.none() | connections,
)
paths = st.builds(
    Path,
    st.booleans(),
    st.booleans(),
    st.lists(st.sampled_from(RadioTechnology), unique=True).map(sorted).map(tuple),
    st.none() | st.integers(-128, 0),
    st.none() | st.integers(1, 2**40),
    st.none() | st.integers(1, 100),
)


def edited(parts):
    interfaces = Interfaces({}, named_interface)
    return edit(parts, PlaceEdit(0, {}, interfaces)), interfaces.elements.keys()


def stored_after(elements):
    """What a server stores of them that had nothing."""
    data = DATA("data", *elements)
    for removed in data.xpath("//*[@*='remove']"):
        removed.getparent().remove(removed)
    return stored(Reply(data))


def report(its, **changed):
    """What a station says that does all of this."""
    flags = its.endpoint_flags
    endpoints = () if flags is None else (Endpoint("10.1.0.2", flags, managed=True),)
    does = PathReport(True, None, endpoints, its.kernel_values)
    return PortReport(parts=PlaceParts.of(replace(does, **changed)))


@given(settings, st.dictionaries(st.sampled_from(["eth0", "wwan0"]), paths, min_size=1))
def test_what_is_written_is_what_is_read_back(its, by_port):
    parts = {name: StationPath(path, its) for name, path in by_port.items()}
    elements, interfaces = edited(parts)
    assert stored_after(elements) == parts
    assert interfaces == parts.keys()


@given(settings, paths)
def test_the_history_has_a_path_with_all_that_came_with_it(its, path):
    part = StationPath(path, its)
    assert read(AT_PLACE.kept, written(AT_PLACE.kept, part)) == part


def test_a_port_that_is_no_path_any_more_is_removed_from_those_of_its_station():
    elements, interfaces = edited({"wwan0": StationPath(None, Settings())})
    (removed,) = elements[0].iterfind(f"{{{MULTIPATH}}}path")
    assert [value for _, value in removed.items()] == ["remove"]
    assert not interfaces


def test_of_a_station_without_paths_all_goes():
    (element,), _ = edited({"eth0": StationPath(), "wwan0": StationPath()})
    assert [*element.attrib.values()] == ["remove"]
    assert len(element) == 0


def test_nothing_is_written_where_nothing_is_asked():
    assert edited({})[0] == []


def test_a_report_has_the_endpoints_of_each_port_and_the_values_of_the_station():
    node = MP(
        "multipath",
        MP("kernel", MP("available-scheduler", "default"), MP("subflows", "8")),
        MP(
            "path-state",
            MP("interface", "eth0"),
            MP("managed", "true"),
            MP("lack", "10.1.0.2 has no rule"),
            MP("demoted", "its limit"),
            MP(
                "endpoint",
                MP("address", "10.1.0.2"),
                MP("id", "1"),
                MP("flags", "fullmesh subflow"),
                MP("managed", "true"),
            ),
        ),
        MP(
            "connection",
            *(
                MP("subflow", MP("interface", name), MP("backup", "true"), MP("reason", reason))
                for name, reason in [("eth0", "mode reliability"), ("wwan0", "mode hassle-free")]
            ),
        ),
    )
    its = reported(Reply(DATA("data", node)))["eth0"]
    assert its.kernel["subflows"] == "8"
    endpoint = Endpoint("10.1.0.2", FULL_MESH, managed=True)
    lack = "10.1.0.2 has no rule"
    subflow = SubflowReport(is_backup=True, reason="mode reliability")
    assert its == PathReport(True, lack, (endpoint,), its.kernel, "its limit", (subflow,))
    assert reported(Reply(etree.Element("data"))) == {}


@given(settings, paths)
def test_a_station_that_does_all_agrees(its, path):
    part = StationPath(path, its)
    assert path_difference(part, report(part)) is None
    assert configured_difference(part, StoredPort.of(part)) is None


PART = StationPath(Path(), Settings(max_buffer_octets=12_000_000))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"managed": False}, "it is no path of multipath TCP"),
        ({"lack": "10.1.0.2 has no rule"}, "10.1.0.2 has no rule"),
        ({"endpoints": ()}, "it has no endpoint, expected fullmesh subflow"),
        (
            {"endpoints": (Endpoint("10.1.0.2", FULL_MESH | {"backup"}, managed=True),)},
            "the endpoint of 10.1.0.2 is backup fullmesh subflow, expected fullmesh subflow",
        ),
        (
            {"kernel": PART.kernel_values | {"maximum-send-buffer": "4194304"}},
            "maximum-send-buffer is 4194304, expected 12000000",
        ),
    ],
)
def test_a_station_that_does_otherwise_is_told_how(changed, words):
    assert path_difference(PART, report(PART, **changed)) == words


def test_an_endpoint_of_another_program_is_no_difference():
    mine = Endpoint("10.1.0.2", FULL_MESH, managed=True)
    foreign = Endpoint("10.1.0.3", frozenset({"signal"}), managed=False)
    assert path_difference(PART, report(PART, endpoints=(mine, foreign))) is None


def test_what_changes_is_named_with_what_was_and_what_will_be():
    after = StationPath(Path(backup=True), Settings(mode=Mode.RELIABILITY))
    assert configured_difference(after, StoredPort.of(PART)) == (
        "its multipath TCP: backup false becomes true, mode hassle-free becomes reliability, "
        "maximum-receive-buffer 12000000 becomes the station's own, "
        "maximum-send-buffer 12000000 becomes the station's own"
    )


def test_status_says_why_subflows_are_there_most_common_reasons_first():
    subflows = [
        *[SubflowReport(is_backup=False, reason="mode hassle-free")] * 3,
        *[SubflowReport(is_backup=True, reason="its limit")] * 2,
        *[SubflowReport(is_backup=False, reason=f"reason {number}") for number in range(3)],
    ]
    told = PortReport(parts=PlaceParts.of(PathReport(demoted="its limit", subflows=(*subflows,))))
    assert AT_PLACE.goes_on(told) == (
        "a backup of each connection: its limit; 3 subflows (mode hassle-free); "
        "2 backup subflows (its limit); 1 subflow (reason 0); 2 others"
    )
    assert AT_PLACE.goes_on(PortReport()) is None


def test_the_page_has_the_subflows_of_a_port_with_the_reasons():
    port = next(each for each in LINE3.intent.network.links if each.node == "s1")
    part = StationPath(Path(), Settings())
    its = report(part, subflows=(SubflowReport(is_backup=False, reason="mode full mesh"),))
    state = SwitchState(AgentReport(37, None), {port.port: its}, 0, 0)
    poll = Poll("s1", datetime.now(UTC), state, StoredSwitch({}, None), {})
    desired = {"s1": {port.port: PortSettings.of(part)}}
    now = Snapshot({"s1": poll}, frozenset(), {}, (), 0, desired)
    (shown,) = (each for each in live(now, LINE3)["ports"] if each["port"] == str(port))
    assert shown["agrees"]
    assert shown["told"] == ["1 subflow (mode full mesh)"]
