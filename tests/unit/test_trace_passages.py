"""What passed a port is found again by place and by probe."""

from __future__ import annotations

import tracemalloc

import pytest

from cnc.testbed.traffic.trace.passages import Passage, Passages

FIRST = Passage(1_000, 114, (3, 0))
STRANGER = Passage(1_500, 60, None)
SECOND = Passage(2_000, 1_014, (4, 0))
COPY = Passage(2_500, 114, (3, 0))
LATER = Passage(3_000, 114, (3, 5))
FAR = Passage(4_000, 114, (3, 4_000_000_000))
BETWEEN = Passage(5_000, 114, (3, 2))
ALL = [FIRST, STRANGER, SECOND, COPY, LATER, FAR, BETWEEN]


def test_passages_are_what_was_added_to_them():
    passages = Passages(ALL)
    assert list(passages) == ALL
    assert [passages[place] for place in range(len(passages))] == ALL
    assert passages[1:3] == ALL[1:3]
    assert list(passages.times_ns) == [each.time_ns for each in ALL]


@pytest.mark.parametrize(
    ("probe", "places"),
    [((3, 0), [0, 3]), ((4, 0), [2]), ((3, 5), [4]), ((3, 2), [6]), ((3, 4_000_000_000), [5])],
)
def test_a_probe_is_found_in_all_its_places(probe: tuple[int, int], places: list[int]):
    assert list(Passages(ALL).places(probe)) == places


@pytest.mark.parametrize("probe", [(3, 1), (3, 6), (4, 1), (5, 0)])
def test_a_probe_that_never_passed_is_nowhere(probe: tuple[int, int]):
    assert list(Passages(ALL).places(probe)) == []


@pytest.mark.parametrize("between", [[60_000], [60_000, 70_010]])
def test_copies_of_a_number_that_was_far_from_all_others_keep_their_order(between: list[int]):
    seqs = [0, 70_000, *between, 70_000]
    passages = Passages(Passage(1_000 + n, 114, (3, seq)) for n, seq in enumerate(seqs))
    assert list(passages.places((3, 70_000))) == [1, len(seqs) - 1]
    assert list(passages.places((3, 60_000))) == [2]


def test_a_sequence_number_of_another_program_takes_no_room():
    tracemalloc.start()
    Passages([FIRST, FAR])
    _, peak_octets = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_octets < 100_000


def test_first_octets_are_kept_where_there_are_any():
    kept = Passages([FIRST, Passage(2_000, 64, (3, 1), b"octets"), LATER])
    assert [each.beginning for each in kept] == [b"", b"octets", b""]
