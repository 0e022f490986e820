"""What a test leaves on a server that others use after it: restored, or reported with its name."""

from __future__ import annotations

from contextlib import ExitStack

import pytest
import sysrepo

from tests.stack import shared_server as shared_servers
from tests.stack.shared_server import SharedServer
from tests.stack.sysrepo_client import Client, gated
from tests.stack.test_netconfd import commit, described, edit


@pytest.fixture(scope="module")
def shared(sysrepo_place, sysrepo_template, tmp_path_factory):
    shared = SharedServer(sysrepo_place, sysrepo_template, tmp_path_factory.mktemp("shared"))
    yield shared
    shared.end()


@pytest.fixture
def server(shared):
    yield shared.lend()
    # As the fixture that the tests have does after any difference.
    shared.end()


@pytest.fixture
def hurry(monkeypatch):
    """What is left is not waited for."""
    monkeypatch.setattr(shared_servers, "PATIENCE_S", 0)


def configuration(server):
    with server.connect() as client:
        return [client.get_config(each).data_xml for each in ("running", "candidate", "startup")]


def test_the_configuration_is_restored_in_every_datastore_without_a_new_server(shared, server):
    before, pid = configuration(server), server.pid
    with server.connect() as client:
        commit(client, described("tsn-test-1", "one"))
        client.copy_config(source="running", target="startup")
        edit(client, described("tsn-test-2", "two"))
    with sysrepo.SysrepoConnection() as connection, connection.start_session() as session:
        session.replace_config({"nacm": {"enable-nacm": False}}, "ietf-netconf-acm", strict=True)
        Client(connection).replace(gated("swp1"))
    assert shared.clean_up() == ""
    later = shared.lend()
    assert later.pid == pid
    assert configuration(later) == before
    with later.connect() as client:
        client.lock("candidate")


def test_a_log_begins_with_the_test(shared, server):
    server.connect().close_session()
    assert shared.clean_up() == ""
    assert "closed by the client" in server.log
    assert shared.lend().log == ""


def a_session(stack, server):
    stack.enter_context(server.connect())


def a_lock(stack, _server):
    connection = stack.enter_context(sysrepo.SysrepoConnection())
    stack.enter_context(connection.start_session("startup")).lock()


def a_subscription(stack, _server):
    connection = stack.enter_context(sysrepo.SysrepoConnection())
    session = stack.enter_context(connection.start_session())
    session.subscribe_module_change("ietf-interfaces", None, lambda _1, _2, _3, _4: None)


def a_confirmed_commit(stack, server):
    with server.connect() as client:
        edit(client, described("tsn-test-1", "one"))
        client.commit(confirmed=True, timeout="600", persist="left")
    stack.callback(cancel, server)


def cancel(server):
    with server.connect() as client:
        client.cancel_commit(persist_id="left")


def a_server_that_has_ended(stack, server):
    server.stop()
    stack.callback(server.start)


@pytest.mark.usefixtures("hurry")
@pytest.mark.parametrize(
    ("leave", "named"),
    [
        (a_session, "<session>"),
        (a_lock, "lock>"),
        (a_subscription, "change-sub>"),
        (a_confirmed_commit, "confirmed-commit.xml"),
        (a_server_that_has_ended, "it was stopped or has crashed"),
    ],
)
def test_what_a_test_must_end_itself_is_reported(shared, server, leave, named):
    with ExitStack() as stack:
        leave(stack, server)
        assert named in shared.clean_up()


def test_after_its_end_the_next_test_gets_a_new_server(shared, server):
    pid = server.pid
    shared.end()
    assert shared.lend().pid != pid
    assert shared.clean_up() == ""


def test_a_test_with_a_sysrepo_of_its_own_ends_what_the_others_share(shared, server, sysrepo_place):
    shared.lend()
    with sysrepo_place.fresh(shared.template):
        assert not server.alive
    assert shared.lend().alive


def test_there_is_no_shared_server_beside_a_sysrepo_of_its_own(shared, sysrepo_place):
    shared.end()
    with (
        sysrepo_place.fresh(shared.template),
        pytest.raises(AssertionError, match="of its own already"),
    ):
        shared.lend()
