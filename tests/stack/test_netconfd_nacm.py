"""Access control (RFC 8341): what operators, observers, strangers and root get at a new switch."""

from __future__ import annotations

import asyncio

import pytest
from lxml import etree
from ncclient.operations import RPCError
from ncclient.transport.errors import SessionCloseError, SSHError
from ncclient.xml_ import to_ele

from tests.stack.front_end import OWN_NAMES, REPLY_TIMEOUT_S
from tests.stack.netconfd_process import wait_until
from tests.stack.test_netconfd import INTERFACES, commit, described, edit, interfaces_in

BASE = "urn:ietf:params:xml:ns:netconf:base:1.0"
NACM = "urn:ietf:params:xml:ns:yang:ietf-netconf-acm"
SERVER = "urn:tsn-control-plane:yang:tsn-netconf-server"
NMDA = "urn:ietf:params:xml:ns:yang:ietf-netconf-nmda"
DATASTORES = "urn:ietf:params:xml:ns:yang:ietf-datastores"
P1, P2 = f"{OWN_NAMES}1", f"{OWN_NAMES}2"


@pytest.fixture
def operator(shared_netconfd):
    with shared_netconfd.connect() as client:
        yield client


@pytest.fixture
def observer(shared_netconfd):
    with shared_netconfd.connect(username="observer") as client:
        yield client


def edit_raw(client, xml):
    client.edit_config(
        target="candidate", config=f'<config xmlns="{BASE}" xmlns:nc="{BASE}">{xml}</config>'
    )


def set_nacm(client, xml):
    edit_raw(client, f'<nacm xmlns="{NACM}">{xml}</nacm>')
    client.commit()


def refused(function, *arguments, **options):
    """The access-denied that answers the request."""
    with pytest.raises(RPCError) as caught:
        function(*arguments, **options)
    assert caught.value.tag == "access-denied"
    return caught.value


def names_in(client, datastore="running"):
    return set(interfaces_in(client, datastore))


def permit_write(group, name):
    """Rules that let a group edit one interface and commit."""
    return f"""
      <groups><group><name>{group}</name><user-name>half</user-name></group></groups>
      <rule-list nc:operation="create"><name>{group}</name><group>{group}</group>
        <rule><name>one</name><path xmlns:if="{INTERFACES}"
          >/if:interfaces/if:interface[if:name='{name}']</path><action>permit</action></rule>
        <rule><name>read</name><access-operations>read</access-operations>
          <action>permit</action></rule>
        <rule><name>any</name><module-name>ietf-netconf</module-name><rpc-name>*</rpc-name>
          <access-operations>exec</access-operations><action>permit</action></rule>
      </rule-list>"""


def test_an_operator_may_do_everything(operator, shared_netconfd):
    commit(operator, described(P1, "one"))
    operator.copy_config(source="running", target="startup")
    operator.delete_config("startup")
    victim = shared_netconfd.connect()
    operator.kill_session(victim.session_id)
    assert wait_until(lambda: not victim.connected)


def test_an_observer_reads_what_the_operator_wrote(operator, observer):
    commit(operator, described(P1, "one"))
    assert names_in(observer) == {P1}
    assert observer.get(filter=("xpath", "/*")).data.find(f"{{{INTERFACES}}}interfaces") is not None
    assert "module ietf-interfaces" in observer.get_schema("ietf-interfaces").data


@pytest.mark.parametrize(
    "request_",
    [
        lambda client: edit(client, described(P1, "one")),
        lambda client: client.commit(),
        lambda client: client.discard_changes(),
        lambda client: client.lock("running"),
        lambda client: client.validate("running"),
        lambda client: client.copy_config(source="running", target="startup"),
        lambda client: client.delete_config("startup"),
        lambda client: client.kill_session("4000000000"),
        lambda client: client.cancel_commit(),
    ],
    ids=lambda function: function.__code__.co_names[0],
)
def test_an_observer_executes_nothing_but_reads(observer, request_):
    error = refused(request_, observer)
    assert error.type == "protocol"
    assert "observer" in error.message


def test_an_observer_cannot_see_who_may_log_in(operator, observer):
    edit_raw(
        operator,
        f'<netconf-server xmlns="{SERVER}"><users><user><name>somebody</name></user></users>'
        "<limits><idle-timeout>77</idle-timeout></limits></netconf-server>",
    )
    operator.commit()
    assert b"somebody" in etree.tostring(operator.get_config("running").data)
    seen = etree.tostring(observer.get_config("running").data)
    assert b"somebody" not in seen
    assert b"77" in seen


@pytest.mark.parametrize("request_", ["get", "get_config", "get_data"])
def test_no_filter_tells_an_observer_whether_hidden_data_has_a_value(operator, observer, request_):
    edit_raw(
        operator,
        f'<netconf-server xmlns="{SERVER}"><users><user><name>somebody</name></user></users>'
        "<limits><idle-timeout>77</idle-timeout></limits></netconf-server>",
    )
    operator.commit()

    def answer(client, name):
        hidden = f"/s:netconf-server/s:users/s:user/s:name='{name}'"
        filter_ = ("xpath", ({"s": SERVER}, f"/s:netconf-server/s:limits[{hidden}]"))
        if request_ == "get_data":
            return get_data(client, filter_[1][1])
        return (
            client.get(filter=filter_)
            if request_ == "get"
            else client.get_config("running", filter=filter_)
        ).data_xml

    assert "77" in answer(operator, "somebody")
    assert "77" not in answer(operator, "nobody")
    assert answer(observer, "somebody") == answer(observer, "nobody")


def get_data(client, xpath):
    reply = client.dispatch(
        to_ele(
            f'<get-data xmlns="{NMDA}" xmlns:ds="{DATASTORES}"><datastore>ds:running</datastore>'
            f'<xpath-filter xmlns:s="{SERVER}">{xpath}</xpath-filter></get-data>'
        )
    )
    return etree.tostring(to_ele(reply.xml)[0]).decode()


def test_a_subscriber_does_not_hear_of_changes_that_it_may_not_read(operator, observer):
    observer.create_subscription()
    edit_raw(
        operator,
        f'<netconf-server xmlns="{SERVER}"><users><user><name>somebody</name></user></users>'
        "</netconf-server>",
    )
    operator.commit()
    edit_raw(
        operator,
        f'<netconf-server xmlns="{SERVER}"><users><user xmlns:nc="{BASE}" nc:operation="delete">'
        "<name>somebody</name></user></users><limits><idle-timeout>77</idle-timeout></limits>"
        "</netconf-server>",
    )
    operator.commit()
    heard = ""
    while "idle-timeout" not in heard:
        notification = observer.take_notification(timeout=REPLY_TIMEOUT_S)
        assert notification is not None, heard
        heard += notification.notification_xml
    assert "somebody" not in heard


def opened(shared_netconfd, username):
    """A session of this user, None if there is none for it."""
    try:
        return shared_netconfd.connect(username=username)
    except (SSHError, SessionCloseError, OSError):
        return None


def test_a_stranger_gets_no_session_and_is_told_why(shared_netconfd):
    async def knock():
        connection = await shared_netconfd.log_in(username="stranger")
        async with asyncio.timeout(REPLY_TIMEOUT_S), connection:
            return await connection.run(subsystem="netconf")

    refusal = asyncio.run(knock())
    assert (refusal.exit_status, refusal.stdout) == (1, "")
    assert "does not let stranger execute anything" in refusal.stderr
    assert "stranger@127.0.0.1 refused: access control (NACM)" in shared_netconfd.log


def test_who_may_do_one_thing_gets_a_session_for_it(operator, shared_netconfd):
    set_nacm(operator, permit_one("subscriber", "create-subscription"))
    session = wait_until(lambda: opened(shared_netconfd, "subscriber"))
    session.create_subscription()
    refused(session.get)
    session.close_session()


def test_to_close_a_session_is_no_reason_to_have_one(operator, shared_netconfd):
    set_nacm(operator, permit_one("leaver", "close-session") + permit_one("nobody1", "get"))
    with wait_until(lambda: opened(shared_netconfd, "nobody1")) as session:
        assert session.connected
    assert opened(shared_netconfd, "leaver") is None


def permit_one(user, operation):
    """A group of one user, and a rule that lets it execute one operation."""
    return f"""
      <groups><group><name>{user}s</name><user-name>{user}</user-name></group></groups>
      <rule-list><name>{user}s</name><group>{user}s</group><rule><name>it</name>
        <rpc-name>{operation}</rpc-name><access-operations>exec</access-operations>
        <action>permit</action></rule></rule-list>"""


def test_root_is_the_recovery_user(operator, shared_netconfd):
    set_nacm(
        operator, "<groups><group nc:operation='delete'><name>tsn-operator</name></group></groups>"
    )
    wait_until_denied = lambda: _is_denied(operator)  # noqa: E731
    assert wait_until(wait_until_denied)
    with shared_netconfd.connect(username="root") as root:
        set_nacm(
            root,
            "<groups><group><name>tsn-operator</name><user-name>operator</user-name></group></groups>",
        )
    assert wait_until(lambda: not _is_denied(operator))


def _is_denied(client):
    try:
        client.validate("running")
    except RPCError as error:
        return error.tag == "access-denied"
    return False


def test_a_denied_node_is_named_and_nothing_of_the_edit_stays(operator, shared_netconfd):
    commit(operator, described(P1, "one") + described(P2, "two"))
    set_nacm(operator, permit_write("halves", P2))
    with wait_until(lambda: opened(shared_netconfd, "half")) as half:
        error = refused(edit, half, described(P2, "mine") + described(P1, "mine"))
        prefix = "ietf-interfaces"
        its_name = f"{prefix}:interfaces/{prefix}:interface[{prefix}:name='{P1}']"
        assert error.path == f"/{its_name}/{prefix}:description"
        assert interfaces_in(half, "candidate") == {P1: "one", P2: "two"}
        commit(half, described(P2, "mine"))
    assert interfaces_in(operator, "running") == {P1: "one", P2: "mine"}


def test_a_commit_is_judged_by_what_it_changes(operator, shared_netconfd):
    commit(operator, described(P1, "one") + described(P2, "two"))
    set_nacm(operator, permit_write("halves", P2))
    with wait_until(lambda: opened(shared_netconfd, "half")) as half:
        # candidate is everybody's: it holds the operator's change, too
        edit(operator, described(P1, "uno"))
        edit(half, described(P2, "dos"))
        assert P1 in refused(half.commit).path
        assert interfaces_in(operator, "running") == {P1: "one", P2: "two"}
        # throwing away needs no right to the data (section 3.2.9)
        half.discard_changes()
        assert interfaces_in(operator, "candidate") == {P1: "one", P2: "two"}


def test_keeping_running_for_the_next_start_needs_no_right_to_the_data(operator, shared_netconfd):
    commit(operator, described(P1, "one"))
    set_nacm(operator, permit_write("halves", P2))
    with wait_until(lambda: opened(shared_netconfd, "half")) as half:
        half.copy_config(source="running", target="startup")
        assert names_in(half, "startup") == {P1}
        commit(operator, described(P1, "uno"))
        assert P1 in refused(half.copy_config, source="startup", target="candidate").path


def test_hidden_configuration_survives_an_undone_commit_of_its_blind_user(
    operator, shared_netconfd
):
    commit(operator, described(P1, "secret") + described(P2, "two"))
    hidden = permit_write("halves", P2).replace(
        "<rule><name>one</name>",
        f"<rule><name>hidden</name><path xmlns:if='{INTERFACES}'"
        f">/if:interfaces/if:interface[if:name='{P1}']</path><action>deny</action></rule>"
        "<rule><name>one</name>",
    )
    set_nacm(operator, hidden)
    with wait_until(lambda: opened(shared_netconfd, "half")) as half:
        assert wait_until(lambda: names_in(half) == {P2})
        with half.locked("running"):
            edit(half, described(P2, "new"))
            half.commit(confirmed=True, timeout="600")
            half.cancel_commit()
    assert interfaces_in(operator, "running") == {P1: "secret", P2: "two"}


def test_an_expired_commit_is_undone_in_the_session_of_a_lock_holder_without_rights(
    operator, shared_netconfd
):
    commit(operator, described(P1, "one"))
    # may lock, and nothing else
    set_nacm(
        operator,
        "<groups><group><name>lockers</name><user-name>locker</user-name></group></groups>"
        "<rule-list><name>lockers</name><group>lockers</group><rule><name>lock</name>"
        "<rpc-name>lock</rpc-name><action>permit</action></rule></rule-list>",
    )
    with wait_until(lambda: opened(shared_netconfd, "locker")) as locker:
        edit(operator, described(P1, "uno"))
        operator.commit(confirmed=True, timeout="2", persist="x")
        assert wait_until(lambda: _locks(locker))
        assert wait_until(lambda: "confirmed commit reverted" in shared_netconfd.log)
    assert interfaces_in(operator, "running") == {P1: "one"}


def _locks(client):
    try:
        client.lock("running")
    except RPCError:
        return False
    return True


def test_a_unix_group_is_a_group_if_external_groups_are_enabled(operator, shared_netconfd):
    """`daemon` is a user and a group of every Debian."""
    assert opened(shared_netconfd, "daemon") is None
    set_nacm(
        operator,
        "<rule-list><name>daemons</name><group>daemon</group><rule><name>all</name>"
        "<action>permit</action></rule></rule-list>",
    )
    with wait_until(lambda: opened(shared_netconfd, "daemon")) as daemon:
        assert not _is_denied(daemon)
        set_nacm(operator, "<enable-external-groups>false</enable-external-groups>")
        assert wait_until(lambda: _is_denied(daemon))


def test_a_comment_on_a_rule_is_read_back(operator):
    rules = permit_write("halves", P1).replace("<name>one</name>", "<name>one</name>{comment}", 1)
    set_nacm(operator, rules.format(comment="<comment>until the audit</comment>"))
    nacm = operator.get_config("running", filter=("subtree", f'<nacm xmlns="{NACM}"/>')).data
    assert [comment.text for comment in nacm.iter(f"{{{NACM}}}comment")] == ["until the audit"]


def test_disabled_access_control_lets_everybody_in(operator, shared_netconfd):
    set_nacm(operator, "<enable-nacm>false</enable-nacm>")
    with wait_until(lambda: opened(shared_netconfd, "stranger")) as stranger:
        commit(stranger, described(P1, "one"))


def test_what_was_denied_is_counted(operator, observer, shared_netconfd):
    set_nacm(operator, permit_write("halves", P2))
    with wait_until(lambda: opened(shared_netconfd, "half")) as half:
        before = _counters(operator)
        refused(edit, half, described(P1, "one"))
    refused(observer.commit)
    refused(observer.validate, "running")
    after = _counters(operator)
    assert after["denied-operations"] - before["denied-operations"] == 2
    assert after["denied-data-writes"] - before["denied-data-writes"] == 1


def _counters(client):
    nacm = client.get(filter=to_ele(f'<filter xmlns="{BASE}"><nacm xmlns="{NACM}"/></filter>'))
    return {
        etree.QName(each).localname: int(each.text)
        for each in nacm.data.iter()
        if "denied-" in str(each.tag)
    }


def test_a_copy_that_is_denied_says_that_it_would_change_more_than_the_user_has(
    operator, shared_netconfd
):
    set_nacm(operator, permit_write("half", P1))
    with shared_netconfd.connect(username="half") as half:
        error = refused(half.copy_config, source="candidate", target="startup")
    assert 'Access to the data model "ietf-netconf-acm" is denied' in error.message
    assert "makes all of startup equal to its source, and this is the first diff" in error.message
