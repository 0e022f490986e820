"""What access control hides from a user, the answers to that user's edits do not tell."""

from __future__ import annotations

import re

import pytest
from ncclient.operations import RaiseMode
from ncclient.xml_ import to_ele

from tests.stack.netconfd_process import wait_until
from tests.stack.test_netconfd import INTERFACES, commit, described
from tests.stack.test_netconfd_nacm import (
    BASE,
    DATASTORES,
    NMDA,
    P1,
    P2,
    SERVER,
    edit_raw,
    interfaces_in,
    opened,
    set_nacm,
)

KEY = (
    f"<authorized-key><name>k</name><algorithm>ssh-rsa</algorithm><key-data>{'A' * 64}</key-data>"
    "</authorized-key>"
)
MARKED_KEY = KEY.replace("<authorized-key>", "<authorized-key{}>")
ALICE = f"<user><name>alice</name>{KEY}</user>"
OPERATIONS = ("create", "merge", "replace", "delete", "remove")
# Each names what the operation is at.
NODES = {
    "the users": "<users{}/>",
    "a user": "<users><user{}><name>alice</name></user></users>",
    "a user with a key": f"<users><user{{}}><name>alice</name>{KEY}</user></users>",
    "a key": f"<users><user><name>alice</name>{MARKED_KEY}</user></users>",
}


@pytest.fixture
def operator(shared_netconfd):
    with shared_netconfd.connect() as client:
        yield client


def rules(*more):
    """For a user who may execute and read everything but who may log in, and edit interfaces."""
    return f"""
      <groups><group><name>limited</name><user-name>limited</user-name></group></groups>
      <rule-list><name>limited</name><group>limited</group>
        {"".join(more)}
        <rule><name>hidden</name><path xmlns:s="{SERVER}">/s:netconf-server/s:users</path>
          <action>deny</action></rule>
        <rule><name>read</name><access-operations>read exec</access-operations>
          <action>permit</action></rule>
        <rule><name>write</name><module-name>ietf-interfaces</module-name>
          <action>permit</action></rule>
        <rule><name>server</name><module-name>tsn-netconf-server</module-name>
          <action>permit</action></rule>
      </rule-list>"""


@pytest.fixture
def limited(operator, shared_netconfd):
    set_nacm(operator, rules())
    with wait_until(lambda: opened(shared_netconfd, "limited")) as client:
        client.raise_mode = RaiseMode.NONE
        yield client


def configure(operator, users):
    """Make these the users, in running and candidate."""
    edit_raw(
        operator,
        f'<netconf-server xmlns="{SERVER}"><users nc:operation="replace">{users}</users>'
        "</netconf-server>",
    )
    operator.commit()


def answer(client, request, xml, default_operation="merge"):
    """The reply to an edit of candidate, but for its message-id."""
    config = f'<config xmlns="{BASE}" xmlns:nc="{BASE}">{xml}</config>'
    default = f"<default-operation>{default_operation}</default-operation>"
    if request == "edit-config":
        rpc = (
            f'<edit-config xmlns="{BASE}"><target><candidate/></target>{default}{config}'
            "</edit-config>"
        )
    else:
        rpc = (
            f'<edit-data xmlns="{NMDA}" xmlns:ds="{DATASTORES}"><datastore>ds:candidate</datastore>'
            f"{default}{config.replace(BASE, NMDA, 1)}</edit-data>"
        )
    return re.sub(r' message-id="[^"]*"', "", client.dispatch(to_ele(rpc)).xml)


def server(xml):
    return f'<netconf-server xmlns="{SERVER}">{xml}</netconf-server>'


def marked(node, operation):
    return server(node.format(f' nc:operation="{operation}"'))


def refusal(operator, client, *arguments):
    """The reply to an edit, which is the same whether alice is a user or not."""
    replies = []
    for users in ("", ALICE):
        configure(operator, users)
        replies.append(answer(client, *arguments))
        operator.discard_changes()
    assert replies[0] == replies[1]
    assert "<error-tag>access-denied</error-tag>" in replies[0], replies[0]
    return replies[0]


@pytest.mark.parametrize("request_", ["edit-config", "edit-data"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_edit_does_not_tell_whether_what_the_user_may_not_read_exists(
    operator, limited, operation, request_
):
    for name, node in NODES.items():
        if (name, operation) == ("the users", "merge"):
            # A container without presence: it has nothing to merge.
            continue
        refusal(operator, limited, request_, marked(node, operation))


@pytest.mark.parametrize("default_operation", ["none", "replace", "merge"])
def test_no_default_operation_tells_it(operator, limited, default_operation):
    config = server("<users><user><name>alice</name></user></users>")
    refusal(operator, limited, "edit-config", config, default_operation)


@pytest.mark.parametrize("operation", ["delete", "remove"])
def test_a_leaf_to_delete_without_its_value_is_no_way_around(operator, limited, operation):
    xml = server(
        "<users><user><name>alice</name><authorized-key><name>k</name>"
        f'<algorithm nc:operation="{operation}"/></authorized-key></user></users>'
    )
    refusal(operator, limited, "edit-config", xml)


@pytest.mark.parametrize("operation", ["create", "replace", "delete", "remove"])
def test_an_edit_of_what_holds_something_hidden_does_not_tell_whether_it_does(
    operator, limited, operation
):
    xml = f'<netconf-server xmlns="{SERVER}" nc:operation="{operation}"/>'
    refusal(operator, limited, "edit-config", xml)


def test_the_answer_names_what_the_client_named(operator, limited):
    reply = refusal(operator, limited, "edit-config", marked(NODES["a user"], "create"))
    assert "netconf-server:users/tsn-netconf-server:user[tsn-netconf-server:name='alice']<" in reply
    assert "create, update and delete" in reply


@pytest.mark.parametrize("request_", ["edit-config", "edit-data"])
def test_who_may_edit_what_he_may_not_read_is_answered_by_what_exists(
    operator, shared_netconfd, request_
):
    blind = f"""
        <rule><name>blind</name><path xmlns:s="{SERVER}">/s:netconf-server/s:users</path>
          <access-operations>create update delete</access-operations>
          <action>permit</action></rule>"""
    set_nacm(operator, rules(blind))
    with wait_until(lambda: opened(shared_netconfd, "limited")) as client:
        client.raise_mode = RaiseMode.NONE
        configure(operator, ALICE)
        user = NODES["a user"]
        assert "data-exists" in answer(client, request_, marked(user, "create"))
        assert "<ok/>" in answer(client, request_, marked(user, "delete"))
        assert "data-missing" in answer(client, request_, marked(user, "delete"))
        assert "<ok/>" in answer(client, request_, marked(user, "remove"))
        assert "<ok/>" in answer(client, request_, marked(user, "create"))
        assert "alice" not in client.get_config("candidate").data_xml


def test_what_the_user_may_read_is_answered_by_what_exists(operator, limited):
    commit(operator, described(P1, "one"))
    port = (
        f'<interfaces xmlns="{INTERFACES}"><interface nc:operation="{{}}"><name>{{}}</name>'
        "</interface></interfaces>"
    )
    assert "data-exists" in answer(limited, "edit-config", port.format("create", P1))
    assert "data-missing" in answer(limited, "edit-config", port.format("delete", P2))
    assert "<ok/>" in answer(limited, "edit-config", port.format("delete", P1))
    assert P1 not in interfaces_in(operator, "candidate")


def test_an_error_does_not_name_what_the_user_may_not_read(operator, limited):
    """The operator's uncommitted change of a user is in candidate when the other one commits."""
    edit_raw(operator, server(f"<users>{ALICE}</users>"))
    reply = limited.commit().xml
    assert "<error-tag>access-denied</error-tag>" in reply
    assert "tsn-netconf-server" in reply
    assert "alice" not in reply


def test_hidden_data_that_is_not_valid_is_not_shown(operator, limited):
    key_of_no_kind = re.sub("<algorithm>.*</algorithm>", "", KEY)
    operator.edit_config(
        target="candidate",
        config=f'<config xmlns="{BASE}">'
        + server(f"<users><user><name>alice</name>{key_of_no_kind}</user></users>")
        + "</config>",
        test_option="set",
    )
    reply = limited.validate("candidate").xml
    assert "hides from limited is not valid" in reply
    assert "alice" not in reply
