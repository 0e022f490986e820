"""YANG push (RFC 8641) on a real sysrepo: what is sent, periodic and on change, and to whom."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.stack.netconf_client import INTERFACES, errors, texts
from tests.stack.yang_push_client import (
    EVERY_HOUR,
    EVERY_SECOND,
    HIDDEN_P1,
    NACM,
    NO_SUCH,
    ON_CHANGE,
    PUSH,
    SERVER_LIMITS,
    SUBSCRIBED,
    about,
    commit,
    edits,
    establish,
    hide,
    interface,
    names,
    notification,
    refusal,
    resync,
    set_configuration,
    state_change,
    state_of_subscriptions,
    subscribed,
    update,
)

WITHOUT_START = "<yp:on-change><yp:sync-on-start>false</yp:sync-on-start></yp:on-change>"


@pytest.fixture
def client(shared_netconfd):
    with shared_netconfd.connect() as client:
        yield client


@pytest.fixture
def operator(shared_netconfd):
    with shared_netconfd.connect() as client:
        yield client


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
    assert bool(texts(update(client), ".//*[local-name()='hello-timeout']")) == (
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
    mine = (
        "<yp:datastore-xpath-filter>/if:interfaces/if:interface[if:description='mine']"
        "</yp:datastore-xpath-filter>"
    )
    subscribed(client, WITHOUT_START, mine)
    commit(operator, interface("p1", "<description>other</description>"))
    commit(operator, interface("p2", "<description>mine</description>"))
    assert names(update(client, "push-change-update")) == ["p2"]
    commit(operator, interface("p2", "<description>other</description>"))
    assert edits(update(client, "push-change-update")) == [
        ("delete", "/ietf-interfaces:interfaces")
    ]


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
