"""Which nodes of a change are reported: the topmost, and few."""

from __future__ import annotations

import libyang
import pytest

from agent.netconfd.broker.events.config import MAX_EDITS, summary

MODULE = """
module m {
  namespace "urn:m"; prefix m; yang-version 1.1;
  container c {
    list l { key k; leaf k { type uint32; } leaf v { type uint32; } }
    leaf other { type uint32; }
  }
}
"""


@pytest.fixture
def context():
    with libyang.Context() as context:
        context.parse_module_str(MODULE)
        yield context


def entries(count, value):
    return "".join(f"<l><k>{key}</k><v>{value}</v></l>" for key in range(count))


def change(context, before, after):
    trees = [
        context.parse_data_mem(f'<c xmlns="urn:m">{inner}</c>', "xml", parse_only=True)
        for inner in (before, after)
    ]
    diff = trees[0].diff(trees[1])
    try:
        return summary(diff.siblings())
    finally:
        for tree in (diff, *trees):
            tree.free()


def test_a_created_subtree_is_one_edit(context):
    assert change(context, "", entries(100, 1)) == [("/m:c", "create")]
    more = change(context, entries(1, 1), entries(2, 1))
    assert more == [("/m:c/l[k='1']", "create")]


def test_each_changed_leaf_is_an_edit_of_its_own_as_long_as_they_are_few(context):
    assert change(context, entries(3, 1) + "<other>1</other>", entries(2, 2)) == [
        ("/m:c/l[k='2']", "delete"),
        ("/m:c/other", "delete"),
        ("/m:c/l[k='0']/v", "replace"),
        ("/m:c/l[k='1']/v", "replace"),
    ]


@pytest.mark.parametrize("count", [MAX_EDITS - 1, MAX_EDITS, MAX_EDITS + 1, 5000])
def test_there_are_never_more_edits_than_allowed(context, count):
    edits = change(context, entries(count, 1), entries(count, 2))
    assert 0 < len(edits) <= MAX_EDITS
    if count > MAX_EDITS:
        assert edits == [("/m:c", "merge")]


def test_no_change_is_no_edit(context):
    assert summary([]) == []
