"""RFC 6243: which values equal to their default are shown, and what the mark wd:default does."""

from __future__ import annotations

import pytest
from lxml import etree

from tests.stack.netconf_client import BASE, DEFAULTS, INTERFACES, ask, errors, texts

MARK = "{urn:ietf:params:xml:ns:netconf:default:1.0}default"
BRIDGE = "urn:ieee:std:802.1Q:yang:ieee802-dot1q-bridge"
TSN_LINUX = "urn:tsn-control-plane:yang:tsn-linux"


def gate_mode(leaf):
    """The leaf of these tests, whose default is software, in its containers."""
    return (
        f'<bridge-port xmlns="{BRIDGE}"><taprio xmlns="{TSN_LINUX}">{leaf}</taprio></bridge-port>'
    )


DEFAULT = gate_mode("<mode>software</mode>")
FILTER = (
    f'<filter type="subtree"><interfaces xmlns="{INTERFACES}"><interface><name/>'
    f"{gate_mode('<mode/>')}</interface></interfaces></filter>"
)
SOURCE = "<source><running/></source>"


@pytest.fixture
def client(shared_netconfd):
    with shared_netconfd.connect() as client:
        yield client


def config(interfaces):
    return f'<config><interfaces xmlns="{INTERFACES}">{interfaces}</interfaces></config>'


def interface(name, content=""):
    return f"<interface><name>{name}</name><type>ianaift:ethernetCsmacd</type>{content}</interface>"


def edit(client, interfaces):
    return ask(
        client, f"<edit-config><target><candidate/></target>{config(interfaces)}</edit-config>"
    )


def mode(name):
    return "" if name is None else f'<with-defaults xmlns="{DEFAULTS}">{name}</with-defaults>'


def modes(client, name=None, source="running"):
    """By interface: its gate mode and the mark on it, False if no mode is shown."""
    reply = ask(
        client,
        f"<get-config><source><{source}/></source>{FILTER}{mode(name)}</get-config>",
    )
    found = {}
    for each in reply.iter(f"{{{INTERFACES}}}interface"):
        leaf = each.find(f".//{{{TSN_LINUX}}}mode")
        found[each.findtext(f"{{{INTERFACES}}}name")] = leaf is not None and (
            leaf.text,
            leaf.get(MARK),
        )
    return found


@pytest.fixture
def three(client):
    """One interface with nothing set, one with the default set, one with another value."""
    assert not errors(
        edit(
            client,
            interface("unset")
            + interface("set", DEFAULT)
            + interface("other", gate_mode("<mode>full-offload</mode>")),
        )
    )
    client.commit()


def test_the_hello_lists_every_mode(client):
    capability = "urn:ietf:params:netconf:capability:with-defaults:1.0"
    assert (
        f"{capability}?basic-mode=explicit&also-supported=report-all,report-all-tagged,trim"
        in client.server_capabilities
    )


SHOWN = [
    (None, {"unset": False, "set": ("software", None), "other": ("full-offload", None)}),
    ("explicit", {"unset": False, "set": ("software", None), "other": ("full-offload", None)}),
    ("trim", {"unset": False, "set": False, "other": ("full-offload", None)}),
    (
        "report-all",
        {"unset": ("software", None), "set": ("software", None), "other": ("full-offload", None)},
    ),
    (
        "report-all-tagged",
        {
            "unset": ("software", "true"),
            "set": ("software", "true"),
            "other": ("full-offload", None),
        },
    ),
]


@pytest.mark.usefixtures("three")
@pytest.mark.parametrize(("name", "shown"), SHOWN)
def test_a_mode_shows_what_the_standard_says(client, name, shown):
    assert modes(client, name) == shown


@pytest.mark.usefixtures("three")
@pytest.mark.parametrize(
    ("operation", "namespace"),
    [
        ("get", f'<get xmlns="{BASE}">'),
        ("get-config", f'<get-config xmlns="{BASE}"><source><running/></source>'),
    ],
)
def test_get_takes_the_same_modes_as_get_config(client, operation, namespace):
    counts = {
        name: len(
            texts(
                ask(client, f"{namespace}{FILTER}{mode(name)}</{operation}>"),
                f"//*[namespace-uri()='{TSN_LINUX}'][local-name()='mode']",
            )
        )
        for name in ("explicit", "trim", "report-all", "report-all-tagged")
    }
    assert counts == {"explicit": 2, "trim": 1, "report-all": 3, "report-all-tagged": 3}


@pytest.mark.usefixtures("three")
def test_a_tagged_reply_sent_back_changes_nothing_but_unsets_defaults(client):
    """What is marked was said to be a default: it is one nobody set, then."""
    reply = ask(client, f"<get-config>{SOURCE}{FILTER}{mode('report-all-tagged')}</get-config>")
    (data,) = reply
    data.tag = f"{{{BASE}}}config"
    edit_ = (
        f"<edit-config><target><candidate/></target>{etree.tostring(data).decode()}</edit-config>"
    )
    assert not errors(ask(client, edit_))
    client.commit()
    assert modes(client) == {"unset": False, "set": False, "other": ("full-offload", None)}


@pytest.mark.usefixtures("three")
@pytest.mark.parametrize(
    ("leaf", "tag"),
    [
        (gate_mode('<mode wd:default="true">full-offload</mode>'), "invalid-value"),
        (gate_mode('<mode wd:default="true"/>'), "invalid-value"),
        (gate_mode('<mode wd:default="perhaps">software</mode>'), "invalid-value"),
        ('<description wd:default="true">x</description>', "invalid-value"),
    ],
)
def test_a_mark_on_a_value_that_is_not_the_default_is_refused(client, leaf, tag):
    reply = edit(client, interface("set", leaf))
    assert texts(reply, "//nc:error-tag") == [tag]
    assert modes(client, source="candidate") == modes(client)


def test_a_mark_that_says_false_means_nothing(client):
    assert not errors(
        edit(client, interface("a", gate_mode('<mode wd:default="false">software</mode>')))
    )
    assert modes(client, source="candidate") == {"a": ("software", None)}


@pytest.mark.usefixtures("three")
def test_a_default_may_be_marked_where_a_whole_configuration_is_given(client):
    whole = config(interface("set", gate_mode('<mode wd:default="true">software</mode>')))
    reply = ask(
        client,
        f"<copy-config><target><candidate/></target><source>{whole}</source></copy-config>",
    )
    assert not errors(reply)
    assert modes(client, source="candidate") == {"set": False}


@pytest.mark.usefixtures("three")
@pytest.mark.parametrize(("name", "shown"), SHOWN[:4])
def test_a_copy_holds_what_its_mode_shows(client, name, shown):
    reply = ask(
        client,
        f"<copy-config><target><startup/></target>{SOURCE}{mode(name)}</copy-config>",
    )
    assert not errors(reply)
    assert modes(client, source="startup") == shown


def test_a_mode_nobody_knows_is_refused(client):
    reply = ask(client, f"<get-config>{SOURCE}{mode('some')}</get-config>")
    assert texts(reply, "//nc:error-tag") == ["invalid-value"]
