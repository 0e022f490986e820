"""What talkers are told of a plan."""

from __future__ import annotations

import csv
from pathlib import Path

from click.testing import CliRunner

from cnc import cli
from cnc.app import load_plan
from cnc.model.transmissions import transmissions
from cnc.planner import plan
from tests.unit.planner_networks import US, intent, network, stream

PLAN = Path(__file__).parent / "data" / "line3-plan.json"
DIAMOND = network("t-s1", "s1-s2", "s1-s3", "s2-s4", "s3-s4", "s4-l")


def test_each_talker_gets_its_streams_in_the_order_in_which_it_sends() -> None:
    net = network("t-s", "u-s", "s-l")
    late = stream("late", "t", "l", earliest_ns=300 * US)
    planned = plan(intent(net, late, stream("early", "t", "l"), stream("other", "u", "l")))
    found = transmissions(planned)
    assert [(each.talker, each.stream) for each in found] == [
        ("t", "early"),
        ("t", "late"),
        ("u", "other"),
    ]
    for each in found:
        (path,) = planned.streams[each.stream].paths
        assert (each.talker, each.interface) == path[0].egress
        assert each.offset_ns == path[0].offset_ns
        assert each.dscps == planned.class_of(each.stream).dscps


def test_a_stream_that_is_sent_twice_has_a_time_for_each_copy() -> None:
    planned = plan(intent(DIAMOND, stream("safe", "t", "l", paths=2)))
    found = transmissions(planned)
    assert [(each.stream, each.path) for each in found] == [("safe", 1), ("safe", 2)]
    assert [each.offset_ns for each in found] == list(planned.streams["safe"].talker_offsets_ns)


def test_a_spreadsheet_reads_the_same() -> None:
    done = CliRunner().invoke(cli.cnc, ["talkers", str(PLAN), "--csv"])
    rows = list(csv.DictReader(done.stdout.splitlines()))
    expected = transmissions(load_plan(PLAN))
    assert [int(row["offset_ns"]) for row in rows] == [each.offset_ns for each in expected]
    assert [row["listeners"].split() for row in rows] == [list(each.listeners) for each in expected]
