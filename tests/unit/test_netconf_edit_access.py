"""Edits of what their user may not read: refused by what they say, whatever there is."""

from __future__ import annotations

import libyang
import pytest

from agent.netconfd.broker.access import Account, Policy
from agent.netconfd.broker.data_access import DataAccess
from agent.netconfd.broker.edit_access import find_refused
from agent.sysrepo.edits import nodes_of
from tests.unit.netconf_limits import NACM

BASE = "urn:ietf:params:xml:ns:netconf:base:1.0"
# libyang gives the modules of these names the attributes of an edit.
NETCONF = f'module ietf-netconf {{ namespace "{BASE}"; prefix nc; }}'
SHOP = """
module shop {
  yang-version 1.1;
  namespace "urn:shop";
  prefix s;
  import ietf-netconf-acm { prefix nacm; }
  container shop {
    container staff {
      list person {
        key "name";
        leaf name { type string; }
        leaf wage { type uint32; }
        leaf desk { type string; }
        container papers { leaf contract { type string; } }
      }
    }
    container safe { presence "There is one."; leaf code { type string; } }
    list queue { key "customer"; ordered-by user; leaf customer { type string; } }
    leaf open { type boolean; }
    leaf alarm { nacm:default-deny-all; type string; }
  }
}
"""
EXTRA = """
module extra {
  namespace "urn:extra";
  prefix e;
  import shop { prefix s; }
  augment /s:shop { leaf extra { type string; } }
}
"""


@pytest.fixture(scope="module")
def context():
    with libyang.Context() as context:
        for module in (NACM, NETCONF, SHOP, EXTRA):
            context.parse_module_str(module)
        yield context


STAFF = "/shop:shop/staff"
ANN = f"{STAFF}/person[name='ann']"


def rule(action, path=None, operations="*", module="*"):
    about = {} if path is None else {"path": path}
    return {"module-name": module, "access-operations": operations, "action": action, **about}


READ = rule("permit", operations="read")
DENIED = (rule("deny", STAFF), READ)


@pytest.fixture
def refused(context):
    """The path at which an edit of the shop is refused to a user with these rules."""

    def find(rules, content, operation="merge", read_default="deny"):
        policy = Policy.from_json(
            {
                "enable-nacm": True,
                "exec-default": "deny",
                "read-default": read_default,
                "write-default": "deny",
                "enable-external-groups": False,
                "groups": {"group": [{"name": "staff", "user-name": ["bob"]}]},
                "rule-list": [{"group": ["staff"], "rule": list(rules)}],
            }
        )
        access = DataAccess(context, policy.data_rights(Account("bob")))
        xml = f'<shop xmlns="urn:shop" xmlns:nc="{BASE}" xmlns:y="urn:ietf:params:xml:ns:yang:1"'
        xml += content if content.startswith((" ", "/")) else f">{content}</shop>"
        tree = context.parse_data_mem(xml, "xml", parse_only=True, strict=True)
        try:
            return find_refused(access, nodes_of(tree), operation)
        finally:
            tree.free()

    return find


def person(content="", operation=None, name="ann"):
    mark = f' nc:operation="{operation}"' if operation else ""
    return f"<staff><person{mark}><name>{name}</name>{content}</person></staff>"


@pytest.mark.parametrize("operation", ["create", "merge", "replace", "delete", "remove"])
def test_a_node_that_may_not_be_read_needs_all_rights_to_write_it(refused, operation):
    edit = person(operation=operation)
    assert refused(DENIED, edit) == ANN
    assert refused((rule("permit", STAFF, "create update delete"), *DENIED), edit) is None
    for two in ("create update", "create delete", "update delete"):
        assert refused((rule("permit", STAFF, two), *DENIED), edit) == ANN
    # It is there to be read: sysrepo judges what the edit would change.
    assert refused((READ,), edit) is None


@pytest.mark.parametrize("operation", ["none", "merge", "replace"])
def test_nor_does_the_default_operation_find_it(refused, operation):
    path = refused(DENIED, person(), operation)
    assert path == (ANN if operation != "replace" else "/shop:shop")


def test_a_node_that_is_named_for_what_is_below_it_needs_no_right(refused):
    """RFC 8341, section 3.2.5."""
    desk = (rule("permit", f"{STAFF}/person/desk", "create update delete"), *DENIED)
    assert refused(desk, person("<desk>3</desk>")) is None
    assert refused(desk, person("<desk>3</desk><wage>9</wage>")) == f"{ANN}/wage"
    assert refused(desk, person("<desk>3</desk>", "create")) == ANN


@pytest.mark.parametrize("operation", ["delete", "remove", "replace", "create"])
def test_what_holds_something_hidden_is_not_edited_as_a_whole(refused, operation):
    assert refused(DENIED, f' nc:operation="{operation}"/>') == "/shop:shop"
    assert refused((READ,), f' nc:operation="{operation}"/>') is None


def test_what_is_created_holds_nothing_yet(refused):
    hidden = (rule("deny", f"{STAFF}/person/papers/contract"), READ)
    assert refused(hidden, person("<desk>3</desk><papers/>", "create")) is None
    assert refused(hidden, person("<papers nc:operation='create'/>")) == f"{ANN}/papers"
    assert refused(hidden, person(operation="delete")) == ANN


def test_one_entry_is_hidden_and_no_other(refused):
    hidden = (rule("deny", ANN), READ)
    assert refused(hidden, person(operation="delete")) == ANN
    assert refused(hidden, person(operation="delete", name="eve")) is None


def test_the_entry_of_the_user_is_hidden(refused):
    own = (rule("deny", f"{STAFF}/person[name=$USER]"), READ)
    assert refused(own, "<staff nc:operation='delete'/>") == STAFF
    assert refused(own, person(operation="delete")) is None
    bob = f"{STAFF}/person[name='bob']"
    assert refused(own, person(operation="delete", name="bob")) == bob


def test_a_place_beside_a_hidden_entry_is_refused(refused):
    ann = "/shop:shop/queue[customer='ann']"
    edit = '<queue y:insert="after" y:key="[customer=\'{}\']"><customer>bob</customer></queue>'
    hidden = (rule("deny", ann), READ)
    assert refused(hidden, edit.format("ann")) == "/shop:shop/queue[customer='bob']"
    assert refused(hidden, edit.format("eve")) is None


def test_a_container_with_presence_can_be_hidden_and_one_without_is_nothing(refused):
    hidden = (rule("deny", "/shop:shop/safe"), *DENIED)
    assert refused(hidden, "<safe/>") == "/shop:shop/safe"
    assert refused(hidden, "<staff/>") is None


def test_what_a_schema_hides_is_hidden(refused):
    alarm = "<alarm>loud</alarm>"
    assert refused((), alarm, read_default="permit") == "/shop:shop/alarm"
    assert refused((READ,), alarm) is None
    assert refused((), "<open>true</open>", read_default="permit") is None


def test_below_what_is_hidden_a_node_is_there_only_if_a_rule_names_it(refused):
    named = rule("permit", f"{STAFF}/person/desk", "read")
    assert refused((named, rule("deny")), person("<desk>3</desk>")) is None
    extra = "<extra xmlns='urn:extra'>x</extra>"
    of_module = rule("permit", module="extra", operations="read")
    assert refused((of_module,), extra) == "/shop:shop/extra:extra"
    assert refused((rule("permit", module="shop"), of_module), extra) is None
