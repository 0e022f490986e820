"""What an agent tells the talkers of an end station: compared, published and taken back."""

from __future__ import annotations

import json
import os
import stat
import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.composition import Step
from agent.datastore.desired import desired_ports
from agent.mechanism import ReportContext
from agent.mechanisms import MECHANISMS, mechanisms
from agent.mechanisms.talker_offsets import talker_offsets
from agent.mechanisms.talker_offsets.file import OffsetFile, decode, encode
from agent.mechanisms.talker_offsets.lateness import file_name
from agent.mechanisms.talker_offsets.model import (
    OffsetConfig,
    OffsetState,
    OffsetTable,
    StatedLateness,
    Transmission,
)
from agent.mechanisms.talker_offsets.tables import TABLES, TALKER, operational
from agent.memory_ports import MemoryPorts
from agent.model import AgentError, PortConfig, PortState
from agent.switch import Switch, differences, plan

MOTOR = Transmission("motor", 1, 1_000_000, 12_000, 300, 5, 46, ("drive",))
MOVED = replace(MOTOR, offset_ns=90_000)
BEFORE = OffsetTable(1_000_000_000, (MOTOR,))
AFTER = OffsetTable(5_000_000_000, (MOVED,))
STATION = PortState("eth0", 2, 8, 1_000_000_000, "noqueue")
NOW_NS = 2_000_000_000

TREE_STREAM = {
    "name": "motor",
    "path": 1,
    "period-ns": "1000000",
    "offset-ns": "12000",
    "payload-octets": 300,
    "priority": 5,
    "dscp": 46,
    "listener": ["drive"],
}


def tree(**talker):
    interface = {"name": "eth0", "tsn-end-station:talker": talker}
    return {"ietf-interfaces:interfaces": {"interface": [interface]}}


def asked(table, port="eth0"):
    return {port: PortConfig(port, (OffsetConfig(table),))}


def contents(desired, state):
    (step,) = plan(MECHANISMS, desired, {"eth0": state})
    assert step.target == TABLES
    return [each.content for each in step.before], [each.content for each in step.after]


class Station(MemoryPorts):
    """Ports in memory at an instant of our choice."""

    def __init__(self, now_ns=NOW_NS):
        super().__init__(MECHANISMS, [STATION])
        self.time_ns = now_ns

    def now_ns(self, _clock):
        return self.time_ns


def test_what_is_configured_is_read_with_all_its_leaves():
    desired = desired_ports(tree(**{"base-time-ns": "1000000000", "stream": [TREE_STREAM]}), {})
    assert desired["eth0"][OffsetConfig].table == BEFORE


def test_an_address_is_read_in_lower_case_and_published_as_it_is():
    addressed = {**TREE_STREAM, "destination-mac": "03:54:53:4E:00:0A", "vlan-id": 10}
    (sent,) = desired_ports(tree(stream=[addressed]), {})["eth0"][OffsetConfig].table.transmissions
    assert sent == replace(MOTOR, destination_mac="03:54:53:4e:00:0a", vlan_id=10)
    node = json.loads(encode({"eth0": OffsetState(OffsetTable(0, (sent,)))}))
    (stream,) = node["interfaces"]["eth0"]["running"]["stream"]
    assert (stream["destination-mac"], stream["vlan-id"]) == ("03:54:53:4e:00:0a", 10)
    assert decode(json.dumps(node))["eth0"].running.transmissions == (sent,)


def test_a_port_without_streams_and_base_time_asks_for_nothing():
    assert desired_ports(tree(), {})["eth0"].is_empty


def test_the_order_of_streams_in_the_datastore_has_no_meaning():
    streams = [TREE_STREAM, {**TREE_STREAM, "name": "arm"}]
    one, other = (
        desired_ports(tree(stream=list(each)), {})["eth0"] for each in (streams, reversed(streams))
    )
    assert one == other


def test_a_station_that_has_the_table_already_is_not_touched():
    running = STATION.with_part(OffsetState(running=BEFORE))
    assert plan(MECHANISMS, asked(BEFORE), {"eth0": running}) == []


def test_a_new_table_waits_beside_the_one_in_force():
    running = STATION.with_part(OffsetState(running=BEFORE))
    assert contents(asked(AFTER), running) == ([OffsetState(BEFORE)], [OffsetState(BEFORE, AFTER)])


def test_a_table_that_waits_is_replaced_by_a_newer_one():
    waiting = STATION.with_part(OffsetState(BEFORE, AFTER))
    newest = replace(AFTER, base_time_ns=9_000_000_000)
    assert contents(asked(newest), waiting)[1] == [OffsetState(BEFORE, newest)]


def test_without_configuration_nothing_stays_published():
    running = STATION.with_part(OffsetState(running=BEFORE))
    assert contents({}, running) == ([OffsetState(BEFORE)], [])


def test_a_station_that_differs_says_how():
    running = STATION.with_part(OffsetState(running=BEFORE))
    (words,) = differences(MECHANISMS, asked(AFTER), {"eth0": running}).values()
    assert "motor at 12000 of 1000000 ns from 1000000000 ns on" in words
    assert "motor at 90000 of 1000000 ns from 5000000000 ns on" in words


def test_the_base_time_puts_a_table_into_force():
    station = Station()
    Switch(station).apply(asked(BEFORE))
    Switch(station).apply(asked(AFTER))
    assert station.read()["eth0"][OffsetState] == OffsetState(BEFORE, AFTER)
    station.time_ns = AFTER.base_time_ns
    assert station.read()["eth0"][OffsetState] == OffsetState(AFTER)


def test_undoing_a_change_leaves_what_was_in_force():
    station = Station()
    Switch(station).apply(asked(BEFORE))
    Switch(station).apply(asked(AFTER)).undo()
    assert station.read()["eth0"][OffsetState] == OffsetState(BEFORE)


def test_a_port_that_is_not_there_is_refused():
    with pytest.raises(AgentError, match="port eth7: no such interface"):
        Switch(Station()).apply(asked(BEFORE, "eth7"))


def test_clients_read_both_tables_back():
    state = STATION.with_part(OffsetState(BEFORE, AFTER))
    mechanism = next(each for each in MECHANISMS if each.name == "talker-offsets")
    node = mechanism.operational(state, ReportContext(lambda _clock: NOW_NS))
    running, pending = node["tsn-end-station:talker"]["published"]
    assert (running["state"], running["base-time-ns"]) == ("running", "1000000000")
    assert running["stream"] == [TREE_STREAM]
    assert (pending["state"], pending["stream"][0]["offset-ns"]) == ("pending", "90000")


# --- the file ------------------------------------------------------------------------------------


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run" / "offsets.json"


@pytest.fixture
def file(path):
    return OffsetFile(path, lambda: NOW_NS)


def publish(file, desired, state=STATION):
    for step in plan(MECHANISMS, desired, file.read({"eth0": state})):
        execute(file, step)


def execute(file, step: Step):
    file.objects[type(step.target)](step.target, step.before, step.after)


def tables(file):
    return file.read({"eth0": STATION})["eth0"][OffsetState]


def test_programs_of_the_station_read_what_is_configured(file, path):
    talker = {"base-time-ns": "1000000000", "stream": [TREE_STREAM]}
    publish(file, desired_ports(tree(**talker), {}))
    document = json.loads(path.read_text())
    assert (document["format"], document["clock"]) == ("tsn-offsets/1", "CLOCK_TAI")
    assert document["interfaces"]["eth0"]["pending"] == {
        "base-time-ns": 1_000_000_000,
        "stream": [{**TREE_STREAM, "period-ns": 1_000_000, "offset-ns": 12_000}],
    }


def test_everybody_may_read_the_file_and_nothing_else_is_left(file, path):
    publish(file, asked(BEFORE))
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert sorted(path.parent.iterdir()) == [path.parent / "lateness", path]


def test_an_agent_that_starts_later_finds_what_was_published(file, path):
    publish(file, asked(BEFORE))
    assert tables(OffsetFile(path, lambda: NOW_NS)) == OffsetState(BEFORE)


def test_a_table_is_pending_until_its_base_time(file, path):
    publish(file, asked(BEFORE))
    publish(file, asked(AFTER))
    assert tables(file) == OffsetState(BEFORE, AFTER)
    assert tables(OffsetFile(path, lambda: AFTER.base_time_ns)) == OffsetState(AFTER)


def test_undoing_a_change_writes_the_file_as_it_was(file, path):
    publish(file, asked(BEFORE))
    publish(file, asked(BEFORE))
    before = path.read_bytes()
    (step,) = plan(MECHANISMS, asked(AFTER), file.read({"eth0": STATION}))
    execute(file, step)
    execute(file, step.undo)
    assert tables(file) == OffsetState(BEFORE)
    assert decode(path.read_bytes())["eth0"].newest == decode(before)["eth0"].newest


def test_the_last_table_takes_the_file_with_it(file, path):
    publish(file, asked(BEFORE))
    tell(path, FIGURES)
    publish(file, {})
    assert list(path.parent.rglob("*")) == [path.parent / "lateness"]


FIGURES = {
    "format": "tsn-lateness/1",
    "count": 250_000,
    "maximum-ns": 91_000,
    "quantile-ns": 50_000,
}


def tell(path, figures, name="motor.1"):
    """What a talker leaves beside the offsets at `path`."""
    text = figures if isinstance(figures, str) else json.dumps(figures)
    (path.parent / "lateness" / name).write_text(text)


def stated(file):
    return file.read({"eth0": STATION})["eth0"][StatedLateness].by_stream


def reported(file, what="lateness"):
    """The leaves of the first stream in each table, by state of the table."""
    state = file.read({"eth0": STATION})["eth0"]
    published = operational(state, ReportContext(lambda _clock: NOW_NS))[TALKER]["published"]
    return {each["state"]: each["stream"][0].get(what) for each in published}


def test_what_a_talker_says_is_reported_with_its_stream(file, path):
    publish(file, asked(BEFORE))
    assert reported(file) == {"running": None}
    tell(path, FIGURES)
    leaves = {"count": "250000", "maximum-ns": "91000", "quantile-ns": "50000"}
    assert reported(file) == {"running": leaves}
    publish(file, asked(AFTER))
    assert reported(file) == {"running": leaves, "pending": None}


def test_too_few_periods_have_no_quantile(file, path):
    publish(file, asked(BEFORE))
    tell(path, {each: FIGURES[each] for each in ("format", "count", "maximum-ns")})
    assert reported(file)["running"] == {"count": "250000", "maximum-ns": "91000"}


def test_frames_that_did_not_leave_at_their_time_are_reported(file, path):
    publish(file, asked(BEFORE))
    launches = {"format": "tsn-lateness/2", "missed": 3, "refused": 0}
    for figures in (launches, {**FIGURES, **launches}):
        tell(path, figures)
        assert reported(file, "launches")["running"] == {
            "missed-frames": "3",
            "refused-frames": "0",
        }
        assert bool(reported(file)["running"]) == ("count" in figures)


def test_nobody_but_published_streams_is_heard(file, path):
    publish(file, asked(BEFORE))
    tell(path, FIGURES, "stranger.1")
    tell(path, FIGURES, "motor.2")
    assert stated(file) == {}


def test_what_was_said_a_day_ago_holds_no_more(file, path):
    publish(file, asked(BEFORE))
    tell(path, FIGURES)
    long_ago_s = time.time() - 24 * 3600 - 1
    os.utime(path.parent / "lateness" / "motor.1", (long_ago_s, long_ago_s))
    assert stated(file) == {}


@pytest.mark.parametrize(
    "said",
    [
        "",
        "[]",
        "[" * 500,
        json.dumps(FIGURES)[:-1],
        json.dumps(FIGURES) + " " * 1024,
        {**FIGURES, "format": "tsn-lateness/2"},  # without what the second version adds
        {**FIGURES, "format": "tsn-lateness/2", "missed": 0, "refused": -1},
        {**FIGURES, "format": "tsn-lateness/3"},
        {**FIGURES, "count": -1},
        {**FIGURES, "count": True},
        {**FIGURES, "count": 2**53 + 1},
        {**FIGURES, "maximum-ns": 1.5},
        {**FIGURES, "maximum-ns": "91000"},
        {**FIGURES, "maximum-ns": 86_400_000_000_001},
        {**FIGURES, "quantile-ns": 91_001},
        '{"format": "tsn-lateness/1", "count": NaN, "maximum-ns": Infinity}',
    ],
)
def test_a_talker_that_says_nonsense_counts_as_one_that_says_nothing(file, path, said, caplog):
    publish(file, asked(BEFORE))
    tell(path, said)
    assert stated(file) == {}
    assert stated(file) == {}
    assert caplog.text.count("motor.1 is ignored") == 1


def test_no_link_and_no_pipe_leads_the_agent_elsewhere(file, path, tmp_path):
    publish(file, asked(BEFORE))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text(json.dumps(FIGURES))
    said = path.parent / "lateness" / "motor.1"
    said.symlink_to(elsewhere)
    assert stated(file) == {}
    said.unlink()
    os.mkfifo(said)
    assert stated(file) == {}
    said.unlink()
    said.mkdir()
    assert stated(file) == {}


@given(st.text(min_size=1, max_size=64), st.integers(1, 2))
def test_no_name_of_a_stream_leads_out_of_the_directory(name, sent_path):
    assert "/" not in file_name(name, sent_path)
    assert file_name(name, sent_path) not in {".", ".."}


def test_nobody_else_may_write_unless_the_package_has_made_the_directory_so(file, path):
    publish(file, asked(BEFORE))
    directory = path.parent / "lateness"
    assert stat.S_IMODE(directory.stat().st_mode) == 0o755
    directory.chmod(0o1775)
    publish(file, asked(AFTER))
    assert stat.S_IMODE(directory.stat().st_mode) == 0o1775


@pytest.mark.parametrize(
    "content", ["", "[]", "{", '{"format": "tsn-offsets/9"}', "[" * 5000, '{"format": null}']
)
def test_a_file_that_holds_no_tables_is_replaced(file, path, content, caplog):
    path.parent.mkdir()
    path.write_text(content)
    assert tables(file) == OffsetState()
    assert tables(file) == OffsetState()
    assert caplog.text.count("is ignored and will be replaced") == 1
    publish(file, asked(BEFORE))
    assert tables(file) == OffsetState(BEFORE)


def test_each_agent_publishes_in_its_own_directory(tmp_path):
    (mechanism,) = (each for each in mechanisms(tmp_path) if each.name == "talker-offsets")
    adapter = mechanism.kernel(None)
    publish(adapter, asked(BEFORE))
    assert (tmp_path / "offsets.json").exists()
    assert tables(talker_offsets(tmp_path / "offsets.json").kernel(None)) == OffsetState(BEFORE)


integers = st.integers(0, 2**62)
transmission_sets = st.lists(
    st.builds(
        Transmission,
        st.text(min_size=1, max_size=8),
        st.integers(1, 2),
        integers,
        integers,
        st.integers(0, 65535),
        st.integers(0, 7),
        st.none() | st.integers(0, 63),
        st.lists(st.text(max_size=8), max_size=3).map(tuple),
    ),
    unique_by=lambda each: (each.name, each.path),
).map(lambda each: tuple(sorted(each, key=lambda sent: (sent.name, sent.path))))
offset_tables = st.none() | st.builds(OffsetTable, integers, transmission_sets)


@given(st.dictionaries(st.text(max_size=15), st.builds(OffsetState, offset_tables, offset_tables)))
def test_what_is_written_is_what_is_read(by_port):
    assert decode(encode(by_port)) == by_port
