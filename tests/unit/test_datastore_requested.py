"""Ports a client did not ask for are not built; one it may have asked for always is."""

from __future__ import annotations

import pytest

from agent.datastore.requested import requested_ports

INTERFACES = "/ietf-interfaces:interfaces"
P1 = f"{INTERFACES}/interface[name='p1']"
OURS = f"{INTERFACES}/ietf-interfaces:interface[ietf-interfaces:name='p2']"


@pytest.mark.parametrize(
    ("xpath", "ports"),
    [
        (P1, {"p1"}),
        (f'{INTERFACES}/interface[name = "a\'b"]', {"a'b"}),
        (f"{P1}/ieee802-dot1q-bridge:bridge-port/tsn-linux:taprio/kernel", {"p1"}),
        (f"{P1}/*", {"p1"}),
        (f"{OURS}/ietf-interfaces:name | {OURS}/ietf-interfaces:oper-status", {"p2"}),
        (f"({P1}/type) | ({OURS})", {"p1", "p2"}),
        (f"({P1} | {OURS} | /tsn-linux:agent)", {"p1", "p2"}),
        ("/tsn-linux:agent/pid", set()),
    ],
)
def test_only_the_ports_named_are_built(xpath, ports):
    assert requested_ports(xpath) == ports


@pytest.mark.parametrize(
    "xpath",
    [
        None,
        "",
        "/*",
        "//*",
        "/ietf-interfaces:*",
        INTERFACES,
        f"{INTERFACES}/interface",
        f"{INTERFACES}/interface/name",
        f"{INTERFACES}/*[name='p1']",
        f"{INTERFACES}/interface[name!='p1']",
        f"{INTERFACES}/interface[not(name='p1')]",
        f"{INTERFACES}/interface[name='p1' or name='p2']",
        f"{INTERFACES}/interface[name='p1'][type]/../interface",
        f"{INTERFACES}/interface[name=../interface/name]",
        f"{INTERFACES}/interface[name='a|b']",
        f"{INTERFACES}/interface[type='x']",
        f"{P1}/..",
        f"{P1}/../interface",
        f"{P1}/parent::*",
        f"{P1}/following-sibling::interface",
        f"{P1}//name",
        f"{P1} | {INTERFACES}/interface",
        f"{P1} or true()",
        f"({P1} | {INTERFACES}/interface)[1]",
        f"/tsn-linux:agent | {INTERFACES}",
        "/tsn-linux:agent/../ietf-interfaces:interfaces",
        "/tsn-linux:agent[/ietf-interfaces:interfaces]",
    ],
)
def test_what_is_not_understood_gets_every_port(xpath):
    assert requested_ports(xpath) is None
