"""What NACM lets a user do with nodes, by their paths (RFC 8341, section 3.4.5)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.netconfd.broker.access import Account, Policy
from agent.netconfd.broker.data_access import NO_RIGHTS, RIGHTS, WRITE_RIGHTS, steps_of

ALICE = Account("alice")
PORT = "/ietf-interfaces:interfaces/interface[name='p1']"


def policy(*rules, read_default="permit", write_default="deny", groups=("staff",)):
    """A policy in which alice is one of the staff."""
    return Policy.from_json(
        {
            "enable-nacm": True,
            "exec-default": "permit",
            "read-default": read_default,
            "write-default": write_default,
            "enable-external-groups": False,
            "groups": {"group": [{"name": "staff", "user-name": ["alice"]}]},
            "rule-list": [{"group": list(groups), "rule": list(rules)}],
        }
    )


def rule(action, path=None, module="*", operations="read"):
    about = {} if path is None else {"path": path}
    return {"module-name": module, "access-operations": operations, "action": action, **about}


def may_read(of, path, account=ALICE, *, hidden=False):
    denied = RIGHTS if hidden else NO_RIGHTS
    return of.data_rights(account).may("read", steps_of(path), denied)


@pytest.mark.parametrize(
    ("path", "is_read"),
    [
        (PORT, False),
        (f"{PORT}/enabled", False),
        ("/ietf-interfaces:interfaces", True),
        ("/ietf-interfaces:interfaces/interface[name='p2']", True),
        ("/other:interfaces/interface[name='p1']", True),
    ],
)
def test_a_rule_with_a_path_is_about_that_node_and_what_is_below_it(path, is_read):
    assert may_read(policy(rule("deny", PORT)), path) is is_read


def test_a_path_without_keys_is_about_all_entries_of_a_list():
    denied = policy(rule("deny", "/ietf-interfaces:interfaces/interface"))
    assert not may_read(denied, PORT)


def test_the_first_rule_that_matches_decides():
    both = policy(rule("permit", f"{PORT}/enabled"), rule("deny", PORT))
    assert may_read(both, f"{PORT}/enabled")
    assert not may_read(both, f"{PORT}/description")


def test_a_rule_is_about_the_module_that_the_node_is_of():
    denied = policy(rule("deny", module="ieee802-dot1q-bridge"))
    assert may_read(denied, PORT)
    assert not may_read(denied, f"{PORT}/ieee802-dot1q-bridge:bridge-port")


@pytest.mark.parametrize("operations", ["create update delete", "exec"])
def test_a_rule_about_other_operations_says_nothing_of_reading(operations):
    assert may_read(policy(rule("deny", operations=operations)), PORT)


def test_a_rule_about_everything_is_about_reading():
    assert not may_read(policy(rule("deny", operations="*")), PORT)


def test_without_a_rule_the_default_decides_and_what_the_schema_hides_is_hidden():
    assert may_read(policy(), PORT)
    assert not may_read(policy(), PORT, hidden=True)
    assert not may_read(policy(read_default="deny"), PORT)
    assert may_read(policy(rule("permit")), PORT, hidden=True)


def test_rules_of_other_groups_are_not_asked():
    assert may_read(policy(rule("deny"), groups=("guests",)), PORT)
    assert not may_read(policy(rule("deny"), groups=("*",)), PORT)
    assert may_read(policy(rule("deny"), groups=("*",)), PORT, Account("in-no-group"))


def test_a_literal_may_hold_what_else_ends_a_predicate():
    (_, step) = steps_of("/a:b/c[k=']/d[e=1]'][l=\"'\"]")
    assert step == ("a", "c", {"k": "]/d[e=1]", "l": "'"})


def test_a_variable_in_a_path_stands_for_the_user():
    own = policy(rule("permit", "/s:users/user[name=$USER]"), rule("deny"))
    assert may_read(own, "/s:users/user[name='alice']/key")
    assert not may_read(own, "/s:users/user[name='bob']/key")
    assert not may_read(own, "/s:users/user")


@pytest.mark.parametrize("right", ["create", "update", "delete"])
def test_each_right_to_write_has_its_rules_and_their_default(right):
    def may(of):
        return of.data_rights(ALICE).may(right, steps_of(PORT), NO_RIGHTS)

    assert may(policy(rule("permit", operations=right)))
    assert may(policy(rule("permit", operations="*")))
    assert not may(policy(rule("permit", operations="read")))
    assert not may(policy())
    assert may(policy(write_default="permit"))
    assert (
        not policy(write_default="permit")
        .data_rights(ALICE)
        .may(right, steps_of(PORT), WRITE_RIGHTS)
    )


def test_all_below_is_readable_where_no_rule_that_denies_comes_first():
    def may(*rules):
        return policy(*rules).data_rights(ALICE).may_all_below("read", steps_of(PORT))

    everything = rule("permit")
    assert may(everything)
    assert may(rule("deny", "/other:top"), everything)
    assert may(rule("deny", PORT.replace("p1", "p2")), everything)
    assert may(everything, rule("deny", PORT))
    assert may(rule("deny", PORT, operations="create update delete"), everything)
    assert not may(rule("deny", PORT), everything)
    assert not may(rule("deny", f"{PORT}/description"), everything)
    assert not may(rule("deny", "/ietf-interfaces:interfaces"), everything)
    assert not may(rule("deny", module="ieee802-dot1q-bridge"), everything)
    assert not may(rule("permit", module="ietf-interfaces"))
    assert not may()


def test_no_access_control_restricts_root_or_anybody_where_it_is_disabled():
    denied = policy(rule("deny"))
    for rights in (
        denied.data_rights(Account("root", is_recovery=True)),
        replace(denied, is_enabled=False).data_rights(ALICE),
    ):
        assert rights.may_all_below("read", steps_of(PORT))
        assert rights.may("delete", steps_of(PORT), RIGHTS)
