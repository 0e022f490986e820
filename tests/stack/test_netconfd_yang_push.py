"""RFC 8639 and RFC 8641 on a real sysrepo: subscriptions to datastores, periodic and on change."""

from __future__ import annotations

import pytest
from lxml import etree

from tests.stack.netconf_client import BASE, INTERFACES, PREFIXES, ask, errors, texts
from tests.stack.netconfd_process import WAIT_TIMEOUT_S

SUBSCRIBED = PREFIXES["sn"]
PUSH = PREFIXES["yp"]
EVERY_SECOND = "<yp:periodic><yp:period>100</yp:period></yp:periodic>"
ON_CHANGE = "<yp:on-change/>"
OF_INTERFACES = "<yp:datastore-xpath-filter>/if:interfaces</yp:datastore-xpath-filter>"


@pytest.fixture
def client(shared_netconfd):
    with shared_netconfd.connect() as client:
        yield client


@pytest.fixture
def operator(shared_netconfd):
    with shared_netconfd.connect() as client:
        yield client


def establish(client, trigger, filter_=OF_INTERFACES, datastore="running", more=""):
    """The reply to an establish-subscription."""
    return ask(
        client,
        f'<establish-subscription xmlns="{SUBSCRIBED}"><yp:datastore>ds:{datastore}'
        f"</yp:datastore>{filter_}{trigger}{more}</establish-subscription>",
    )


def subscribed(client, *arguments, **options):
    """The number of a new subscription."""
    reply = establish(client, *arguments, **options)
    assert not errors(reply), etree.tostring(reply)
    (number,) = texts(reply, "/*/sn:id")
    return number


def notification(client):
    """The element of the next notification."""
    taken = client.take_notification(timeout=WAIT_TIMEOUT_S)
    assert taken is not None, "no notification came"
    _, element = taken.notification_ele
    return element


def update(client, name="push-update"):
    """The next notification, which is this one of YANG push."""
    element = notification(client)
    assert element.tag == f"{{{PUSH}}}{name}", etree.tostring(element)
    return element


def state_change(client, name):
    """The next notification, which tells this of a subscription; the reason if it has one."""
    element = notification(client)
    assert element.tag == f"{{{SUBSCRIBED}}}{name}", etree.tostring(element)
    return element.findtext("{*}reason")


def names(element):
    """The interfaces in an update."""
    return texts(element, ".//if:interface/if:name")


def edits(element):
    """Operation and target of each edit in an update on change."""
    return [
        (edit.findtext("{*}operation"), edit.findtext("{*}target"))
        for edit in element.iter(f"{{{PUSH}}}edit")
    ]


def commit(client, *interfaces):
    config = "".join(interfaces)
    reply = ask(
        client,
        "<edit-config><target><candidate/></target><config>"
        f'<interfaces xmlns="{INTERFACES}">{config}</interfaces></config></edit-config>',
    )
    assert not errors(reply), etree.tostring(reply)
    assert not errors(ask(client, "<commit/>"))


def interface(name, leaves="", operation="merge"):
    return (
        f'<interface nc:operation="{operation}"><name>{name}</name>'
        f"<type>ianaift:ethernetCsmacd</type>{leaves}</interface>"
    )


def refusal(reply):
    """Tag and identity of the error."""
    (error,) = errors(reply)
    return error.findtext(f"{{{BASE}}}error-tag"), error.findtext(f"{{{BASE}}}error-app-tag")


def test_a_periodic_subscription_sends_what_is_selected_now_at_each_period(client, operator):
    number = subscribed(client, EVERY_SECOND)
    first = update(client)
    assert first.findtext("{*}id") == number
    assert names(first) == []
    commit(operator, interface("p1"))
    while not names(second := update(client)):
        pass
    assert names(second) == ["p1"]


def test_a_subscription_on_change_begins_with_everything_and_goes_on_with_what_changes(
    client, operator
):
    commit(operator, interface("p1"))
    subscribed(client, ON_CHANGE)
    assert names(update(client)) == ["p1"]

    commit(operator, interface("p2", "<description>new</description>"))
    created = update(client, "push-change-update")
    assert edits(created) == [("create", "/ietf-interfaces:interfaces/interface=p2")]
    assert texts(created, ".//yp:value/if:interface/if:description") == ["new"]
    assert texts(created, ".//yp:patch-id") == ["0"]

    commit(operator, interface("p2", "<description>newer</description>"))
    changed = update(client, "push-change-update")
    assert edits(changed) == [("replace", "/ietf-interfaces:interfaces/interface=p2/description")]
    assert texts(changed, ".//yp:value/if:description") == ["newer"]
    assert texts(changed, ".//yp:patch-id") == ["1"]

    commit(operator, interface("p1", operation="delete"))
    assert edits(update(client, "push-change-update")) == [
        ("delete", "/ietf-interfaces:interfaces/interface=p1")
    ]


def test_a_stream_and_a_datastore_can_be_subscribed_to_in_one_session(client, operator):
    subscribed(client, ON_CHANGE)
    assert names(update(client)) == []
    reply = ask(
        client,
        f'<establish-subscription xmlns="{SUBSCRIBED}"><stream>NETCONF</stream>'
        '<stream-xpath-filter xmlns:ev="urn:ietf:params:xml:ns:yang:ietf-netconf-notifications">'
        "/ev:netconf-config-change</stream-xpath-filter></establish-subscription>",
    )
    assert not errors(reply), etree.tostring(reply)
    commit(operator, interface("p1"))
    tags = sorted(etree.QName(notification(client)).localname for _ in range(2))
    assert tags == ["netconf-config-change", "push-change-update"]
