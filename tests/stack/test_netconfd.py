"""NETCONF operations on a real sysrepo: what ncclient writes, reads, locks and is refused."""

from __future__ import annotations

import pytest
import sysrepo
from lxml import etree
from ncclient.operations import RPCError
from ncclient.xml_ import to_ele

from tests.stack.front_end import OWN_NAMES, accepted_tags
from tests.stack.netconfd_process import wait_until

BASE = "urn:ietf:params:xml:ns:netconf:base:1.0"
INTERFACES = "urn:ietf:params:xml:ns:yang:ietf-interfaces"
DEFAULTS = "urn:ietf:params:xml:ns:yang:ietf-netconf-with-defaults"
# What an edit or a commit is refused with while another session holds the lock.
LOCKED_TAGS = accepted_tags("in-use", "lock-denied")


@pytest.fixture
def client(server):
    with server.connect() as client:
        yield client


def config(interfaces):
    return (
        f'<config xmlns="{BASE}" xmlns:nc="{BASE}" '
        'xmlns:ianaift="urn:ietf:params:xml:ns:yang:iana-if-type">'
        f'<interfaces xmlns="{INTERFACES}">{interfaces}</interfaces></config>'
    )


def interface(name, leaves="", operation=None):
    attribute = f' nc:operation="{operation}"' if operation else ""
    return (
        f"<interface{attribute}><name>{name}</name>"
        f"<type>ianaift:ethernetCsmacd</type>{leaves}</interface>"
    )


def described(name, description, operation=None):
    return interface(name, f"<description>{description}</description>", operation)


def edit(client, interfaces, **options):
    client.edit_config(target="candidate", config=config(interfaces), **options)


def commit(client, interfaces):
    edit(client, interfaces)
    client.commit()


def interfaces_in(client, datastore):
    """Name to description of each interface of the tests."""
    found = client.get_config(datastore).data.iter(f"{{{INTERFACES}}}interface")
    described = {
        each.findtext(f"{{{INTERFACES}}}name"): each.findtext(f"{{{INTERFACES}}}description")
        for each in found
    }
    return {name: text for name, text in described.items() if name.startswith(OWN_NAMES)}


def subtree(client, filter_, **options):
    """The filtered running configuration as text, without the namespace every line repeats."""
    data = client.get_config(
        "running",
        filter=("subtree", f'<interfaces xmlns="{INTERFACES}">{filter_}</interfaces>'),
        **options,
    ).data
    return [
        [f"{etree.QName(leaf).localname}={leaf.text}" for leaf in each]
        for each in data.iter(f"{{{INTERFACES}}}interface")
        if each.findtext(f"{{{INTERFACES}}}name").startswith(OWN_NAMES)
    ]


def sourced(configuration):
    """ncclient takes the <source> that holds a configuration."""
    return to_ele(f'<source xmlns="{BASE}">{configuration}</source>')


def refused(call, *args, **kwargs):
    with pytest.raises(RPCError) as refusal:
        call(*args, **kwargs)
    return refusal.value


def names_missing_type(error):
    """Whether the error says what is missing, in words or by its tag (RFC 6241, appendix A)."""
    return "type" in error.message or error.tag == "missing-element"


def names_holder(error, client):
    """Whether the error says which session holds the lock, in words or as `session-id`."""
    return f"session {client.session_id} " in error.message or (
        error.info is not None and session_id_in(error) == client.session_id
    )


def can_lock(client, datastore):
    try:
        client.lock(datastore)
    except RPCError:
        return False
    return True


def tags(error):
    return {each.tag for each in getattr(error, "errors", [error])}


def session_id_in(error):
    return etree.fromstring(error.info.encode()).findtext("{*}session-id")


class Refuser:
    """A subscriber that refuses every interface with the given description."""

    def __init__(self, words):
        self._words = words
        self._connection = sysrepo.SysrepoConnection()
        self._session = self._connection.start_session("running")
        self._session.subscribe_module_change(
            "ietf-interfaces", "/ietf-interfaces:interfaces", self._on_change
        )

    def _on_change(self, event, _request, changes, _data):
        values = [getattr(change, "value", None) for change in changes]
        if event == "change" and "refuse me" in values:
            raise sysrepo.SysrepoValidationFailedError(self._words)

    def __enter__(self):
        return self

    def __exit__(self, *_exception):
        self._session.stop()
        self._connection.disconnect()


def test_an_edit_of_candidate_is_running_only_after_commit(client):
    edit(client, described("tsn-test-1", "uplink"))
    assert interfaces_in(client, "running") == {}
    assert interfaces_in(client, "candidate") == {"tsn-test-1": "uplink"}
    client.validate("candidate")
    client.commit()
    assert interfaces_in(client, "running") == {"tsn-test-1": "uplink"}


def test_discarded_changes_leave_candidate_equal_to_running(client):
    commit(client, described("tsn-test-1", "uplink"))
    edit(client, described("tsn-test-1", "wrong"))
    client.discard_changes()
    assert interfaces_in(client, "candidate") == {"tsn-test-1": "uplink"}


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ("merge", {"tsn-test-1": "new", "tsn-test-2": "two"}),
        ("replace", {"tsn-test-1": "new", "tsn-test-2": "two"}),
        ("delete", {"tsn-test-2": "two"}),
        ("remove", {"tsn-test-2": "two"}),
    ],
)
def test_an_operation_on_an_entry_changes_that_entry_alone(client, operation, expected):
    commit(client, described("tsn-test-1", "one") + described("tsn-test-2", "two"))
    edit(client, described("tsn-test-1", "new", operation))
    assert interfaces_in(client, "candidate") == expected


def test_replace_drops_what_the_edit_does_not_name_and_merge_keeps_it(client):
    commit(client, described("tsn-test-1", "one"))
    edit(client, interface("tsn-test-1", operation="merge"))
    assert interfaces_in(client, "candidate") == {"tsn-test-1": "one"}
    edit(client, interface("tsn-test-1", operation="replace"))
    assert interfaces_in(client, "candidate") == {"tsn-test-1": None}


def test_create_of_what_exists_and_delete_of_what_does_not_are_refused(client):
    commit(client, interface("tsn-test-1"))
    assert tags(refused(edit, client, interface("tsn-test-1", operation="create"))) == {
        "data-exists"
    }
    assert tags(refused(edit, client, interface("tsn-test-9", operation="delete"))) == {
        "data-missing"
    }
    edit(client, interface("tsn-test-9", operation="remove"))
    edit(client, interface("tsn-test-9", operation="create"))
    assert interfaces_in(client, "candidate") == {"tsn-test-1": None, "tsn-test-9": None}


def test_a_leaf_is_deleted_without_its_value(client):
    commit(client, interface("tsn-test-1", "<enabled>true</enabled>"))
    edit(client, interface("tsn-test-1", '<enabled nc:operation="delete"/>'))
    client.commit()
    assert subtree(client, "<interface><enabled/></interface>") == [["name=tsn-test-1"]]


def test_default_operation_none_changes_only_what_names_its_operation(client):
    commit(client, described("tsn-test-1", "one") + described("tsn-test-2", "two"))
    interfaces = "<interface><name>tsn-test-1</name></interface>" + described(
        "tsn-test-2", "x", "delete"
    )
    edit(client, interfaces, default_operation="none")
    assert interfaces_in(client, "candidate") == {"tsn-test-1": "one"}


def test_default_operation_replace_replaces_the_whole_configuration(client):
    commit(client, described("tsn-test-1", "one") + described("tsn-test-2", "two"))
    edit(client, described("tsn-test-3", "three"), default_operation="replace")
    assert interfaces_in(client, "candidate") == {"tsn-test-3": "three"}


def test_a_refused_edit_changes_nothing_and_spoils_no_later_one(client):
    edit_of_two = described("tsn-test-1", "one") + interface("tsn-test-2", operation="delete")
    assert tags(refused(edit, client, edit_of_two)) == {"data-missing"}
    assert interfaces_in(client, "candidate") == {}
    edit(client, described("tsn-test-3", "three"))
    assert interfaces_in(client, "candidate") == {"tsn-test-3": "three"}


def test_test_only_finds_the_fault_and_changes_nothing(client):
    without_type = "<interface><name>tsn-test-1</name></interface>"
    error = refused(edit, client, without_type, test_option="test-only")
    assert names_missing_type(error)
    edit(client, interface("tsn-test-1"), test_option="test-only")
    assert interfaces_in(client, "candidate") == {}


def test_an_edit_with_test_option_set_may_be_completed_by_a_later_one(client):
    edit(client, "<interface><name>tsn-test-1</name></interface>", test_option="set")
    assert names_missing_type(refused(client.validate, "candidate"))
    assert names_missing_type(refused(client.commit))
    edit(client, interface("tsn-test-1"))
    client.commit()
    assert interfaces_in(client, "running") == {"tsn-test-1": None}


def test_startup_takes_a_copy_and_can_be_emptied(shared_netconfd, client):
    commit(client, described("tsn-test-1", "one"))
    client.copy_config(source="running", target="startup")
    assert interfaces_in(client, "startup") == {"tsn-test-1": "one"}
    client.delete_config("startup")
    assert interfaces_in(client, "startup") == {}


def test_candidate_takes_a_whole_configuration(client):
    commit(client, described("tsn-test-1", "one"))
    client.copy_config(source=sourced(config(described("tsn-test-2", "two"))), target="candidate")
    assert interfaces_in(client, "candidate") == {"tsn-test-2": "two"}


def test_a_configuration_in_no_datastore_is_validated(client):
    client.validate(to_ele(config(interface("tsn-test-1"))))
    without_type = to_ele(config("<interface><name>tsn-test-1</name></interface>"))
    assert names_missing_type(refused(client.validate, without_type))


@pytest.mark.parametrize(
    ("filter_", "expected"),
    [
        (
            "<interface><name>tsn-test-1</name></interface>",
            [["name=tsn-test-1", "description=one"]],
        ),
        ("<interface><name>tsn-test-9</name></interface>", []),
        ("<interface><name/></interface>", [["name=tsn-test-1"], ["name=tsn-test-2"]]),
        (
            "<interface><name>tsn-test-2</name><description/></interface>",
            [["name=tsn-test-2", "description=two"]],
        ),
        (
            "<interface><description>two</description></interface>",
            [["name=tsn-test-2", "description=two"]],
        ),
        (
            "<interface><name>tsn-test-1</name><description>two</description></interface>",
            [],
        ),
        (
            "<interface><name>tsn-test-1</name></interface><interface><name>tsn-test-2</name></interface>",
            [["name=tsn-test-1", "description=one"], ["name=tsn-test-2", "description=two"]],
        ),
        ('<interface unit="1"/>', []),
        ('<interface xmlns="urn:example:unknown"/>', []),
        ('<interface><name>it\'s "tsn-test-1"</name></interface>', []),
    ],
)
def test_a_subtree_filter_selects(client, filter_, expected):
    commit(client, described("tsn-test-1", "one") + described("tsn-test-2", "two"))
    without_type = [
        [leaf for leaf in leaves if not leaf.startswith("type=")]
        for leaves in subtree(client, filter_)
    ]
    assert without_type == expected


def test_a_filter_without_content_selects_nothing_and_no_filter_everything(client):
    commit(client, interface("tsn-test-1"))
    empty = to_ele(f'<filter xmlns="{BASE}" type="subtree"/>')
    assert len(client.get_config("running", filter=empty).data) == 0
    assert len(client.get_config("running").data) > 0


def test_an_xpath_filter_uses_the_prefixes_of_the_message(client):
    commit(client, described("tsn-test-1", "one") + described("tsn-test-2", "two"))
    path = "/x:interfaces/x:interface[x:name='tsn-test-2']"
    data = client.get_config("running", filter=("xpath", ({"x": INTERFACES}, path))).data
    assert [name.text for name in data.iter(f"{{{INTERFACES}}}name")] == ["tsn-test-2"]


def test_get_shows_configuration_and_state_together(shared_sysrepo, client):
    commit(client, described("tsn-test-1", "one"))

    def watch(_event, _request, _changes, _data):
        """Whoever subscribes to configuration shows it in operational."""

    def state(_xpath, _data):
        return {"interfaces": {"interface": [{"name": "tsn-test-1", "oper-status": "up"}]}}

    with sysrepo.SysrepoConnection() as connection, connection.start_session() as subscriber:
        subscriber.subscribe_module_change("ietf-interfaces", "/ietf-interfaces:interfaces", watch)
        subscriber.subscribe_oper_data_request(
            "ietf-interfaces", "/ietf-interfaces:interfaces/interface", state, oper_merge=True
        )
        filter_ = ("subtree", f'<interfaces xmlns="{INTERFACES}"/>')
        (entry,) = client.get(filter=filter_).data.iter(f"{{{INTERFACES}}}interface")
    assert entry.findtext(f"{{{INTERFACES}}}description") == "one"
    assert entry.findtext(f"{{{INTERFACES}}}oper-status") == "up"


@pytest.mark.parametrize(
    ("mode", "shown"),
    [(None, ["true"]), ("explicit", ["true"]), ("report-all", ["true"]), ("trim", [])],
)
def test_a_value_set_to_its_default_is_shown_unless_trimmed(client, mode, shown):
    commit(client, interface("tsn-test-1", "<enabled>true</enabled>"))
    (leaves,) = subtree(client, "<interface><name/><enabled/></interface>", with_defaults=mode)
    assert leaves[1:] == [f"enabled={value}" for value in shown]


def test_report_all_shows_defaults_nobody_set(client):
    commit(client, interface("tsn-test-1"))
    shown = {
        mode: subtree(client, "<interface><name/><enabled/></interface>", with_defaults=mode)
        for mode in ("explicit", "report-all")
    }
    assert shown == {
        "explicit": [["name=tsn-test-1"]],
        "report-all": [["name=tsn-test-1", "enabled=true"]],
    }


def test_a_lock_conflict_names_the_holder(server, client):
    with server.connect() as other:
        client.lock("running")
        error = refused(other.lock, "running")
        assert error.tag == "lock-denied"
        assert session_id_in(error) == client.session_id
        unlocked = refused(other.unlock, "running")
        assert unlocked.tag in accepted_tags("operation-failed", "lock-denied")
        edit(other, interface("tsn-test-1"))
        error = refused(other.commit)
        assert error.tag in LOCKED_TAGS
        assert names_holder(error, client)
        client.unlock("running")
        other.commit()


def test_a_locked_candidate_is_closed_to_others_and_cleaned_when_its_holder_leaves(server, client):
    holder = server.connect()
    holder.lock("candidate")
    assert refused(edit, client, interface("tsn-test-1")).tag in LOCKED_TAGS
    edit(holder, interface("tsn-test-2"))
    holder.close_session()
    edit(client, interface("tsn-test-3"))
    assert interfaces_in(client, "candidate") == {"tsn-test-3": None}


def test_candidate_with_uncommitted_changes_cannot_be_locked(server, client):
    edit(client, interface("tsn-test-1"))
    with server.connect() as other:
        error = refused(other.lock, "candidate")
    assert error.tag == "lock-denied"
    assert session_id_in(error) == "0"


def test_a_killed_session_is_disconnected_and_loses_its_locks(server, client):
    victim = server.connect()
    victim.lock("running")
    client.kill_session(victim.session_id)
    assert wait_until(lambda: not victim.connected)
    assert wait_until(lambda: can_lock(client, "running"))


def test_a_session_cannot_kill_itself(client):
    assert refused(client.kill_session, client.session_id).tag == "invalid-value"


def test_the_words_of_a_refusing_subscriber_reach_the_client(shared_sysrepo, client):
    words = "port tsn-test-1: Error: Device does not have enough TX queues."
    with Refuser(words):
        edit(client, described("tsn-test-1", "refuse me"))
        error = refused(client.commit)
    assert (error.tag, error.message) == ("operation-failed", words)
    assert interfaces_in(client, "running") == {}


def test_several_faults_come_back_as_several_errors(client):
    error = refused(
        edit,
        client,
        interface("tsn-test-1", "<statistics><in-octets>1</in-octets></statistics>"),
    )
    assert [each.tag for each in error.errors] == ["unknown-element", "unknown-element"]


def test_configuration_that_the_agent_does_not_apply_is_refused_by_name(client):
    bridge = "urn:ieee:std:802.1Q:yang:ieee802-dot1q-bridge"
    port = f'<bridge-port xmlns="{bridge}"><pvid>5</pvid></bridge-port>'
    error = refused(edit, client, interface("tsn-test-1", port))
    assert error.tag == "unknown-element"
    assert "<bad-element>pvid</bad-element>" in error.info
    assert interfaces_in(client, "candidate") == {}


def test_an_interface_cannot_be_configured_down(client):
    error = refused(edit, client, interface("tsn-test-1", "<enabled>false</enabled>"))
    assert error.path.endswith("enabled")
    assert "the agent sets no interface down" in error.message
    assert interfaces_in(client, "candidate") == {}


def test_an_error_path_declares_the_prefixes_it_uses(client):
    error = refused(edit, client, interface("tsn-test-1", "<enabled>maybe</enabled>"))
    assert error.tag == "invalid-value"
    assert error.path == (
        "/ietf-interfaces:interfaces/ietf-interfaces:interface"
        "[ietf-interfaces:name='tsn-test-1']/ietf-interfaces:enabled"
    )


def test_a_stopped_server_ends_its_sessions_and_exits_cleanly(netconfd):
    client = netconfd.connect()
    assert netconfd.stop() == 0
    assert wait_until(lambda: not client.connected)
    netconfd.start()
