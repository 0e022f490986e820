"""NACM for operations (RFC 8341, section 3.4.4): which are denied unless a rule permits them."""

from __future__ import annotations

import pytest

from agent.netconfd.broker.access import Account, Policy

ANN = Account("ann")
DENIED_BY_THEIR_SCHEMA = [
    ("ietf-netconf", "kill-session"),
    ("ietf-netconf", "delete-config"),
    ("ietf-subscribed-notifications", "kill-subscription"),
]


def policy(*rules):
    """Everybody may execute what no rule is about."""
    return Policy.from_json(
        {
            "enable-nacm": True,
            "exec-default": "permit",
            "read-default": "deny",
            "write-default": "deny",
            "enable-external-groups": False,
            "groups": {"group": [{"name": "staff", "user-name": ["ann"]}]},
            "rule-list": [{"name": "staff", "group": ["staff"], "rule": list(rules)}],
        }
    )


@pytest.mark.parametrize(("module", "operation"), DENIED_BY_THEIR_SCHEMA)
def test_an_operation_that_its_schema_denies_needs_a_rule(module, operation):
    rule = {
        "name": "this",
        "module-name": module,
        "rpc-name": operation,
        "access-operations": "exec",
        "action": "permit",
    }
    assert not policy().permits(ANN, module, operation)
    assert policy(rule).permits(ANN, module, operation)


def test_any_other_operation_needs_none():
    assert policy().permits(ANN, "ietf-subscribed-notifications", "establish-subscription")
