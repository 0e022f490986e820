"""RFC 8526: any datastore is read and edited by its identity."""

from __future__ import annotations

from contextlib import contextmanager

import pytest
import sysrepo

from agent.netconfd.session.framing import encode
from tests.stack.netconf_client import BASE, INTERFACES, NMDA, PREFIXES, ask, errors, texts
from tests.stack.test_netconfd_access import HELLO_1_1, said_until_the_end

ORIGIN = "{urn:ietf:params:xml:ns:yang:ietf-origin}origin"
INTERFACE = "/if:interfaces/if:interface"


@pytest.fixture
def client(shared_netconfd):
    with shared_netconfd.connect() as client:
        yield client


def get_data(client, datastore, parameters=""):
    return ask(
        client,
        f'<get-data xmlns="{NMDA}"><datastore>{datastore}</datastore>{parameters}</get-data>',
    )


def edit_data(client, interfaces, parameters="", datastore="ds:candidate"):
    return ask(
        client,
        f'<edit-data xmlns="{NMDA}"><datastore>{datastore}</datastore>{parameters}'
        f'<config><interfaces xmlns="{INTERFACES}">{interfaces}</interfaces></config></edit-data>',
    )


def interface(name, leaves="", attribute=""):
    return (
        f"<interface {attribute}><name>{name}</name>"
        f"<type>ianaift:ethernetCsmacd</type>{leaves}</interface>"
    )


def commit(client, interfaces):
    assert not errors(edit_data(client, interfaces))
    client.commit()


def names(reply):
    return texts(reply, f"/{INTERFACE}/if:name")


def leaves_of(reply):
    """Local names of what is below the interfaces, at any depth."""
    return [each.xpath("local-name()") for each in reply.xpath("//*[local-name()='interface']//*")]


def tag(reply):
    (error,) = errors(reply)
    return error.findtext(f"{{{BASE}}}error-tag")


@contextmanager
def agent_with_state():
    """Somebody who owns the interfaces: what is configured is in use, and there is some state."""

    def watch(_event, _request, _changes, _data):
        """Whoever subscribes to configuration shows it in operational."""

    def state(_xpath, _data):
        return {"interfaces": {"interface": [{"name": "swp1", "oper-status": "up"}]}}

    with sysrepo.SysrepoConnection() as connection, connection.start_session() as session:
        session.subscribe_module_change("ietf-interfaces", "/ietf-interfaces:interfaces", watch)
        session.subscribe_oper_data_request(
            "ietf-interfaces", "/ietf-interfaces:interfaces/interface", state, oper_merge=True
        )
        yield


@pytest.fixture
def in_use(client):
    """One interface, configured and alive."""
    commit(client, interface("swp1", "<description>uplink</description>"))
    with agent_with_state():
        yield


def test_each_configuration_datastore_is_read_by_its_identity(client):
    commit(client, interface("swp1"))
    client.copy_config(source="running", target="startup")
    edit_data(client, interface("swp2"))
    assert names(get_data(client, "ds:running")) == ["swp1"]
    assert names(get_data(client, "ds:startup")) == ["swp1"]
    assert names(get_data(client, "ds:candidate")) == ["swp1", "swp2"]


def test_the_reply_is_data_of_the_operation_s_own_namespace(client):
    (data,) = get_data(client, "ds:running")
    assert data.tag == f"{{{NMDA}}}data"


@pytest.mark.parametrize("prefix", ["ds", "own"])
def test_the_prefix_of_a_datastore_may_be_declared_anywhere_around_it(shared_netconfd, prefix):
    # ncclient would leave the second declaration out.
    datastores = PREFIXES["ds"]
    read = (
        f'<rpc xmlns="{BASE}" xmlns:ds="{datastores}" message-id="1"><get-data xmlns="{NMDA}">'
        f'<datastore xmlns:own="{datastores}">{prefix}:running</datastore></get-data></rpc>'
    )
    close = f'<rpc xmlns="{BASE}" message-id="2"><close-session/></rpc>'
    said = said_until_the_end(
        shared_netconfd, HELLO_1_1, *(encode(each.encode(), chunked=True) for each in (read, close))
    )
    assert b"<data" in said
    assert b"rpc-error" not in said


@pytest.mark.parametrize(
    "datastore", ["ds:intended", "running", "if:running", "ds:", "", "ds:conventional"]
)
def test_a_datastore_the_server_does_not_have_is_refused(client, datastore):
    assert tag(get_data(client, datastore)) == "invalid-value"


def test_operational_is_configuration_in_use_and_state(client, in_use):
    reply = get_data(client, "ds:operational")
    assert texts(reply, f"/{INTERFACE}/if:description") == ["uplink"]
    assert texts(reply, f"/{INTERFACE}/if:oper-status") == ["up"]


@pytest.mark.parametrize(
    ("parameter", "found", "missing"),
    [("true", "description", "oper-status"), ("false", "oper-status", "description")],
)
def test_config_filter_keeps_configuration_or_state(client, in_use, parameter, found, missing):
    filter_ = f"<config-filter>{parameter}</config-filter>"
    leaves = leaves_of(get_data(client, "ds:operational", filter_))
    assert found in leaves
    assert missing not in leaves


def test_a_configuration_datastore_has_no_state(client):
    commit(client, interface("swp1"))
    assert names(get_data(client, "ds:running", "<config-filter>true</config-filter>")) == ["swp1"]
    (data,) = get_data(client, "ds:running", "<config-filter>false</config-filter>")
    assert len(data) == 0


def test_subtree_and_xpath_filters_select(client):
    commit(client, interface("swp1") + interface("swp2"))
    subtree = (
        f'<subtree-filter><interfaces xmlns="{INTERFACES}"><interface><name>swp2</name>'
        "</interface></interfaces></subtree-filter>"
    )
    assert names(get_data(client, "ds:running", subtree)) == ["swp2"]
    xpath = f"<xpath-filter>{INTERFACE}[if:name='swp1']</xpath-filter>"
    assert names(get_data(client, "ds:running", xpath)) == ["swp1"]
    assert tag(get_data(client, "ds:running", subtree + xpath)) == "bad-element"


@pytest.mark.parametrize(
    ("depth", "leaves"),
    [
        ("1", ["interface"]),
        ("2", ["interface", "name", "type", "statistics"]),
        ("unbounded", ["interface", "name", "type", "statistics", "in-octets"]),
    ],
)
def test_max_depth_counts_levels_from_what_was_selected(client, depth, leaves):
    def state(_xpath, _data):
        statistics = {"in-octets": 1}
        return {"interfaces": {"interface": [{"name": "swp1", "statistics": statistics}]}}

    commit(client, interface("swp1"))
    with sysrepo.SysrepoConnection() as connection, connection.start_session() as session:
        session.subscribe_oper_data_request(
            "ietf-interfaces", "/ietf-interfaces:interfaces/interface", state
        )
        reply = get_data(
            client,
            "ds:operational",
            f"<xpath-filter>{INTERFACE}</xpath-filter><max-depth>{depth}</max-depth>",
        )
    found = {each.xpath("local-name()") for each in reply.xpath("//if:*", namespaces=PREFIXES)}
    assert found - {"interfaces"} == {"interface", "name"} | (set(leaves) - {"type"})


@pytest.mark.parametrize("depth", ["0", "65536", "-1", "all", "1.5"])
def test_a_depth_that_is_none_is_refused(client, depth):
    reply = get_data(client, "ds:running", f"<max-depth>{depth}</max-depth>")
    assert tag(reply) == "invalid-value"


def origins(reply):
    return {
        each.xpath("local-name()"): each.get(ORIGIN).rpartition(":")[2]
        for each in reply.xpath("//*[@or:origin]", namespaces=PREFIXES)
    }


def test_with_origin_says_where_values_come_from(client, in_use):
    shown = origins(get_data(client, "ds:operational", "<with-origin/>"))
    assert (shown["interfaces"], shown["enabled"]) == ("intended", "default")
    assert not origins(get_data(client, "ds:operational"))


@pytest.mark.parametrize(
    ("filter_", "found", "missing"),
    [
        ("<origin-filter>or:intended</origin-filter>", "description", "enabled"),
        ("<origin-filter>or:default</origin-filter>", "enabled", "description"),
        ("<negated-origin-filter>or:default</negated-origin-filter>", "description", "enabled"),
        ("<negated-origin-filter>or:intended</negated-origin-filter>", "enabled", "description"),
        (
            "<origin-filter>or:intended</origin-filter><origin-filter>or:default</origin-filter>",
            "enabled",
            "colour",
        ),
    ],
)
def test_an_origin_filter_keeps_what_matches_its_keys_and_all_state(
    client, in_use, filter_, found, missing
):
    reply = get_data(client, "ds:operational", filter_)
    leaves = leaves_of(reply)
    assert found in leaves
    assert missing not in leaves
    assert {"name", "oper-status"} <= set(leaves)
    assert not origins(reply)


@pytest.mark.parametrize(
    ("datastore", "parameter", "expected"),
    [
        ("ds:running", "<with-origin/>", "unknown-element"),
        ("ds:running", "<origin-filter>or:intended</origin-filter>", "unknown-element"),
        ("ds:operational", "<origin-filter>or:heaven</origin-filter>", "invalid-value"),
        ("ds:operational", "<origin-filter>intended</origin-filter>", "invalid-value"),
        (
            "ds:operational",
            (
                "<origin-filter>or:system</origin-filter>"
                "<negated-origin-filter>or:system</negated-origin-filter>"
            ),
            "bad-element",
        ),
        ("ds:operational", "<config-filter>maybe</config-filter>", "invalid-value"),
        ("ds:operational", "<with-defaults>some</with-defaults>", "invalid-value"),
        ("ds:operational", "<xpath-filter>1 + 1</xpath-filter>", "invalid-value"),
        ("ds:operational", "<colour/>", "unknown-element"),
    ],
)
def test_a_parameter_that_means_nothing_there_is_refused(client, datastore, parameter, expected):
    assert tag(get_data(client, datastore, parameter)) == expected


def test_operational_shows_defaults_in_use_unless_told_otherwise(client, in_use):
    def shows_enabled(parameter=""):
        return "enabled" in leaves_of(get_data(client, "ds:operational", parameter))

    assert shows_enabled()
    assert shows_enabled("<with-defaults>report-all</with-defaults>")
    assert not shows_enabled("<with-defaults>trim</with-defaults>")
    assert not shows_enabled("<with-defaults>explicit</with-defaults>")


def test_an_edit_changes_candidate_as_its_operations_say(client):
    commit(client, interface("swp1") + interface("swp2"))
    edit_data(client, interface("swp1", attribute='nc:operation="delete"') + interface("swp3"))
    assert names(get_data(client, "ds:candidate")) == ["swp2", "swp3"]
    edit_data(client, interface("swp4"), "<default-operation>replace</default-operation>")
    assert names(get_data(client, "ds:candidate")) == ["swp4"]


def test_a_failed_edit_changes_nothing(client):
    reply = edit_data(
        client, interface("swp1") + interface("swp9", attribute='nc:operation="delete"')
    )
    assert tag(reply) == "data-missing"
    assert names(get_data(client, "ds:candidate")) == []


@pytest.mark.parametrize("datastore", ["ds:running", "ds:operational", "ds:intended", "ds:startup"])
def test_what_cannot_be_written_is_refused(client, datastore):
    assert tag(edit_data(client, interface("swp1"), datastore=datastore)) == "invalid-value"


def test_an_edit_from_a_url_is_refused(client):
    reply = ask(
        client,
        f'<edit-data xmlns="{NMDA}"><datastore>ds:candidate</datastore>'
        "<url>file:///etc/passwd</url></edit-data>",
    )
    assert tag(reply) == "unknown-element"


def test_locks_and_validation_take_the_identity_too(shared_netconfd, client):
    target = f'<target><datastore xmlns="{NMDA}">ds:candidate</datastore></target>'
    assert not errors(ask(client, f"<lock>{target}</lock>"))
    with shared_netconfd.connect() as other:
        assert tag(ask(other, f"<lock>{target}</lock>")) == "lock-denied"
    assert not errors(ask(client, f"<unlock>{target}</unlock>"))
    source = target.replace("target", "source")
    assert not errors(ask(client, f"<validate>{source}</validate>"))
    operational = target.replace("candidate", "operational")
    assert tag(ask(client, f"<lock>{operational}</lock>")) == "invalid-value"
