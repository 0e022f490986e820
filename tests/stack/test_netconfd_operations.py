"""RPCs and actions of modules that the server does not know: who has subscribed performs them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import sysrepo

from tests.stack.netconf_client import BASE, ask, errors, texts

LIFT = Path(__file__).parent / "data" / "yang-operations" / "lift.yang"
NAMESPACE = "urn:example:lift"
YANG = "urn:ietf:params:xml:ns:yang:1"
NACM = "urn:ietf:params:xml:ns:yang:ietf-netconf-acm"


@pytest.fixture(scope="module")
def sysrepo_template(sysrepo_template, sysrepo_place):
    """With a module that has RPCs and an action."""
    with sysrepo_place.fresh(sysrepo_template) as repository:
        subprocess.run(["sysrepoctl", "--install", LIFT], check=True, capture_output=True)
        path = sysrepo_template.with_name("template-with-lift")
        shutil.copytree(repository.path, path)
    return path


@pytest.fixture
def netconf(shared_netconfd):
    with shared_netconfd.connect() as client:
        yield client


@pytest.fixture
def lift(shared_netconfd):
    """The program that performs `call` and `open`, and what it was asked for."""
    asked = []

    def accept(_event, _request, _changes, _private):
        pass

    def call(_path, given, event, _private):
        asked.append((event, given))
        return {"wait": 7, "stop": [1, 2]}

    def open_(path, given, _event, _private):
        asked.append((path, given))
        return {"door": "open"}

    with sysrepo.SysrepoConnection() as connection, connection.start_session() as session:
        # sysrepo shows what is configured as in operation where somebody has subscribed to it.
        session.subscribe_module_change("lift", None, accept)
        session.subscribe_rpc_call("/lift:call", call)
        session.subscribe_rpc_call("/lift:cabins/cabin/open", open_)
        yield asked


@pytest.fixture
def cabin(netconf, lift):
    """The cabin `north` in running."""
    edit(netconf, f'<cabins xmlns="{NAMESPACE}"><cabin><name>north</name></cabin></cabins>')


def nothing(_path, _given, _event, _private):
    """Performs what has no output."""


def edit(netconf, config):
    netconf.edit_config(target="candidate", config=f'<config xmlns="{BASE}">{config}</config>')
    netconf.commit()


def rpc(name, content=""):
    return f'<{name} xmlns="{NAMESPACE}">{content}</{name}>'


def action(content="<open/>", name="north"):
    return (
        f'<action xmlns="{YANG}"><cabins xmlns="{NAMESPACE}"><cabin><name>{name}</name>'
        f"{content}</cabin></cabins></action>"
    )


def refusal(netconf, operation):
    """Tag, message and path of the one error that answers an operation."""
    (error,) = errors(ask(netconf, operation))
    return [error.findtext(f"{{{BASE}}}error-{name}") for name in ("tag", "message", "path")]


def test_an_rpc_is_performed_by_its_subscriber_and_its_output_is_the_reply(netconf, lift):
    reply = ask(netconf, rpc("call", "<floor>3</floor>"))
    assert [(each.tag.rpartition("}")[2], each.text) for each in reply] == [
        ("wait", "7"),
        ("stop", "1"),
        ("stop", "2"),
    ]
    assert {each.tag.partition("}")[0] for each in reply} == {f"{{{NAMESPACE}"}
    assert lift == [("rpc", {"floor": 3})]


def test_an_action_is_performed_at_its_entry_and_its_output_is_the_reply(netconf, cabin, lift):
    reply = ask(netconf, action("<open><for>9</for></open>"))
    assert [each.text for each in reply] == ["open"]
    assert reply[0].tag == f"{{{NAMESPACE}}}door"
    assert lift == [("/lift:cabins/cabin[name='north']/open", {"for": 9})]


def test_an_rpc_without_output_is_answered_by_ok(netconf):
    with sysrepo.SysrepoConnection() as connection, connection.start_session() as session:
        session.subscribe_rpc_call("/lift:stop", nothing)
        assert [each.tag for each in ask(netconf, rpc("stop"))] == [f"{{{BASE}}}ok"]


def test_what_nobody_performs_is_not_supported(netconf, lift):
    tag, message, _ = refusal(netconf, rpc("stop"))
    assert tag == "operation-not-supported"
    assert "no matching subscribers" in message
    assert "/lift:stop" in message


def test_an_action_of_an_entry_that_is_not_there_is_refused(netconf, cabin, lift):
    tag, message, _ = refusal(netconf, action(name="south"))
    assert tag == "data-missing"
    assert '"open" data parent does not exist' in message
    assert lift == []


@pytest.mark.parametrize(
    ("content", "tag", "path"),
    [
        ("<floor>300</floor>", "invalid-value", "/lift:call/lift:floor"),
        ("<floor>3</floor><speed>1</speed>", "unknown-element", "/lift:call"),
        ("<floor>3</floor><reason>rain</reason>", "invalid-value", "/lift:call/lift:reason"),
        ('<floor x="1">3</floor>', "unknown-attribute", None),
        ('<floor xmlns="urn:nowhere">3</floor>', "unknown-namespace", "/lift:call"),
    ],
)
def test_input_that_its_module_does_not_allow_reaches_nobody(netconf, lift, content, tag, path):
    found, _, where = refusal(netconf, rpc("call", content))
    assert (found, where) == (tag, path and f"/ietf-netconf:rpc{path}")
    assert lift == []


def test_input_that_lacks_a_mandatory_leaf_reaches_nobody(netconf, lift):
    tag, message, _ = refusal(netconf, rpc("call"))
    assert tag == "missing-element"
    assert "floor" in message
    assert lift == []


@pytest.mark.parametrize(
    ("operation", "tag", "path"),
    [
        (action("<open><for>x</for></open>"), "invalid-value", "/lift:open/lift:for"),
        (f'<action xmlns="{YANG}"/>', "bad-element", None),
        (f'<action xmlns="{YANG}">{rpc("stop")}</action>', "bad-element", None),
        (action(""), "bad-element", None),
    ],
)
def test_an_action_element_that_holds_no_action_reaches_nobody(netconf, lift, operation, tag, path):
    found, _, where = refusal(netconf, operation)
    assert found == tag
    assert (where or "").startswith("/ietf-netconf:rpc/yang:action/lift:cabins") == bool(path)
    assert (where or "").endswith(path or "")
    assert lift == []


def test_what_its_subscriber_refuses_is_told_in_its_words(netconf):
    def fail(_path, _given, _event, _private):
        raise sysrepo.SysrepoCallbackFailedError("the cable is worn")

    with sysrepo.SysrepoConnection() as connection, connection.start_session() as session:
        session.subscribe_rpc_call("/lift:stop", fail)
        tag, message, _ = refusal(netconf, rpc("stop"))
    assert tag == "operation-failed"
    assert message == "the cable is worn"


def test_access_control_decides_who_may_execute(shared_netconfd, netconf, cabin, lift):
    with shared_netconfd.connect(username="observer") as observer:
        denied = texts(observer.get().data_ele, "//nacm:denied-operations")
        for operation, name in ((rpc("call", "<floor>3</floor>"), "lift:call"), (action(), "open")):
            tag, message, _ = refusal(observer, operation)
            assert tag == "access-denied"
            assert f"does not let observer execute lift:{name.removeprefix('lift:')}" in message
        assert lift == []
        counted = texts(observer.get().data_ele, "//nacm:denied-operations")
        assert int(counted[0]) == int(denied[0]) + 2
        edit(
            netconf,
            f'<nacm xmlns="{NACM}"><rule-list><name>tsn-observer</name><rule>'
            "<name>call</name><module-name>lift</module-name><rpc-name>call</rpc-name>"
            "<access-operations>exec</access-operations><action>permit</action></rule>"
            "</rule-list></nacm>",
        )
        assert not errors(ask(observer, rpc("call", "<floor>3</floor>")))
        assert refusal(observer, action())[0] == "access-denied"


def test_what_would_write_startup_behind_the_server_is_not_passed_on(netconf):
    reset = '<factory-reset xmlns="urn:ietf:params:xml:ns:yang:ietf-factory-default"/>'
    tag, message, _ = refusal(netconf, reset)
    assert tag == "operation-not-supported"
    assert "startup" in message
