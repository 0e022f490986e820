"""What the server tells of itself: RFC 6022's state and schemas, and the YANG library."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import libyang
import pytest
import sysrepo
from lxml import etree

from tests.stack.netconf_client import MONITORING, PREFIXES, ask, errors, texts
from tests.stack.netconfd_process import wait_until

STATE = f'<netconf-state xmlns="{MONITORING}"/>'


@pytest.fixture
def client(shared_netconfd):
    with shared_netconfd.connect() as client:
        yield client


def state(client, what):
    """What an XPath below /netconf-state finds."""
    reply = ask(client, f'<get><filter type="subtree">{STATE}</filter></get>')
    return reply.xpath(f"//ncm:netconf-state/{what}", namespaces={"ncm": MONITORING})


def numbers(client, what):
    return [int(each.text) for each in state(client, what)]


def session_of(client, leaf):
    (found,) = state(client, f"ncm:sessions/ncm:session[ncm:session-id={client.session_id}]/{leaf}")
    return found.text


def statistic(client, name):
    return numbers(client, f"ncm:statistics/ncm:{name}")[0]


def schema(client, name, rest=""):
    """The reply to <get-schema>."""
    return ask(
        client,
        f'<get-schema xmlns="{MONITORING}"><identifier>{name}</identifier>{rest}</get-schema>',
    )


def test_the_state_lists_the_capabilities_of_the_hello(client):
    listed = {each.text for each in state(client, "ncm:capabilities/ncm:capability")}
    assert listed == set(client.server_capabilities)


def test_a_session_shows_who_is_there_and_since_when(client):
    assert session_of(client, "ncm:transport") == "netconf-ssh"
    assert session_of(client, "ncm:username") == "operator"
    assert session_of(client, "ncm:source-host") == "127.0.0.1"
    login = datetime.fromisoformat(session_of(client, "ncm:login-time"))
    assert abs(datetime.now(UTC) - login) < timedelta(minutes=1)


def test_a_session_counts_its_requests_and_the_errors_it_was_told(client):
    before = int(session_of(client, "ncm:in-rpcs"))
    ask(client, "<discard-changes/>")
    ask(client, "<reboot/>")
    assert int(session_of(client, "ncm:in-rpcs")) == before + 3
    assert session_of(client, "ncm:out-rpc-errors") == "1"
    assert session_of(client, "ncm:in-bad-rpcs") == "0"


def test_what_ended_sessions_counted_stays_in_the_total(shared_netconfd, client):
    errors_before = statistic(client, "out-rpc-errors")
    sessions_before = statistic(client, "in-sessions")
    with shared_netconfd.connect() as other:
        ask(other, "<reboot/>")
    assert wait_until(lambda: len(state(client, "ncm:sessions/ncm:session")) == 1)
    assert statistic(client, "out-rpc-errors") == errors_before + 1
    assert statistic(client, "in-sessions") == sessions_before + 1


def test_only_sessions_that_nobody_ended_count_as_dropped(shared_netconfd, client):
    before = statistic(client, "dropped-sessions")
    victim = shared_netconfd.connect()
    client.kill_session(victim.session_id)
    shared_netconfd.connect().close_session()

    async def leave():
        connection, reader, _ = await shared_netconfd.connect_raw()
        await reader.readuntil(b"]]>]]>")
        connection.abort()

    asyncio.run(leave())
    assert wait_until(lambda: statistic(client, "dropped-sessions") == before + 1)
    assert wait_until(lambda: len(state(client, "ncm:sessions/ncm:session")) == 1)
    assert statistic(client, "dropped-sessions") == before + 1


def test_a_bad_hello_is_counted(shared_netconfd, client):
    hellos_before = statistic(client, "in-bad-hellos")
    dropped_before = statistic(client, "dropped-sessions")

    async def greet_badly():
        connection, reader, writer = await shared_netconfd.connect_raw()
        writer.write(b"<goodbye/>]]>]]>")
        while await reader.read(65536):
            pass
        connection.close()

    asyncio.run(greet_badly())
    assert wait_until(lambda: statistic(client, "in-bad-hellos") == hellos_before + 1)
    assert statistic(client, "dropped-sessions") == dropped_before


def test_a_lock_shows_its_holder_as_long_as_it_is_held(client):
    lock = "ncm:datastores/ncm:datastore[ncm:name='candidate']/ncm:locks/ncm:global-lock"
    client.lock("candidate")
    assert numbers(client, f"{lock}/ncm:locked-by-session") == [int(client.session_id)]
    assert len(state(client, f"{lock}/ncm:locked-time")) == 1
    client.unlock("candidate")
    assert not state(client, "ncm:datastores/ncm:datastore/ncm:locks")
    assert len(state(client, "ncm:datastores/ncm:datastore")) == 3


def test_everybody_on_sysrepo_sees_the_state(client):
    path = "/ietf-netconf-monitoring:netconf-state/sessions/session/session-id"
    with sysrepo.SysrepoConnection() as connection, connection.start_session("operational") as own:
        numbers = [item.value for item in own.get_items(path)]
    assert numbers == [int(client.session_id)]


def test_the_state_of_a_server_that_has_ended_is_gone(netconfd):
    path = "/ietf-netconf-monitoring:netconf-state/statistics/netconf-start-time"
    assert netconfd.stop() == 0
    with sysrepo.SysrepoConnection() as connection, connection.start_session("operational") as own:
        assert not list(own.get_items(path))
    netconfd.start()


def test_a_schema_comes_as_sysrepo_keeps_it(client, shared_sysrepo):
    (kept,) = shared_sysrepo.path.glob("yang/tsn-linux@*.yang")
    data = schema(client, "tsn-linux").findtext(f"{{{MONITORING}}}data")
    assert data == kept.read_text(encoding="utf-8")


def test_every_schema_listed_can_be_had_in_every_format_listed(client):
    listed = [
        [each.findtext(f"{{{MONITORING}}}{leaf}") for leaf in ("identifier", "version", "format")]
        for each in state(client, "ncm:schemas/ncm:schema")
    ]
    assert {format_ for _, _, format_ in listed} == {"yang", "yin"}
    assert {"ietf-yang-types", "sysrepo", "tsn-linux"} <= {name for name, _, _ in listed}
    for name, version, format_ in listed:
        rest = f"<version>{version}</version><format>{format_}</format>"
        text = schema(client, name, rest).findtext(f"{{{MONITORING}}}data")
        if format_ == "yin":
            assert etree.fromstring(text.encode()).get("name") == name
        else:
            assert f"module {name} {{" in text
            assert version in text


def test_a_client_can_compile_the_switch_from_the_schemas_it_fetched(client, tmp_path):
    for each in state(client, "ncm:schemas/ncm:schema[ncm:format='yang']/ncm:identifier"):
        text = schema(client, each.text).findtext(f"{{{MONITORING}}}data")
        (tmp_path / f"{each.text}.yang").write_text(text, encoding="utf-8")
    with libyang.Context(str(tmp_path), disable_searchdir_cwd=True) as context:
        assert context.load_module("tsn-linux").implemented()


@pytest.mark.parametrize(
    ("name", "rest", "tag"),
    [
        ("ietf-nothing", "", "invalid-value"),
        ("ietf-interfaces", "<version>1999-01-01</version>", "invalid-value"),
        ("ietf-interfaces", "<format>ncm:xsd</format>", "invalid-value"),
        ("ietf-interfaces", "<format>if:yang</format>", "invalid-value"),
        ("ietf-interfaces", "<colour/>", "unknown-element"),
        ("", "", "invalid-value"),
        ("../../etc/passwd", "", "invalid-value"),
    ],
)
def test_a_schema_that_is_not_there_is_refused(client, name, rest, tag):
    assert texts(schema(client, name, rest), "//nc:error-tag") == [tag]


def test_the_hello_names_the_library_the_client_then_reads(client):
    library = '<yang-library xmlns="urn:ietf:params:xml:ns:yang:ietf-yang-library"/>'
    retired = '<modules-state xmlns="urn:ietf:params:xml:ns:yang:ietf-yang-library"/>'
    reply = ask(client, f'<get><filter type="subtree">{library}{retired}</filter></get>')
    (content_id,) = texts(reply, "//lib:yang-library/lib:content-id")
    (module_set_id,) = texts(reply, "//lib:modules-state/lib:module-set-id")
    (revision,) = texts(
        reply, "//lib:module-set/lib:module[lib:name='ietf-yang-library']/lib:revision"
    )
    capability = "urn:ietf:params:netconf:capability:yang-library"
    assert {each for each in client.server_capabilities if each.startswith(capability)} == {
        f"{capability}:1.0?revision={revision}&module-set-id={module_set_id}",
        f"{capability}:1.1?revision={revision}&content-id={content_id}",
    }


@pytest.mark.parametrize(
    "operation",
    [
        "<get/>",
        "<ncds:get-data><ncds:datastore>ds:operational</ncds:datastore></ncds:get-data>",
        '<get><filter type="xpath" select="/lib:yang-library | /lib:modules-state"/></get>',
        '<get><filter type="xpath" select="//lib:location | //lib:schema"/></get>',
    ],
    ids=["get", "get-data", "the library", "the leaves alone"],
)
def test_no_reply_names_files_of_the_switch(client, operation):
    reply = ask(client, operation)

    assert not errors(reply)
    assert "file:" not in etree.tostring(reply, encoding="unicode")


def test_a_module_of_the_library_has_all_but_its_file(client):
    library = '<yang-library xmlns="urn:ietf:params:xml:ns:yang:ietf-yang-library"/>'
    reply = ask(client, f'<get><filter type="subtree">{library}</filter></get>')

    (module,) = reply.xpath(
        "//lib:module-set/lib:module[lib:name='tsn-linux']", namespaces=PREFIXES
    )
    assert [etree.QName(each).localname for each in module] == ["name", "revision", "namespace"]


def test_the_hello_names_the_modules_of_yang_1_and_no_other(client):
    capabilities = set(client.server_capabilities)
    types = "urn:ietf:params:xml:ns:yang:iana-if-type"
    assert f"{types}?module=iana-if-type&revision=2014-05-08" in capabilities
    named = {each for each in capabilities if "?module=" in each}
    assert not [each for each in named if "ietf-interfaces" in each or "tsn-linux" in each]


def test_nothing_is_refused_silently(client):
    (error,) = errors(schema(client, "ietf-nothing"))
    assert "ietf-nothing" in error.findtext("{*}error-message")
