"""A sysrepo with configuration and state of every kind, and the expressions to ask it for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from sysrepo import Change

from agent.sysrepo import SysrepoConnection
from agent.sysrepo.operational import provide
from tests.stack.sysrepo_client import gated, gated_interface

STATISTICS = {"discontinuity-time": "2026-01-01T00:00:00-00:00"}
IF = "/ietf-interfaces:interfaces"
ONE = f"{IF}/ietf-interfaces:interface"
GATES = "ieee802-dot1dc-sched-if:gate-parameter-table"
PORT = "ieee802-dot1q-bridge:bridge-port"
NACM = "/ietf-netconf-acm:nacm"
LLDP = "/tsn-linux:lldp"

# Written as the filters of clients become: with the names of modules.
DOWNWARDS = (
    "/*",
    "/*/*",
    IF,
    "/ietf-interfaces:*",
    ONE,
    f"{ONE}/*",
    f"{IF}/*/ietf-interfaces:name",
    f"{ONE}/ietf-interfaces:enabled",
    f"{ONE}/ietf-interfaces:description",
    f"{ONE}[ietf-interfaces:name='p1']",
    f"{ONE}[ietf-interfaces:name='nowhere']",
    f"{ONE}[ietf-interfaces:name='p1']/ietf-interfaces:enabled",
    (
        f"{ONE}[ietf-interfaces:name='p1']/ietf-interfaces:name"
        f" | {ONE}[ietf-interfaces:name='p1']/ietf-interfaces:type"
        f" | {ONE}[ietf-interfaces:name='p1']/{GATES}/admin-cycle-time"
    ),
    f"{ONE}/ietf-interfaces:enabled | {ONE}[ietf-interfaces:name='p2'] | {NACM}/read-default",
    f"{ONE} | {ONE}/ietf-interfaces:name",
    f"{ONE}[ietf-interfaces:enabled='false']/ietf-interfaces:name",
    f"{ONE}[ietf-interfaces:enabled != 'false']/ietf-interfaces:type",
    f"{ONE}[ietf-interfaces:type='iana-if-type:ethernetCsmacd']/ietf-interfaces:name",
    f"{ONE}[ietf-interfaces:description]/ietf-interfaces:name",
    f"{ONE}[ietf-interfaces:description=concat('an \"', \"uplink'\")]/ietf-interfaces:name",
    f"{ONE}[ietf-interfaces:statistics]/ietf-interfaces:statistics/in-octets",
    f"{ONE}[ietf-interfaces:statistics/in-octets > 5]/ietf-interfaces:oper-status",
    f"{ONE}[{PORT}/tsn-linux:dscp-rule/priority=7]/ietf-interfaces:name",
    f"{ONE}[{GATES}]/ietf-interfaces:name",
    f"{ONE}[{GATES}/admin-control-list]/{GATES}/admin-control-list/gate-control-entry/index",
    f"{ONE}/{GATES}",
    f"{ONE}/{GATES}/gate-enabled",
    f"{ONE}/{GATES}/admin-control-list/gate-control-entry",
    f"{ONE}/{GATES}/admin-control-list/gate-control-entry[index='1']/gate-states-value",
    f"{ONE}/{GATES}/admin-control-list/gate-control-entry/*",
    f"{ONE}/{PORT}/tsn-linux:dscp-rule",
    f"{ONE}/{PORT}/ieee802-dot1q-bridge:traffic-class",
    "/*[local-name()='interfaces']",
    "/*[local-name()='interfaces']/*[local-name()='interface']/*[local-name()='enabled']",
    "/*[local-name()='interfaces']/*[local-name()='interface'][*[local-name()='name']='p2']",
    (
        "/*[local-name()='nacm']/*[local-name()='groups']/*[local-name()='group']"
        "[*[local-name()='name']='tsn-operator']/*[local-name()='user-name']"
    ),
    "//ietf-interfaces:oper-status",
    "//ietf-interfaces:name",
    "//tsn-linux:dscp-rule/tsn-linux:priority",
    "//index",
    "/*/*/enabled",
    "/*/*/gate-enabled",
    "/*/*/*/gate-enabled",
    f"{IF}/*/*/gate-enabled",
    "//*",
    f"{IF}//{GATES}/gate-enabled",
    f"{IF}//*",
    f"{ONE}/ietf-interfaces:type[.='iana-if-type:ethernetCsmacd']",
    f"{NACM}",
    f"{NACM}/groups/group/user-name",
    f"{NACM}/groups/group/user-name[.='observer']",
    f"{NACM}/rule-list/rule",
    f"{NACM}/rule-list[name='tsn-observer']/rule/module-name",
    f"{NACM}/rule-list/rule[path]/name",
    f"{LLDP}",
    f"{LLDP}/neighbor",
    f"{LLDP}/neighbor[interface='p1']/system-name",
    f"{LLDP}/neighbor/management-address",
    "/ietf-yang-library:yang-library/module-set/module[name='tsn-linux']/namespace",
    "/tsn-netconf-server:netconf-server/limits",
    "/tsn-netconf-server:netconf-server/limits/max-sessions",
    f"{IF}/ietf-interfaces:nothing",
    f"{IF}/ietf-interfaces:nothing | {ONE}/ietf-interfaces:enabled",
)
# Where more than what is below a node decides on it.
ANYWHERE = (
    f"{ONE}[1]/ietf-interfaces:description",
    f"{ONE}[2]/ietf-interfaces:name",
    f"{ONE}[last()]",
    f"{ONE}[position() < 3]/ietf-interfaces:enabled",
    f"{ONE}[ietf-interfaces:description][1]/ietf-interfaces:name",
    f"({ONE}/ietf-interfaces:name)[2]",
    f"{ONE}[not(ietf-interfaces:description)]/ietf-interfaces:name",
    f"{ONE}[count({PORT}) = 1]/ietf-interfaces:name",
    f"{IF}[count(ietf-interfaces:interface) > 2]/interface/type",
    f"{ONE}[contains(., 'uplink')]/ietf-interfaces:name",
    f"{ONE}[contains(ietf-interfaces:name, '2')]/ietf-interfaces:enabled",
    f"{ONE}[starts-with(ietf-interfaces:name, 'p') and ietf-interfaces:enabled='true']",
    f"{ONE}[string-length(ietf-interfaces:description) > 3 or ietf-interfaces:name='p2']/type",
    f"{ONE}[../ietf-interfaces:interface[3]]/ietf-interfaces:name",
    f"{ONE}/ietf-interfaces:enabled/..",
    f"{ONE}/ietf-interfaces:name/../ietf-interfaces:enabled",
    f"{ONE}/{GATES}/ancestor::ietf-interfaces:interface/ietf-interfaces:enabled",
    f"{ONE}/descendant::index",
    f"{IF}/descendant-or-self::ietf-interfaces:interface",
    f"{ONE}/child::ietf-interfaces:name",
    f"{ONE}/self::node()[ietf-interfaces:enabled='false']",
    f"{ONE}/node()",
    f"{ONE}/text()",
    f"{ONE}[re-match(ietf-interfaces:name, 'p[0-9]')]/ietf-interfaces:name",
    f"{ONE}[derived-from-or-self(ietf-interfaces:type, 'ietf-interfaces:interface-type')]/name",
    f"{ONE}/{GATES}/admin-control-list/gate-control-entry[last()]/index",
    f"{ONE}[sum({GATES}//time-interval-value) = 1000000]/ietf-interfaces:name",
    f"{NACM}/rule-list[last()]/rule[1]",
    f"{LLDP}/neighbor[system-name=../neighbor[1]/system-name]/port-id",
)
# sysrepo answers these with nothing, since it does not see which modules hold the data; and another
# expression that selects the same.
BEYOND_SYSREPO = {
    "//ietf-interfaces:interfaces": IF,
    "//ietf-interfaces:interfaces//ietf-interfaces:enabled": f"{ONE}/ietf-interfaces:enabled",
    "ietf-interfaces:interfaces/interface/name": f"{ONE}/ietf-interfaces:name",
    f"{IF}//gate-states-value": f"{ONE}/{GATES}//ieee802-dot1dc-sched-if:gate-states-value"
    f" | {ONE}/{PORT}//ieee802-dot1q-sched-bridge:gate-states-value",
    f"{ONE}[.//gate-states-value = 2]/ietf-interfaces:name": f"{ONE}[ietf-interfaces:type]/name",
    f"{ONE}[ietf-interfaces:name=current()/ietf-interfaces:interfaces/interface/name]/enabled": (
        f"{ONE}/ietf-interfaces:enabled"
    ),
    f"{ONE}/following-sibling::ietf-interfaces:interface/type": f"{ONE}[position() > 1]/type",
    f"{ONE}/preceding-sibling::ietf-interfaces:interface": f"{ONE}[position() < last()]",
    f"{ONE}[ietf-interfaces:name={LLDP}/neighbor/interface]/ietf-interfaces:oper-status": (
        f"{ONE}[ietf-interfaces:name='p1' or ietf-interfaces:name='p2']/oper-status"
    ),
}


@contextmanager
def filtered_switch(connection: SysrepoConnection) -> Iterator[None]:
    """Three interfaces with gates, NACM's rules and neighbours, in running and operational."""
    with ExitStack() as stack:
        session = stack.enter_context(connection.start_session())
        session.replace_config({"interfaces": {"interface": _interfaces()}}, "ietf-interfaces")
        session.replace_config({"nacm": _NACM}, "ietf-netconf-acm")
        state = stack.enter_context(connection.start_session("operational"))
        for module in ("ietf-interfaces", "ietf-netconf-acm", "tsn-netconf-server"):
            # Configuration is in operational once somebody applies it.
            session.subscribe_module_change(module, None, _apply)
        for module, path, data in (
            ("ietf-interfaces", IF, {"ietf-interfaces:interfaces": {"interface": _STATES}}),
            ("tsn-linux", LLDP, {"tsn-linux:lldp": _LLDP}),
        ):
            stack.enter_context(
                provide(state, module, path, lambda _, data=data: json.dumps(data), merge=True)
            )
        yield


def _apply(_event: str, _request: int, _changes: list[Change], _private: Any) -> None:
    """Whatever it is."""


def _interfaces() -> list[dict]:
    first, second, third = gated_interface("p1"), gated("p2"), gated("p3")
    first["description"] = "an \"uplink'"
    third["description"] = ""
    return [first, second, third]


_STATES = [
    {
        "name": f"p{number}",
        "oper-status": "up",
        "statistics": {**STATISTICS, "in-octets": str(number * 3), "out-octets": "0"},
    }
    for number in (1, 2, 4)
]
_NACM = {
    "read-default": "permit",
    "groups": {
        "group": [
            {"name": "tsn-operator", "user-name": ["operator", "second"]},
            {"name": "tsn-observer", "user-name": ["observer"]},
        ]
    },
    "rule-list": [
        {
            "name": "tsn-observer",
            "group": ["tsn-observer"],
            "rule": [
                {"name": "why", "path": f"{IF}/interface/description", "action": "deny"},
                {"name": "rest", "module-name": "ietf-interfaces", "action": "permit"},
            ],
        },
        {"name": "last", "group": ["*"], "rule": [{"name": "none", "action": "deny"}]},
    ],
}
_LLDP = {
    "system-name": "sw1",
    "neighbor": [
        {
            "interface": port,
            "index": 1,
            "system-name": "sw2",
            "port-id": f"{port}-there",
            "management-address": ["192.0.2.1", "192.0.2.2"],
        }
        for port in ("p1", "p2")
    ],
}
