"""Subscriptions as a client asks for them and hears of them, through an ncclient session."""

from __future__ import annotations

from lxml import etree

from tests.stack.netconf_client import BASE, INTERFACES, PREFIXES, ask, errors, texts
from tests.stack.netconfd_process import WAIT_TIMEOUT_S

SUBSCRIBED = PREFIXES["sn"]
PUSH = PREFIXES["yp"]
EVERY_SECOND = "<yp:periodic><yp:period>100</yp:period></yp:periodic>"
ON_CHANGE = "<yp:on-change/>"
EVERY_HOUR = "<yp:periodic><yp:period>360000</yp:period></yp:periodic>"
SHORT = "<yp:periodic><yp:period>10</yp:period></yp:periodic>"
SERVER = "urn:tsn-control-plane:yang:tsn-netconf-server"
SERVER_LIMITS = (
    f'<yp:datastore-xpath-filter xmlns:s="{SERVER}">/s:netconf-server/s:limits'
    "</yp:datastore-xpath-filter>"
)
NACM = PREFIXES["nacm"]
HIDDEN_P1 = "/if:interfaces/if:interface[if:name='p1']"
CONFIG_CHANGES = (
    '<stream-xpath-filter xmlns:ev="urn:ietf:params:xml:ns:yang:ietf-netconf-notifications">'
    "/ev:netconf-config-change[ev:datastore='running']</stream-xpath-filter>"
)
NO_SUCH = ("invalid-value", "ietf-subscribed-notifications:no-such-subscription")
OF_INTERFACES = "<yp:datastore-xpath-filter>/if:interfaces</yp:datastore-xpath-filter>"


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


def delete(client, number):
    reply = about(client, "delete-subscription", number)
    assert not errors(reply), etree.tostring(reply)


def about(client, operation, number, more="", namespace=SUBSCRIBED):
    """The reply to an operation on one subscription."""
    return ask(client, f'<{operation} xmlns="{namespace}"><id>{number}</id>{more}</{operation}>')


def resync(client, number):
    return about(client, "resync-subscription", number, namespace=PUSH)


def state_of_subscriptions(client):
    """Number and datastore of each; the datastore of one to the stream is the stream."""
    reply = ask(client, f'<get><filter><subscriptions xmlns="{SUBSCRIBED}"/></filter></get>')
    assert not errors(reply), etree.tostring(reply)
    return [
        (
            each.findtext("{*}id"),
            each.findtext("{*}stream") or each.findtext("{*}datastore").partition(":")[2],
        )
        for each in reply.iter(f"{{{SUBSCRIBED}}}subscription")
    ]


def establish_stream(client, more="", stream="NETCONF"):
    return ask(
        client,
        f'<establish-subscription xmlns="{SUBSCRIBED}"><stream>{stream}</stream>{more}'
        "</establish-subscription>",
    )


def set_configuration(client, xml):
    reply = ask(
        client,
        f"<edit-config><target><candidate/></target><config>{xml}</config></edit-config>",
    )
    assert not errors(reply), etree.tostring(reply)
    assert not errors(ask(client, "<commit/>"))


def hide(client, path, operation="create"):
    """A rule before all others: observers may not read what is at the path."""
    rule = (
        f'<rule nc:operation="{operation}" yang:insert="first"><name>hidden</name>'
        f"<path>{path}</path><access-operations>read</access-operations>"
        "<action>deny</action></rule>"
        if operation == "create"
        else f'<rule nc:operation="{operation}"><name>hidden</name></rule>'
    )
    set_configuration(
        client,
        f'<nacm xmlns="{NACM}"><rule-list><name>tsn-observer</name>{rule}</rule-list></nacm>',
    )


def set_limits(client, xml):
    set_configuration(
        client, f'<netconf-server xmlns="{SERVER}"><limits>{xml}</limits></netconf-server>'
    )
