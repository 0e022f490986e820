"""The true offsets of the clocks of a lab of kernels, and those of a measurement among them."""

from __future__ import annotations

from pathlib import Path

from cnc.testbed.lab.kernels import offsets
from cnc.testbed.lab.kernels.offsets import FurthestApart, Offset, TrueOffsets
from cnc.testbed.lab.vm.runner import VIRTUAL_EPOCH_NS

NS_PER_S = 10**9
# As virtual-network writes it.
RECORD = """time_ns,node,offset_ns,tai_minus_utc_s
0,controller,0,0
0,s1,-70,0
1000000000,controller,0,37
1000000000,s1,30,0
2000000000,controller,0,37
2000000000,s1,20,37
3000000000,controller,0,37
3000000000,s1,10,37
"""


def test_the_offsets_of_a_measurement_count_from_its_start_and_have_both_ends(tmp_path: Path):
    (tmp_path / "all.csv").write_text(RECORD)
    start_tai_ns = VIRTUAL_EPOCH_NS + 37 * NS_PER_S + NS_PER_S
    found = offsets.span(tmp_path / "all.csv", start_tai_ns, NS_PER_S)
    assert found == [
        Offset(0, "controller", 0, 37),
        Offset(0, "s1", 30, 0),
        Offset(NS_PER_S, "controller", 0, 37),
        Offset(NS_PER_S, "s1", 20, 37),
    ]


def test_a_measurement_may_begin_by_the_clock_of_a_node_that_is_seconds_off(tmp_path: Path):
    ahead_ns = 2 * NS_PER_S + 7
    rows = [
        Offset(n * NS_PER_S, node, offset_ns + n, 37)
        for n in range(5)
        for node, offset_ns in (("controller", -n), ("s1", ahead_ns))
    ]
    offsets.write(tmp_path / "all.csv", rows)
    start_tai_ns = VIRTUAL_EPOCH_NS + 37 * NS_PER_S + 3 * NS_PER_S + ahead_ns + 3
    found = offsets.span(tmp_path / "all.csv", start_tai_ns, NS_PER_S, "s1")
    assert [(each.time_ns, each.offset_ns) for each in found if each.node == "s1"] == [
        (0, ahead_ns + 3),
        (NS_PER_S, ahead_ns + 4),
    ]


def test_of_several_clocks_those_that_were_furthest_apart_at_one_instant_are_found():
    rows = [
        Offset(time_ns, node, offset_ns, 37)
        for time_ns, offsets_ns in ((0, (0, 900, 100)), (9, (700, -400, 800)))
        for node, offset_ns in zip(("s1", "l1", "t1"), offsets_ns, strict=True)
    ]
    found = TrueOffsets(rows).furthest_apart(["s1", "l1", "t1"])
    assert found == FurthestApart(behind="l1", ahead="t1", apart_ns=1_200)


def test_clocks_without_a_record_are_not_apart():
    """A measurement may be shorter than what is between two records."""
    assert TrueOffsets([]).furthest_apart(["s1", "t1"]) == FurthestApart("s1", "s1", 0)


def test_offsets_that_are_written_are_read_as_they_were(tmp_path: Path):
    (tmp_path / "all.csv").write_text(RECORD)
    offsets.write(tmp_path / "again.csv", offsets.read(tmp_path / "all.csv"))
    assert (tmp_path / "again.csv").read_text() == RECORD
