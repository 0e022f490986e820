"""Each request that must be refused, and the exact error: RFC 6241 appendix A, RFC 7950 section 15.

A row is a request and what its error holds: type, tag, and where they belong the app-tag, the path
below the interface and what error-info names. The words are for people and not compared.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from dataclasses import dataclass, field

import pytest
import sysrepo
from sysrepo.session import SysrepoSession

from agent.netconfd.broker.access import AccessControl
from agent.netconfd.broker.datastore import Datastores
from agent.netconfd.errors import RpcErrors
from agent.netconfd.session.framing import Decoder, encode
from tests.stack.front_end import REPLY_TIMEOUT_S
from tests.stack.netconf_client import BASE, INTERFACES, PREFIXES, ask, errors
from tests.stack.netconfd_process import running_netconfd
from tests.stack.repository import Repository

SWP1 = "/ietf-interfaces:interfaces/ietf-interfaces:interface[ietf-interfaces:name='swp1']"


@dataclass(frozen=True)
class Error:
    """What an <rpc-error> says to a program."""

    layer: str
    tag: str
    info: dict[str, str] = field(default_factory=dict)
    path: str | None = None
    app_tag: str | None = None


def told(error):
    """The same of an error received."""
    info = error.find(f"{{{BASE}}}error-info")
    return Error(
        error.findtext(f"{{{BASE}}}error-type"),
        error.findtext(f"{{{BASE}}}error-tag"),
        {} if info is None else {each.tag.rpartition("}")[2]: each.text for each in info},
        error.findtext(f"{{{BASE}}}error-path"),
        error.findtext(f"{{{BASE}}}error-app-tag"),
    )


def protocol(tag, path=None, app_tag=None, **info):
    return Error("protocol", tag, _info(info), path, app_tag)


def rpc(path):
    """The error-path of an element of RFC 6241: its context is the request (section 4.3)."""
    return "".join(f"/ietf-netconf:{name}" for name in ("rpc", *path.split("/")))


def application(tag, path=None, app_tag=None, **info):
    return Error("application", tag, _info(info), path, app_tag)


def _info(info):
    return {name.replace("_", "-"): value for name, value in info.items()}


def edit(interfaces, options=""):
    return (
        f"<edit-config><target><candidate/></target>{options}"
        f'<config><interfaces xmlns="{INTERFACES}">{interfaces}</interfaces></config></edit-config>'
    )


def rules(content):
    return (
        "<edit-config><target><candidate/></target><config>"
        f'<nacm xmlns="{PREFIXES["nacm"]}">{content}</nacm></config></edit-config>'
    )


def after(key):
    return rules(f'<rule-list yang:insert="after" yang:key="{key}"><name>first</name></rule-list>')


def swp1(leaves="", attribute=""):
    return (
        f"<interface {attribute}><name>swp1</name><type>ianaift:ethernetCsmacd</type>{leaves}"
        "</interface>"
    )


def xpath(expression):
    return f'<get><filter type="xpath" select="{expression}"/></get>'


URL = "<url>file:///etc/passwd</url>"

REFUSED = {
    # The operation element and its parameters.
    "operation": ("<reboot/>", protocol("operation-not-supported", bad_element="reboot")),
    "parameter": (
        "<commit><faster/></commit>",
        protocol("unknown-element", rpc("commit"), bad_element="faster"),
    ),
    "parameter of another namespace": (
        "<commit><if:confirmed/></commit>",
        protocol("unknown-element", rpc("commit"), bad_element="confirmed"),
    ),
    "parameter without a namespace": (
        '<get><filter xmlns=""><interfaces/></filter></get>',
        protocol("unknown-namespace", rpc("get"), bad_element="filter", bad_namespace=None),
    ),
    "parameter of an unknown namespace": (
        '<get-config><source><running xmlns="urn:example:x"/></source></get-config>',
        protocol(
            "unknown-namespace",
            rpc("get-config/source"),
            bad_element="running",
            bad_namespace="urn:example:x",
        ),
    ),
    "operation without a namespace": (
        '<get xmlns=""/>',
        protocol("operation-not-supported", bad_element="get"),
    ),
    "empty leaf with a value": (
        "<commit><confirmed>yes</confirmed></commit>",
        protocol("invalid-value", rpc("commit/confirmed"), bad_element="confirmed"),
    ),
    "elements in a leaf": (
        "<commit><persist-id><ten/></persist-id></commit>",
        protocol("unknown-element", rpc("commit/persist-id"), bad_element="ten"),
    ),
    "elements in place of a number": (
        "<commit><confirmed/><confirm-timeout><ten/></confirm-timeout></commit>",
        protocol("invalid-value", rpc("commit/confirm-timeout"), bad_element="confirm-timeout"),
    ),
    "parameter of an operation that has none": (
        "<discard-changes><all/></discard-changes>",
        protocol("unknown-element", rpc("discard-changes"), bad_element="all"),
    ),
    "text beside parameters": (
        "<get-config>all<source><running/></source></get-config>",
        protocol("invalid-value", bad_element="get-config"),
    ),
    "attribute of an operation": (
        '<get depth="1"/>',
        protocol("unknown-attribute", bad_attribute="depth", bad_element="get"),
    ),
    "attribute of a parameter": (
        '<commit><confirmed yang:key="[[["/></commit>',
        protocol("unknown-attribute", bad_attribute="key", bad_element="confirmed"),
    ),
    "number too large": (
        "<commit><confirmed/><confirm-timeout>4294967296</confirm-timeout></commit>",
        protocol("invalid-value", rpc("commit/confirm-timeout"), bad_element="confirm-timeout"),
    ),
    "no source": (
        "<get-config/>",
        protocol("missing-element", rpc("get-config/source"), bad_element="source"),
    ),
    "no datastore": (
        "<get-config><source/></get-config>",
        protocol("missing-element", rpc("get-config/source"), bad_element="source"),
    ),
    "two datastores": (
        "<get-config><source><running/><startup/></source></get-config>",
        protocol("bad-element", bad_element="startup"),
    ),
    "parameter twice": (
        "<get-config><source><running/></source><source><startup/></source></get-config>",
        protocol("bad-element", rpc("get-config/source"), bad_element="source"),
    ),
    # :url is not announced, so the schema has no such element anywhere.
    "edit from a url": (
        f"<edit-config><target><candidate/></target>{URL}</edit-config>",
        protocol("unknown-element", rpc("edit-config"), bad_element="url"),
    ),
    "edit of nothing": (
        "<edit-config><target><candidate/></target></edit-config>",
        protocol("missing-element", rpc("edit-config"), bad_element="config"),
    ),
    # :writable-running is not announced, either.
    "edit of running": (
        "<edit-config><target><running/></target><config/></edit-config>",
        protocol("unknown-element", rpc("edit-config/target"), bad_element="running"),
    ),
    "copy from a url": (
        f"<copy-config><target><startup/></target><source>{URL}</source></copy-config>",
        protocol("unknown-element", rpc("copy-config/source"), bad_element="url"),
    ),
    "copy to a url": (
        f"<copy-config><target>{URL}</target><source><running/></source></copy-config>",
        protocol("unknown-element", rpc("copy-config/target"), bad_element="url"),
    ),
    "delete of a url": (
        f"<delete-config><target>{URL}</target></delete-config>",
        protocol("unknown-element", rpc("delete-config/target"), bad_element="url"),
    ),
    "validation of a url": (
        f"<validate><source>{URL}</source></validate>",
        protocol("unknown-element", rpc("validate/source"), bad_element="url"),
    ),
    # Options of an edit.
    "continue on error": (
        edit(swp1(), "<error-option>continue-on-error</error-option>"),
        protocol("operation-not-supported", bad_element="error-option"),
    ),
    "error option": (
        edit(swp1(), "<error-option>ignore</error-option>"),
        protocol("invalid-value", rpc("edit-config/error-option"), bad_element="error-option"),
    ),
    "test option": (
        edit(swp1(), "<test-option>maybe</test-option>"),
        protocol("invalid-value", rpc("edit-config/test-option"), bad_element="test-option"),
    ),
    # Filters.
    "xpath that is broken": (xpath("/if:interfaces["), application("invalid-value")),
    "xpath that is a number": (xpath("1 + 1"), application("invalid-value")),
    "xpath that counts": (xpath("count(/if:interfaces)"), application("invalid-value")),
    "xpath with a variable": (xpath("$x"), application("invalid-value")),
    "xpath with a function of nobody": (xpath("/if:interfaces[f()]"), application("invalid-value")),
    "xpath with an unknown prefix": (xpath("/nobody:interfaces"), application("invalid-value")),
    "filter type": (
        '<get><filter type="regex"/></get>',
        protocol("bad-attribute", bad_attribute="type", bad_element="filter"),
    ),
    # Edits that do not fit the schema.
    "element": (
        edit(swp1("<colour/>")),
        application("unknown-element", SWP1, bad_element="colour"),
    ),
    "element in a leaf": (
        edit(swp1("<description><b/></description>")),
        application("unknown-element", f"{SWP1}/ietf-interfaces:description", bad_element="b"),
    ),
    "namespace": (
        edit(swp1('<colour xmlns="urn:x"/>')),
        application("unknown-namespace", bad_element="colour", bad_namespace="urn:x"),
    ),
    "value": (
        edit(swp1("<enabled>maybe</enabled>")),
        application("invalid-value", f"{SWP1}/ietf-interfaces:enabled"),
    ),
    "state": (
        edit(swp1("<oper-status>up</oper-status>")),
        application(
            "unknown-element", f"{SWP1}/ietf-interfaces:oper-status", bad_element="oper-status"
        ),
    ),
    "no key": (
        edit("<interface><type>ianaift:ethernetCsmacd</type></interface>"),
        application(
            "missing-element",
            "/ietf-interfaces:interfaces/ietf-interfaces:interface",
            bad_element="name",
        ),
    ),
    "no mandatory leaf": (
        edit("<interface><name>swp1</name></interface>"),
        application("missing-element", SWP1, bad_element="type"),
    ),
    "operation attribute": (
        edit(swp1(attribute='nc:operation="destroy"')),
        application(
            "bad-attribute",
            "/ietf-interfaces:interfaces/ietf-interfaces:interface",
            bad_attribute="operation",
            bad_element="interface",
        ),
    ),
    "attribute of another namespace": (
        edit(swp1(attribute='if:operation="delete"')),
        application("unknown-attribute", bad_attribute="operation", bad_element="interface"),
    ),
    "annotation of the datastore's own": (
        edit(swp1(attribute='s:operation="purge" xmlns:s="http://www.sysrepo.org/yang/sysrepo"')),
        application("unknown-attribute", bad_attribute="operation", bad_element="interface"),
    ),
    # Edits that do not fit the data.
    "create what exists": (
        edit(swp1(attribute='nc:operation="create"').replace("swp1", "there")),
        application("data-exists"),
    ),
    "delete what does not": (
        edit(swp1(attribute='nc:operation="delete"')),
        application("data-missing"),
    ),
    "delete a leaf that is not set": (
        edit(swp1('<description nc:operation="delete"/>').replace("swp1", "there")),
        application("data-missing"),
    ),
    # Places in lists that a user orders (RFC 7950 section 7.8.6).
    "after nothing": (
        rules('<rule-list yang:insert="after"><name>first</name></rule-list>'),
        application("missing-attribute", bad_attribute="key", bad_element="rule-list"),
    ),
    "after what is not there": (
        after("[nacm:name='nobody']"),
        application("bad-attribute", app_tag="missing-instance"),
    ),
    "sideways": (
        rules('<rule-list yang:insert="sideways"><name>first</name></rule-list>'),
        application(
            "bad-attribute",
            "/ietf-netconf-acm:nacm/ietf-netconf-acm:rule-list",
            bad_attribute="insert",
            bad_element="rule-list",
        ),
    ),
    **{
        f"key {key}": (
            after(key),
            application("bad-attribute", bad_attribute="key", bad_element="rule-list"),
        )
        # libyang 3 crashes on most of these.
        for key in ("[[[", "[.='a']", "[1]", "[nacm:name='a", "[if:name='a']", "", "a", "[")
    },
    "key twice": (
        after("[nacm:name='a'][nacm:name='b']"),
        application("bad-attribute", bad_attribute="key", bad_element="rule-list"),
    ),
    # Sessions, locks and commits.
    "unlock of nothing": (
        "<unlock><target><running/></target></unlock>",
        protocol("operation-failed"),
    ),
    "persist-id of nothing": (
        "<commit><persist-id>a</persist-id></commit>",
        protocol("invalid-value", bad_element="persist-id"),
    ),
    "persist-id that is too long": (
        f"<commit><persist-id>{'a' * 300_000}</persist-id></commit>",
        application("too-big"),
    ),
    "cancel of nothing": ("<cancel-commit/>", protocol("operation-failed")),
    "no session": (
        "<kill-session/>",
        protocol("missing-element", rpc("kill-session"), bad_element="session-id"),
    ),
}


@pytest.fixture(scope="module")
def server(sysrepo_template, tmp_path_factory):
    """One server for the whole table: whatever is refused leaves nothing behind."""
    directory = tmp_path_factory.mktemp("netconfd")
    repository = Repository(directory / "sysrepo", f"tsnerrors{os.getpid()}x")
    shutil.copytree(sysrepo_template, repository.path)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in repository.environment.items():
            patch.setenv(name, value)
        with running_netconfd(directory / "netconfd") as server:
            yield server
    repository.forget_shared_memory()


@pytest.fixture(scope="module")
def client(server):
    with server.connect() as client:
        assert not errors(ask(client, edit(swp1().replace("swp1", "there"))))
        first_and_second = "<rule-list><name>first</name></rule-list><rule-list><name>second</name>"
        assert not errors(ask(client, rules(f"{first_and_second}</rule-list>")))
        client.commit()
        yield client


@pytest.mark.parametrize(("request_", "expected"), REFUSED.values(), ids=REFUSED)
def test_a_refusal_says_exactly_what_is_wrong(client, request_, expected):
    assert [told(error) for error in errors(ask(client, request_))] == [expected]
    assert not errors(ask(client, "<discard-changes/>"))


def of_config(content):
    return f"<edit-config><target><candidate/></target><config>{content}</config></edit-config>"


def copied(content):
    return (
        "<copy-config><target><candidate/></target>"
        f"<source><config>{content}</config></source></copy-config>"
    )


def edited_data(content):
    return (
        "<ncds:edit-data><ncds:datastore>ds:candidate</ncds:datastore>"
        f"<ncds:config>{content}</ncds:config></ncds:edit-data>"
    )


def of_interface(content):
    return of_config(
        f'<interfaces xmlns="{INTERFACES}"><interface><name>there</name>{content}</interface>'
        "</interfaces>"
    )


# An element, and the namespace that it lacks.
WITHOUT_NAMESPACE = {
    "operation": ('<get xmlns=""/>', "get", "nc"),
    "filter": ('<get><filter xmlns=""><interfaces/></filter></get>', "filter", "nc"),
    "filter of another namespace": ('<get><filter xmlns="urn:example:x"/></get>', "filter", "nc"),
    "child of a parameter": (
        '<get-config><source><running xmlns=""/></source></get-config>',
        "running",
        "nc",
    ),
    "parameter that another module adds": (
        "<get><with-defaults>trim</with-defaults></get>",
        "with-defaults",
        "ncwd",
    ),
    "filter of get-data": (
        '<ncds:get-data xmlns=""><subtree-filter><x/></subtree-filter></ncds:get-data>',
        "subtree-filter",
        "ncds",
    ),
    "filter of a subscription": (
        '<sn:establish-subscription xmlns=""><stream-subtree-filter/></sn:establish-subscription>',
        "stream-subtree-filter",
        "sn",
    ),
    "parameter that another module adds to a subscription": (
        f'<establish-subscription xmlns="{PREFIXES["sn"]}"><datastore/></establish-subscription>',
        "datastore",
        "yp",
    ),
    "config": (of_config("").replace("<config>", '<config xmlns="">'), "config", "nc"),
    "child of config": (of_config('<interfaces xmlns=""/>'), "interfaces", "if"),
    "child of config, in the message's namespace": (
        of_config("<interfaces/>"),
        "interfaces",
        "if",
    ),
    "config to copy": (
        copied('<interfaces xmlns=""/>'),
        "interfaces",
        "if",
    ),
    "config of edit-data": (
        edited_data('<interfaces xmlns=""/>'),
        "interfaces",
        "if",
    ),
    "node in an interface": (of_interface('<description xmlns=""/>'), "description", "if"),
    "node that another module adds": (of_interface("<bridge-port/>"), "bridge-port", "bridge"),
}


@pytest.mark.parametrize(
    ("request_", "element", "prefix"), WITHOUT_NAMESPACE.values(), ids=WITHOUT_NAMESPACE
)
def test_a_refusal_names_the_element_without_a_namespace_and_says_which_is_expected(
    client, request_, element, prefix
):
    (error,) = errors(ask(client, request_))

    assert told(error).info["bad-element"] == element
    message = error.findtext(f"{{{BASE}}}error-message")
    assert re.search(rf'[<"]{element}[>"]', message)
    assert f'expected xmlns="{PREFIXES[prefix]}"' in message


def test_an_entry_goes_where_its_key_says(client):
    assert not errors(ask(client, after("[nacm:name='second']")))
    reply = ask(client, "<get-config><source><candidate/></source></get-config>")
    names = [each.text for each in reply.iterfind(".//{*}nacm/{*}rule-list/{*}name")]
    assert [name for name in names if name in {"first", "second"}] == ["second", "first"]
    ask(client, "<discard-changes/>")


def test_a_path_s_prefixes_are_declared_where_it_stands(client):
    (error,) = errors(ask(client, edit(swp1("<enabled>maybe</enabled>"))))
    path = error.find(f"{{{BASE}}}error-path")
    assert path.nsmap["ietf-interfaces"] == INTERFACES


def test_a_prefix_declared_above_the_configuration_still_counts_beside_a_leaf_to_delete(client):
    there = swp1("<description>x</description>").replace("swp1", "there")
    assert not errors(ask(client, edit(there)))
    gone = swp1('<description nc:operation="delete"/>').replace("swp1", "there")
    assert not errors(ask(client, edit(gone)))
    ask(client, "<discard-changes/>")


@pytest.mark.parametrize(
    ("base", "tag"), [("1.0", b"operation-failed"), ("1.1", b"malformed-message")]
)
def test_only_a_client_of_base_1_1_hears_of_malformed_messages(server, base, tag):
    """RFC 6241 appendix A: the tag must not be sent to a client of base:1.0."""
    chunked = base == "1.1"

    async def ask_garbage():
        connection, reader, writer = await server.connect_raw()
        decoder = Decoder(1_000_000)

        async def receive():
            while (message := decoder.next_message()) is None:
                decoder.feed(await reader.read(65536))
            return message

        async with asyncio.timeout(REPLY_TIMEOUT_S), connection:
            await receive()
            capability = f"<capability>urn:ietf:params:netconf:base:{base}</capability>"
            hello = f'<hello xmlns="{BASE}"><capabilities>{capability}</capabilities></hello>'
            writer.write(encode(hello.encode(), chunked=False))
            if chunked:
                decoder.use_chunks()
            writer.write(encode(b"<rpc", chunked=chunked))
            return await receive()

    assert tag in asyncio.run(ask_garbage())


def test_an_internal_error_does_not_name_directories_of_the_machine_that_built_sysrepo(
    sysrepo_repository, monkeypatch
):
    def give_up(_session):
        raise sysrepo.SysrepoInternalError("Internal error (/home/me/sysrepo/src/common.c:12).")

    monkeypatch.setattr(SysrepoSession, "validate", give_up)
    with sysrepo.SysrepoConnection() as connection:
        access = AccessControl(connection)
        datastores = Datastores(connection)
        with pytest.raises(RpcErrors) as caught:
            datastores.validate("running")
        datastores.close()
        access.close()
    assert "Internal error (common.c:12)." in caught.value.errors[0].message
    assert "/home" not in caught.value.errors[0].message
