"""RFC 8639 and RFC 8641 on a real sysrepo: subscriptions to datastores, periodic and on change."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from lxml import etree
from ncclient.transport.errors import TransportError

from agent.netconfd.session.framing import END_OF_MESSAGE
from tests.stack.attacks import ENDLESS_XPATH
from tests.stack.netconf_client import BASE, INTERFACES, PREFIXES, ask, errors, texts
from tests.stack.netconfd_process import WAIT_TIMEOUT_S, private_octets, wait_until
from tests.stack.test_netconfd_notifications import HELLO

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
NOTIFICATION = "urn:ietf:params:xml:ns:netconf:notification:1.0"
CONFIG_CHANGES = (
    '<stream-xpath-filter xmlns:ev="urn:ietf:params:xml:ns:yang:ietf-netconf-notifications">'
    "/ev:netconf-config-change[ev:datastore='running']</stream-xpath-filter>"
)
NO_SUCH = ("invalid-value", "ietf-subscribed-notifications:no-such-subscription")
DOOR = Path(__file__).parent / "data" / "yang-events" / "door.yang"
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


@pytest.fixture
def observer(shared_netconfd):
    with shared_netconfd.connect(username="observer") as client:
        yield client


# --- periodic ---


def test_a_periodic_subscription_sends_what_is_selected_now_at_each_period(client, operator):
    number = subscribed(client, EVERY_SECOND)
    first = update(client)
    assert first.findtext("{*}id") == number
    assert names(first) == []
    commit(operator, interface("p1"))
    while not names(second := update(client)):
        pass
    assert names(second) == ["p1"]


@pytest.mark.parametrize("datastore", ["running", "candidate", "startup", "operational"])
def test_every_datastore_can_be_subscribed_to(client, datastore):
    subscribed(client, EVERY_SECOND, SERVER_LIMITS, datastore)
    # What is there by default only is shown where it is in use.
    assert bool(texts(update(client), ".//*[local-name()='max-sessions']")) == (
        datastore == "operational"
    )


def test_a_subtree_filter_selects_as_that_of_get_data(client, operator):
    commit(operator, interface("p1"), interface("p2"))
    filter_ = (
        f'<yp:datastore-subtree-filter><interfaces xmlns="{INTERFACES}"><interface>'
        "<name>p2</name></interface></interfaces></yp:datastore-subtree-filter>"
    )
    subscribed(client, EVERY_SECOND, filter_)
    assert names(update(client)) == ["p2"]


def test_updates_end_at_the_stop_time(client):
    stop = f"{datetime.now(UTC) + timedelta(seconds=2):%Y-%m-%dT%H:%M:%SZ}"
    number = subscribed(client, EVERY_SECOND, more=f"<stop-time>{stop}</stop-time>")
    while (element := notification(client)).tag == f"{{{PUSH}}}push-update":
        pass
    assert element.tag == f"{{{SUBSCRIBED}}}subscription-terminated"
    assert element.findtext("{*}id") == number
    assert element.findtext("{*}reason") == "ietf-subscribed-notifications:no-such-subscription"
    assert state_of_subscriptions(client) == []


def test_a_modified_subscription_says_so_and_goes_on_with_the_new_terms(client, operator):
    commit(operator, interface("p1"), interface("p2"))
    number = subscribed(client, EVERY_HOUR)
    assert names(update(client)) == ["p1", "p2"]
    only_p2 = (
        "<yp:datastore>ds:running</yp:datastore><yp:datastore-xpath-filter>"
        "/if:interfaces/if:interface[if:name='p2']</yp:datastore-xpath-filter>"
    )
    assert not errors(about(client, "modify-subscription", number, only_p2 + EVERY_SECOND))
    modified = notification(client)
    assert modified.tag == f"{{{SUBSCRIBED}}}subscription-modified"
    assert texts(modified, ".//yp:period") == ["100"]
    assert "if:name='p2'" in modified.findtext("{*}datastore-xpath-filter")
    assert names(update(client)) == names(update(client)) == ["p2"]


# --- on change ---


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


def test_what_the_filter_does_not_select_is_in_no_update(client, operator):
    commit(operator, interface("p1"), interface("p2"))
    only_p2 = (
        "<yp:datastore-xpath-filter>/if:interfaces/if:interface[if:name='p2']/if:description"
        "</yp:datastore-xpath-filter>"
    )
    subscribed(
        client, "<yp:on-change><yp:sync-on-start>false</yp:sync-on-start></yp:on-change>", only_p2
    )
    commit(operator, interface("p1", "<description>other</description>"))
    commit(operator, interface("p2", "<description>mine</description>"))
    (edit,) = edits(update(client, "push-change-update"))
    assert edit[1].startswith("/ietf-interfaces:interfaces")
    assert "p1" not in edit[1]


def test_excluded_changes_are_left_out(client, operator):
    commit(operator, interface("p1"), interface("p2"))
    subscribed(
        client, "<yp:on-change><yp:excluded-change>delete</yp:excluded-change></yp:on-change>"
    )
    update(client)
    commit(operator, interface("p1", operation="delete"))
    commit(operator, interface("p3"))
    assert edits(update(client, "push-change-update")) == [
        ("create", "/ietf-interfaces:interfaces/interface=p3")
    ]


def test_the_changes_of_startup_are_seen_too(client, operator):
    commit(operator, interface("p1"))
    subscribed(client, ON_CHANGE, datastore="startup")
    assert names(update(client)) == []
    operator.copy_config(source="running", target="startup")
    assert names(update(client, "push-change-update")) == ["p1"]


def test_a_resync_sends_everything_once_more_and_counts_patches_anew(client, operator):
    number = subscribed(client, ON_CHANGE)
    update(client)
    commit(operator, interface("p1"))
    assert texts(update(client, "push-change-update"), ".//yp:patch-id") == ["0"]
    assert not errors(resync(client, number))
    assert names(update(client)) == ["p1"]
    commit(operator, interface("p2"))
    assert texts(update(client, "push-change-update"), ".//yp:patch-id") == ["0"]


# --- access control ---


def test_a_periodic_update_has_nothing_that_its_user_may_not_read_at_that_time(operator, observer):
    commit(operator, interface("p1"), interface("p2"))
    hide(operator, HIDDEN_P1)
    subscribed(observer, EVERY_SECOND)
    assert names(update(observer)) == ["p2"]
    hide(operator, HIDDEN_P1, "delete")
    while names(update(observer)) != ["p1", "p2"]:
        pass
    hide(operator, HIDDEN_P1)
    # One may have been read before.
    update(observer)
    assert names(update(observer)) == ["p2"]


def test_what_access_control_hides_from_now_on_is_a_delete_and_its_changes_are_not_told(
    operator, observer
):
    commit(operator, interface("p1"), interface("p2"))
    subscribed(observer, ON_CHANGE)
    assert names(update(observer)) == ["p1", "p2"]
    hide(operator, HIDDEN_P1)
    assert edits(update(observer, "push-change-update")) == [
        ("delete", "/ietf-interfaces:interfaces/interface=p1")
    ]
    commit(operator, interface("p1", "<description>secret</description>"))
    commit(operator, interface("p3"))
    assert edits(update(observer, "push-change-update")) == [
        ("create", "/ietf-interfaces:interfaces/interface=p3")
    ]
    hide(operator, HIDDEN_P1, "delete")
    shown = update(observer, "push-change-update")
    assert edits(shown) == [("create", "/ietf-interfaces:interfaces/interface=p1")]
    assert texts(shown, ".//if:description") == ["secret"]


def test_a_user_who_may_no_longer_subscribe_loses_the_subscription(operator, observer):
    number = subscribed(observer, EVERY_SECOND)
    update(observer)
    set_configuration(
        operator,
        f'<nacm xmlns="{NACM}"><rule-list><name>tsn-observer</name>'
        '<rule nc:operation="delete"><name>establish-subscription</name></rule>'
        "</rule-list></nacm>",
    )
    while (element := notification(observer)).tag == f"{{{PUSH}}}push-update":
        pass
    assert element.tag == f"{{{SUBSCRIBED}}}subscription-terminated"
    assert element.findtext("{*}id") == number
    assert refusal(establish(observer, EVERY_SECOND))[0] == "access-denied"


def test_an_operator_ends_the_subscription_of_another_session_and_an_observer_does_not(
    operator, observer, client
):
    number = subscribed(client, EVERY_HOUR)
    update(client)
    assert refusal(about(observer, "kill-subscription", number))[0] == "access-denied"
    assert not errors(about(operator, "kill-subscription", number))
    assert state_change(client, "subscription-terminated").endswith(":no-such-subscription")
    assert refusal(about(operator, "kill-subscription", number)) == NO_SUCH
    assert state_of_subscriptions(operator) == []


# --- the stream ---


def test_a_stream_and_a_datastore_can_be_subscribed_to_in_one_session(client, operator):
    subscribed(client, ON_CHANGE)
    assert names(update(client)) == []
    reply = establish_stream(client, CONFIG_CHANGES)
    assert not errors(reply), etree.tostring(reply)
    commit(operator, interface("p1"))
    tags = sorted(etree.QName(notification(client)).localname for _ in range(2))
    assert tags == ["netconf-config-change", "push-change-update"]


def test_a_stream_is_replayed_from_the_start_time_and_ends_when_it_is_deleted(client, operator):
    start = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
    commit(operator, interface("p1"))
    replay = f"<replay-start-time>{start}</replay-start-time>"
    (number,) = texts(establish_stream(client, CONFIG_CHANGES + replay), "/*/sn:id")
    assert etree.QName(notification(client)).localname == "netconf-config-change"
    completed = notification(client)
    assert completed.tag == f"{{{SUBSCRIBED}}}replay-completed"
    assert completed.findtext("{*}id") == number
    assert state_of_subscriptions(operator) == [(number, "NETCONF")]
    delete(client, number)
    commit(operator, interface("p2"))
    assert state_of_subscriptions(operator) == []
    assert client.take_notification(block=False) is None


def test_the_two_ways_to_subscribe_are_not_mixed_in_one_session(client, operator):
    subscribed(client, EVERY_HOUR)
    create = f'<create-subscription xmlns="{NOTIFICATION}"/>'
    assert refusal(ask(client, create))[0] == "operation-not-supported"
    assert not errors(ask(operator, create))
    assert refusal(establish(operator, EVERY_HOUR))[0] == "operation-not-supported"


# --- what is refused ---


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((SHORT,), ("invalid-value", "ietf-yang-push:period-unsupported")),
        (
            (ON_CHANGE, OF_INTERFACES, "operational"),
            ("operation-not-supported", "ietf-yang-push:on-change-unsupported"),
        ),
        (
            (ON_CHANGE, OF_INTERFACES, "candidate"),
            ("operation-not-supported", "ietf-yang-push:on-change-unsupported"),
        ),
        (
            (EVERY_HOUR, OF_INTERFACES, "intended"),
            ("invalid-value", "ietf-yang-push:datastore-not-subscribable"),
        ),
        (
            (EVERY_HOUR, "<yp:datastore-xpath-filter>/if:no-such</yp:datastore-xpath-filter>"),
            ("invalid-value", "ietf-subscribed-notifications:filter-unsupported"),
        ),
        (
            (EVERY_HOUR, "<yp:datastore-xpath-filter>1 +</yp:datastore-xpath-filter>"),
            ("invalid-value", "ietf-subscribed-notifications:filter-unsupported"),
        ),
        (("",), ("missing-element", None)),
        ((EVERY_HOUR + ON_CHANGE,), ("unknown-element", None)),
        ((EVERY_HOUR + "<weighting>1</weighting>",), ("unknown-element", None)),
        ((EVERY_HOUR + "<stop-time>2001-01-01T00:00:00Z</stop-time>",), ("invalid-value", None)),
        (
            (EVERY_HOUR + "<encoding>encode-json</encoding>",),
            ("invalid-value", "ietf-subscribed-notifications:encoding-unsupported"),
        ),
    ],
)
def test_what_cannot_be_served_is_refused_with_the_standards_reason(client, arguments, expected):
    assert refusal(establish(client, *arguments)) == expected
    assert state_of_subscriptions(client) == []


def test_the_refusal_of_a_short_period_names_the_shortest(client):
    (error,) = errors(establish(client, SHORT))
    (info,) = error.iter(f"{{{PUSH}}}establish-subscription-datastore-error-info")
    assert info.findtext("{*}period-hint") == "100"
    assert info.findtext("{*}reason") == "ietf-yang-push:period-unsupported"


def test_nobody_touches_the_subscription_of_another_session(client, operator):
    number = subscribed(client, ON_CHANGE)
    update(client)
    same = "<yp:datastore>ds:running</yp:datastore>"
    assert refusal(about(operator, "delete-subscription", number)) == NO_SUCH
    assert refusal(about(operator, "modify-subscription", number, same)) == NO_SUCH
    assert refusal(resync(operator, number)) == (
        "invalid-value",
        "ietf-yang-push:no-such-subscription-resync",
    )
    assert [each for each, _ in state_of_subscriptions(operator)] == [number]


def test_a_stream_that_there_is_not_is_refused(client):
    assert refusal(establish_stream(client, stream="OTHER")) == ("invalid-value", None)


# --- limits and ends ---


def test_a_session_has_no_more_subscriptions_than_configured(shared_netconfd, operator):
    set_limits(operator, "<max-subscriptions-per-session>3</max-subscriptions-per-session>")
    with shared_netconfd.connect() as client:
        numbers = [subscribed(client, EVERY_HOUR) for _ in range(2)]
        assert not errors(establish_stream(client))
        assert refusal(establish(client, EVERY_HOUR)) == (
            "resource-denied",
            "ietf-subscribed-notifications:insufficient-resources",
        )
        delete(client, numbers[0])
        subscribed(client, EVERY_HOUR)


def test_the_shortest_period_is_configured(shared_netconfd, operator):
    set_limits(operator, "<min-push-period>10</min-push-period>")
    with shared_netconfd.connect() as client:
        subscribed(client, SHORT)
        update(client)
        update(client)


def test_the_operational_state_has_the_subscriptions_until_they_end(shared_netconfd, operator):
    assert state_of_subscriptions(operator) == []
    with shared_netconfd.connect() as client:
        periodic = subscribed(client, EVERY_HOUR, datastore="operational")
        update(client)
        on_change = subscribed(client, ON_CHANGE)
        update(client)
        assert state_of_subscriptions(operator) == [
            (periodic, "operational"),
            (on_change, "running"),
        ]
        delete(client, periodic)
        assert state_of_subscriptions(operator) == [(on_change, "running")]
    assert wait_until(lambda: not state_of_subscriptions(operator))


def test_a_killed_session_leaves_no_subscription(shared_netconfd, operator):
    victim = shared_netconfd.connect()
    subscribed(victim, EVERY_SECOND)
    update(victim)
    operator.kill_session(victim.session_id)
    assert wait_until(lambda: not state_of_subscriptions(operator))


def test_sigterm_ends_a_server_with_subscriptions(netconfd):
    with suppress(TransportError), netconfd.connect() as client:
        subscribed(client, EVERY_SECOND)
        subscribed(client, ON_CHANGE)
        assert not errors(establish_stream(client))
        update(client)
        assert netconfd.stop() == 0


def test_a_broker_that_is_killed_takes_the_sessions_with_subscriptions_along(netconfd):
    client = netconfd.connect()
    subscribed(client, EVERY_SECOND)
    update(client)
    os.kill(netconfd.broker_pid, signal.SIGKILL)
    assert wait_until(lambda: not client.connected)
    netconfd.wait()


def test_subscriptions_outlive_a_change_of_the_modules(netconfd):
    with netconfd.connect() as client, netconfd.connect() as operator:
        on_change = subscribed(client, ON_CHANGE)
        assert names(update(client)) == []
        periodic = subscribed(client, EVERY_SECOND)
        update(client)
        subprocess.run(["sysrepoctl", "--install", DOOR], check=True, capture_output=True)
        commit(operator, interface("p1"))
        told = set()
        while told != {on_change, periodic}:
            element = notification(client)
            assert element.tag.startswith(f"{{{PUSH}}}"), etree.tostring(element)
            told |= {element.findtext("{*}id")} if names(element) == ["p1"] else set()


def test_a_client_that_does_not_read_costs_the_broker_no_memory_and_is_told_of_the_gap(netconfd):
    commits = 20
    with netconfd.connect() as operator:
        ports = [interface(f"p{n}", f"<description>{'x' * 200}</description>") for n in range(500)]
        commit(operator, *ports)
        set_limits(operator, "<min-push-period>10</min-push-period>")
        subscribed(operator, EVERY_HOUR)
        before = private_octets(netconfd.broker_pid)
        asyncio.run(_not_reading(netconfd, operator, commits))
        assert private_octets(netconfd.broker_pid) < before + 8 * 2**20


def test_subscriptions_to_everything_hold_up_no_commit(netconfd):
    with netconfd.connect() as operator, netconfd.connect(username="observer") as observer:
        set_limits(operator, "<min-push-period>10</min-push-period>")
        with netconfd.connect(username="observer") as greedy:
            for _ in range(8):
                subscribed(greedy, SHORT, "", "operational")
                subscribed(greedy, ON_CHANGE, "")
            for number in range(10):
                update(greedy)
                commit(operator, interface("p1", _description(number)))
            assert observer.get_config("running").ok


def test_a_filter_that_computes_for_ever_ends_its_session(netconfd):
    with netconfd.connect() as operator:
        set_limits(operator, "<max-request-cpu>1</max-request-cpu>")
        greedy = netconfd.connect(username="observer")
        filter_ = f"<yp:datastore-xpath-filter>{ENDLESS_XPATH}</yp:datastore-xpath-filter>"
        with pytest.raises(TransportError):
            establish(greedy, EVERY_HOUR, filter_, "operational")
        assert wait_until(lambda: "more than 1 s of CPU for a request" in netconfd.log)
        assert wait_until(lambda: not greedy.connected)
        assert operator.get_config("running").ok
        assert wait_until(lambda: not state_of_subscriptions(operator))


async def _not_reading(netconfd, operator, commits):
    """Subscribe without reading, while others commit; then read what there is."""
    connection, reader, writer = await netconfd.connect_raw()
    try:
        writer.write(HELLO.rstrip() + END_OF_MESSAGE)
        for trigger in (SHORT, ON_CHANGE):
            writer.write(_raw_establish(trigger))
        await reader.readuntil(b"</id></rpc-reply>")
        reader.channel.pause_reading()
        for number in range(commits):
            await asyncio.to_thread(commit, operator, interface("p1", _description(number)))
        reader.channel.resume_reading()
        async with asyncio.timeout(WAIT_TIMEOUT_S):
            await _read_through(
                reader,
                b"subscription-suspended",
                b"subscription-resumed",
                _description(commits - 1).encode(),
            )
    finally:
        connection.abort()


async def _read_through(reader, *texts):
    """Read until these have come, one after the other."""
    octets = b""
    for text in texts:
        while text not in octets:
            more = await reader.read(65_536)
            assert more, "the session has ended"
            octets += more
        octets = octets.partition(text)[2]


def _description(number):
    return f"<description>{number}</description>"


def _raw_establish(trigger):
    return (
        f'<rpc xmlns="{BASE}" message-id="1"><establish-subscription xmlns="{SUBSCRIBED}" '
        f'xmlns:yp="{PUSH}" xmlns:ds="{PREFIXES["ds"]}" xmlns:if="{INTERFACES}">'
        f"<yp:datastore>ds:running</yp:datastore>{OF_INTERFACES}{trigger}"
        "</establish-subscription></rpc>"
    ).encode() + END_OF_MESSAGE
