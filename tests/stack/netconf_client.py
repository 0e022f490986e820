"""Requests as they are written in a standard, through an ncclient session, and their replies."""

from __future__ import annotations

import re

from lxml import etree
from ncclient.operations import RaiseMode
from ncclient.xml_ import to_ele

BASE = "urn:ietf:params:xml:ns:netconf:base:1.0"
INTERFACES = "urn:ietf:params:xml:ns:yang:ietf-interfaces"
MONITORING = "urn:ietf:params:xml:ns:yang:ietf-netconf-monitoring"
NMDA = "urn:ietf:params:xml:ns:yang:ietf-netconf-nmda"
DEFAULTS = "urn:ietf:params:xml:ns:yang:ietf-netconf-with-defaults"

# What operations in this project's tests may use without declaring it.
PREFIXES = {
    "nc": BASE,
    "if": INTERFACES,
    "ianaift": "urn:ietf:params:xml:ns:yang:iana-if-type",
    "ncm": MONITORING,
    "ncds": NMDA,
    "ncwd": DEFAULTS,
    "wd": "urn:ietf:params:xml:ns:netconf:default:1.0",
    "ds": "urn:ietf:params:xml:ns:yang:ietf-datastores",
    "or": "urn:ietf:params:xml:ns:yang:ietf-origin",
    "bridge": "urn:ieee:std:802.1Q:yang:ieee802-dot1q-bridge",
    "gates": "urn:ieee:std:802.1Q:yang:ieee802-dot1q-sched-bridge",
    "sched": "urn:ieee:std:802.1Q:yang:ieee802-dot1q-sched",
    "tsn": "urn:tsn-control-plane:yang:tsn-linux",
    "nacm": "urn:ietf:params:xml:ns:yang:ietf-netconf-acm",
    "yang": "urn:ietf:params:xml:ns:yang:1",
    "sn": "urn:ietf:params:xml:ns:yang:ietf-subscribed-notifications",
    "yp": "urn:ietf:params:xml:ns:yang:ietf-yang-push",
    "lib": "urn:ietf:params:xml:ns:yang:ietf-yang-library",
}


def ask(client, operation):
    """The reply to an operation, written with any of `PREFIXES`; an <rpc-error> is one too.

    An operation that states no namespace is one of the base protocol.
    """
    name, rest = re.fullmatch(r"(<[^\s/>]+)(.*)", operation, re.DOTALL).groups()
    declared = [f'xmlns:{prefix}="{uri}"' for prefix, uri in PREFIXES.items()]
    if not re.match(r"[^>]*xmlns=", rest):
        declared.append(f'xmlns="{BASE}"')
    client.raise_mode = RaiseMode.NONE
    request = to_ele(f"{name} {' '.join(declared)} {rest}")
    return etree.fromstring(client.dispatch(request).xml.encode())


def errors(reply):
    """The <rpc-error> elements of a reply."""
    return reply.findall(f"{{{BASE}}}rpc-error")


def texts(node, xpath):
    """The text of what an XPath with `PREFIXES` finds."""
    return [each.text for each in node.xpath(xpath, namespaces=PREFIXES)]
