"""Which nodes NACM lets a user read, by their paths (RFC 8341, section 3.4.5)."""

from __future__ import annotations

import pytest

from agent.netconfd.broker.access import Account, Policy
from agent.netconfd.broker.read_access import steps_of

ALICE = Account("alice")
PORT = "/ietf-interfaces:interfaces/interface[name='p1']"


def policy(*rules, read_default="permit", groups=("staff",)):
    """A policy in which alice is one of the staff."""
    return Policy.from_json(
        {
            "enable-nacm": True,
            "exec-default": "permit",
            "read-default": read_default,
            "enable-external-groups": False,
            "groups": {"group": [{"name": "staff", "user-name": ["alice"]}]},
            "rule-list": [{"group": list(groups), "rule": list(rules)}],
        }
    )


def rule(action, path=None, module="*", operations="read"):
    about = {} if path is None else {"path": path}
    return {"module-name": module, "access-operations": operations, "action": action, **about}


def may_read(of, path, account=ALICE, *, hidden=False):
    return of.permits_reading(account, steps_of(path), is_hidden_by_default=hidden)


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
