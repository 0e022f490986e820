"""The edits of a YANG patch between two data trees (RFC 8072)."""

from __future__ import annotations

import libyang
import pytest

from agent.sysrepo.differences import Edit, differences

MODULE = """
module shop {
  yang-version 1.1;
  namespace "urn:shop";
  prefix s;
  container shop {
    leaf name { type string; }
    leaf open { type boolean; default "true"; }
    list shelf {
      key "aisle side";
      leaf aisle { type uint8; }
      leaf side { type string; }
      leaf label { type string; }
    }
    list queue {
      key "customer";
      ordered-by user;
      leaf customer { type string; }
      leaf paid { type boolean; }
    }
    leaf-list rule { type string; ordered-by user; }
    leaf-list tag { type string; }
  }
}
"""


@pytest.fixture(scope="module")
def context():
    with libyang.Context() as context:
        context.parse_module_str(MODULE)
        yield context


@pytest.fixture
def changes(context):
    """The edits from one content of the container to another; None: there is none."""
    trees = []

    def parsed(content):
        if content is None:
            return None
        tree = context.parse_data_mem(
            f'<shop xmlns="urn:shop">{content}</shop>', "xml", parse_only=True, strict=True
        )
        trees.append(tree)
        return tree

    yield lambda before, after: differences(context, parsed(before), parsed(after))
    for tree in trees:
        tree.free()


def queue(*customers):
    return "".join(f"<queue><customer>{each}</customer></queue>" for each in customers)


def test_nothing_has_changed_between_equal_trees(changes):
    assert changes("<name>a</name>", "<name>a</name>") == []
    assert changes(None, None) == []


def test_what_is_there_for_the_first_time_is_created_as_a_whole(changes):
    (edit,) = changes(None, "<name>a</name><tag>x</tag>")
    assert (edit.operation, edit.target) == ("create", "/shop:shop")
    assert edit.value == '<shop xmlns="urn:shop"><name>a</name><tag>x</tag></shop>'


def test_what_is_gone_is_deleted_as_a_whole(changes):
    assert changes("<name>a</name><tag>x</tag>", None) == [Edit("delete", "/shop:shop")]


def test_another_value_replaces_the_leaf(changes):
    assert changes("<name>a</name>", "<name>b</name>") == [
        Edit("replace", "/shop:shop/name", '<name xmlns="urn:shop">b</name>')
    ]


def test_a_list_entry_is_named_by_its_keys_in_order(changes):
    shelf = "<shelf><aisle>3</aisle><side>left</side><label>{}</label></shelf>"
    (edit,) = changes(shelf.format("tea"), shelf.format("tea &lt;green&gt;"))
    assert edit.target == "/shop:shop/shelf=3,left/label"
    assert edit.value == '<label xmlns="urn:shop">tea &lt;green&gt;</label>'


@pytest.mark.parametrize(
    ("side", "written"), [("a/b", "a%2Fb"), ("a,b", "a%2Cb"), ("it's", "it%27s"), ("é", "%C3%A9")]
)
def test_what_a_path_has_no_place_for_is_written_in_percent(changes, side, written):
    shelf = f"<shelf><aisle>3</aisle><side>{side}</side></shelf>"
    (edit,) = changes("<name>a</name>", f"<name>a</name>{shelf}")
    assert edit.target == f"/shop:shop/shelf=3,{written}"
    assert edit.value is not None
    assert side in edit.value


def test_an_entry_of_a_leaf_list_is_named_by_its_value(changes):
    assert changes("<tag>x</tag><tag>y</tag>", "<tag>x</tag><tag>z</tag>") == [
        Edit("delete", "/shop:shop/tag=y"),
        Edit("create", "/shop:shop/tag=z", '<tag xmlns="urn:shop">z</tag>'),
    ]


def test_where_the_user_orders_a_new_entry_is_inserted_after_another_or_first(changes):
    ann = '<queue xmlns="urn:shop"><customer>ann</customer></queue>'
    assert changes(queue("bob"), queue("bob", "ann")) == [
        Edit("insert", "/shop:shop/queue=ann", ann, "/shop:shop/queue=bob")
    ]
    assert changes(queue("bob"), queue("ann", "bob")) == [
        Edit("insert", "/shop:shop/queue=ann", ann)
    ]


def test_an_entry_with_another_place_is_moved_and_its_changes_are_told_too(changes):
    before = queue("ann", "bob", "eve")
    eve = "<queue><customer>eve</customer><paid>true</paid></queue>"
    assert sorted(changes(before, queue("ann") + eve + queue("bob"))) == [
        Edit("create", "/shop:shop/queue=eve/paid", '<paid xmlns="urn:shop">true</paid>'),
        Edit("move", "/shop:shop/queue=eve", point="/shop:shop/queue=ann"),
    ]


def test_the_order_of_a_leaf_list_is_told_by_values(changes):
    before = "<rule>a</rule><rule>b</rule><rule>c</rule>"
    after = "<rule>a</rule><rule>c</rule><rule>b</rule>"
    assert changes(before, after) == [Edit("move", "/shop:shop/rule=c", point="/shop:shop/rule=a")]
