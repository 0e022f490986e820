"""Every client of `CLIENTS` does every operation of `OPERATIONS` on a real server, as it ships.

The table in `docs/operate/interoperability.md` is written from the same two lists: after a change,
`REGENERATE=1 pytest` writes it anew.
"""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import asyncssh
import pytest
from lxml import etree
from ncclient.transport.errors import SSHError

from tests.stack.clients.client import ALL, NOTIFICATION, Client, Refused
from tests.stack.clients.ncclient import Ncclient
from tests.stack.clients.netconf_client import NetconfClient
from tests.stack.clients.openssh import OpenSsh
from tests.stack.clients.yanglint import Yanglint
from tests.stack.front_end import BASE, INTERFACES, FrontEnd, clean_up
from tests.stack.netconfd_process import running_netconfd, wait_until
from tests.stack.repository import Repository

PAGE = Path(__file__).parents[2] / "docs/operate/interoperability.md"
SETTINGS = "urn:tsn-control-plane:yang:tsn-netconf-server"
SYSREPO_MONITORING = "http://www.sysrepo.org/yang/sysrepo-monitoring"
CLIENTS = (Ncclient, NetconfClient, OpenSsh)
# Rows whose replies yanglint reads.
JUDGED = ("get", "get-config, subtree filter", "get-schema", "get-data")
BEGIN, END = "<!-- table: begin -->\n", "<!-- table: end -->\n"


@pytest.fixture(scope="module")
def server(sysrepo_template, tmp_path_factory):
    """One server for all cells; each leaves it as found."""
    directory = tmp_path_factory.mktemp("interoperability")
    repository = Repository(directory / "repository", f"tsninterop{os.getpid()}x")
    shutil.copytree(sysrepo_template, repository.path)
    with pytest.MonkeyPatch.context() as environment:
        for name, value in repository.environment.items():
            environment.setenv(name, value)
        with running_netconfd(directory / "netconfd") as process:
            yield process
    repository.forget_shared_memory()


class Sessions:
    """Opens sessions of any client on one server, and closes them all."""

    def __init__(self, server: FrontEnd) -> None:
        self.server = server
        self._open: list[Client] = []

    def open(self, client_class, **options):
        return self.keep(client_class(self.server, **options))

    def keep(self, client):
        self._open.append(client)
        return client

    def close(self):
        for client in self._open:
            client.disconnect()


@pytest.fixture
def sessions(server):
    """After the test all are gone, and the server is as it was."""
    opened = Sessions(server)
    yield opened
    opened.close()
    clean_up(server)


def interface(description):
    return (
        f'<interfaces xmlns="{INTERFACES}"><interface><name>tsn-test-1</name>'
        f"<description>{description}</description>"
        '<type xmlns:ianaift="urn:ietf:params:xml:ns:yang:iana-if-type">'
        "ianaift:ethernetCsmacd</type></interface></interfaces>"
    )


def description(reply):
    return reply.findtext(f".//{{{INTERFACES}}}description")


def checks_the_host_key(sessions, client_class):
    sessions.open(client_class)
    with pytest.raises((SSHError, ConnectionError)):
        client_class(impostor(sessions.server))


def impostor(server):
    """The server as a client knows it that was told another host key."""
    other = asyncssh.generate_private_key("ssh-ed25519").export_public_key().decode().split()[1]
    return FrontEnd(
        server.host,
        server.port,
        server.username,
        server.client_key,
        server.host_key_type,
        other,
    )


def says_hello_in_base_1_0(sessions, client_class):
    client = sessions.open(client_class, base_1_0_only=True)
    assert "urn:ietf:params:netconf:base:1.0" in client.capabilities
    client.edit_config(interface("old"))
    assert description(client.get_config("candidate")) == "old"


def says_hello_in_base_1_1(sessions, client_class):
    client = sessions.open(client_class)
    assert "urn:ietf:params:netconf:base:1.1" in client.capabilities
    assert client.session_id > 0
    client.close_session()


def gets(sessions, client_class):
    client = committed(sessions, client_class)
    assert description(client.get(ALL)) == "one"


def gets_config(sessions, client_class):
    client = committed(sessions, client_class)
    chosen = "<interface><name>tsn-test-1</name></interface>"
    filter_ = f'<interfaces xmlns="{INTERFACES}">{chosen}</interfaces>'
    assert description(client.get_config("running", filter_)) == "one"
    filter_ = filter_.replace("tsn-test-1", "tsn-test-9")
    assert description(client.get_config("running", filter_)) is None


def gets_config_by_xpath(sessions, client_class):
    client = committed(sessions, client_class)
    path = "/x:interfaces/x:interface[x:name='tsn-test-{}']"
    for number, found in ((1, "one"), (9, None)):
        reply = client.get_config_by_xpath("running", path.format(number), "x", INTERFACES)
        assert description(reply) == found


def gets_defaults(sessions, client_class):
    client = committed(sessions, client_class)
    for mode, shown in (("explicit", None), ("report-all", "true")):
        reply = client.get_config_with_defaults("running", mode)
        assert reply.findtext(f".//{{{INTERFACES}}}enabled") == shown


def edits_config(sessions, client_class):
    client = sessions.open(client_class)
    client.edit_config(interface("one"))
    assert description(client.get_config("candidate")) == "one"
    with pytest.raises(Refused):
        client.edit_config('<nothing xmlns="urn:example:nothing"/>')


def validates(sessions, client_class):
    client = sessions.open(client_class)
    client.edit_config(interface("one"))
    client.validate()


def discards(sessions, client_class):
    client = sessions.open(client_class)
    client.edit_config(interface("one"))
    client.discard_changes()
    assert description(client.get_config("candidate")) is None


def commits(sessions, client_class):
    client = committed(sessions, client_class)
    assert description(client.get_config("running")) == "one"


def commits_and_cancels(sessions, client_class):
    client = committed(sessions, client_class)
    client.edit_config(interface("two"))
    client.commit_confirmed(persist="interop")
    assert description(client.get_config("running")) == "two"
    client.cancel_commit("interop")
    assert description(client.get_config("running")) == "one"


def locks(sessions, client_class):
    client, other = sessions.open(client_class), sessions.open(client_class)
    client.lock("running")
    with pytest.raises(Refused):
        other.lock("running")
    client.unlock("running")
    other.lock("running")


def copies_and_deletes(sessions, client_class):
    client = committed(sessions, client_class)
    client.copy_config("running", "startup")
    assert description(client.get_config("startup")) == "one"
    client.delete_config("startup")
    assert description(client.get_config("startup")) is None


def kills(sessions, client_class):
    client, victim = sessions.open(client_class), sessions.open(client_class)
    client.kill_session(victim.session_id)
    assert wait_until(lambda: victim.ended)


def gets_schema(sessions, client_class):
    client = sessions.open(client_class)
    assert "module ietf-interfaces" in client.get_schema("ietf-interfaces")
    with pytest.raises(Refused):
        client.get_schema("no-such-module")


def subscribes(sessions, client_class):
    client = sessions.open(client_class)
    client.create_subscription()
    other = committed(sessions, client_class)
    notification = client.next_notification()
    assert notification.tag == f"{{{NOTIFICATION}}}notification"
    assert notification.findtext(f"{{{NOTIFICATION}}}eventTime")
    other.close_session()


def gets_data(sessions, client_class):
    client = committed(sessions, client_class)
    assert description(client.get_data("running", ALL)) == "one"


def edits_data(sessions, client_class):
    client = sessions.open(client_class)
    client.edit_data(interface("one"))
    assert description(client.get_config("candidate")) == "one"


def is_called_home(sessions, client_class):
    """RFC 8071: the switch connects, and from then on the client is the client."""
    with socket.create_server((sessions.server.host, 0)) as free:
        port = free.getsockname()[1]
    address = f"<address>{sessions.server.host}</address><port>{port}</port>"
    operator = sessions.open(OpenSsh)
    set_clients_to_call(operator, f"<client><name>tsn-test</name>{address}</client>")
    try:
        client = sessions.keep(client_class.called_home(sessions.server, port))
        assert description(client.get_config("running")) is None
    finally:
        set_clients_to_call(operator, "")
    # Nobody to call any more: the switch hangs up, which a farewell of the client would cross.
    assert wait_until(lambda: client.ended)


def set_clients_to_call(operator, clients):
    operator.edit_config(
        f'<netconf-server xmlns="{SETTINGS}" xmlns:nc="{BASE}">'
        f'<call-home nc:operation="replace">{clients}</call-home></netconf-server>'
    )
    operator.commit()


def committed(sessions, client_class):
    """A session that has committed an interface with the description `one`."""
    client = sessions.open(client_class)
    client.edit_config(interface("one"))
    client.commit()
    return client


@dataclass(frozen=True)
class Operation:
    """A row of the table. A client that overrides all these methods has calls of its own."""

    scenario: Callable[[Sessions, type[Client]], None]
    methods: tuple[str, ...]


OPERATIONS = {
    "host key checked": Operation(checks_the_host_key, ("__init__",)),
    "hello, base:1.0 alone": Operation(says_hello_in_base_1_0, ("__init__",)),
    "hello, base:1.1": Operation(says_hello_in_base_1_1, ("__init__",)),
    "get": Operation(gets, ("get",)),
    "get-config, subtree filter": Operation(gets_config, ("get_config",)),
    "get-config, XPath filter": Operation(gets_config_by_xpath, ("get_config_by_xpath",)),
    "with-defaults": Operation(gets_defaults, ("get_config_with_defaults",)),
    "edit-config": Operation(edits_config, ("edit_config",)),
    "validate": Operation(validates, ("validate",)),
    "discard-changes": Operation(discards, ("discard_changes",)),
    "commit": Operation(commits, ("commit",)),
    "confirmed commit, cancel-commit": Operation(
        commits_and_cancels, ("commit_confirmed", "cancel_commit")
    ),
    "lock, unlock": Operation(locks, ("lock", "unlock")),
    "copy-config, delete-config": Operation(copies_and_deletes, ("copy_config", "delete_config")),
    "kill-session": Operation(kills, ("kill_session",)),
    "get-schema": Operation(gets_schema, ("get_schema",)),
    "create-subscription": Operation(subscribes, ("create_subscription",)),
    "get-data": Operation(gets_data, ("get_data",)),
    "edit-data": Operation(edits_data, ("edit_data",)),
    "call home": Operation(is_called_home, ("called_home",)),
}


CELLS = [
    pytest.param(client_class, name, id=f"{client_class.NAME}-{name}")
    for client_class in CLIENTS
    for name in OPERATIONS
    if name not in client_class.CANNOT
]


@pytest.mark.parametrize(("client_class", "operation"), CELLS)
def test_a_client_does(sessions, client_class, operation):
    OPERATIONS[operation].scenario(sessions, client_class)


def test_netconf_client_trusts_any_host_key(server):
    """Why its cell says no: it takes the key it should expect, and does not compare."""
    NetconfClient(impostor(server)).disconnect()


@pytest.fixture(scope="module")
def judge(server, tmp_path_factory):
    client = OpenSsh(server)
    yield Yanglint(client, tmp_path_factory.mktemp("modules"))
    client.disconnect()


def test_yanglint_compiles_every_module_the_server_hands_out(judge):
    assert "ieee802-dot1q-sched-bridge" in judge.names
    assert judge.complaints_about_modules() == ""


def test_yanglint_accepts_what_the_server_returns(judge, sessions):
    client = committed(sessions, OpenSsh)
    everything = client.rpc("<get/>")
    assert description(everything) == "one"
    # libyang 3.13 prints paths of this module with a prefix that it does not declare.
    (internal,) = everything.iter(f"{{{SYSREPO_MONITORING}}}sysrepo-state")
    internal.getparent().remove(internal)
    assert judge.complaints("get", everything) == ""
    assert judge.complaints("getconfig", client.get_config("running")) == ""
    assert judge.complaints("getconfig", client.get_data("running", ALL)) == ""


def test_yanglint_finds_what_does_not_belong(judge):
    """Or its silence above would prove nothing."""
    wrong = etree.fromstring(f"<data>{interface('one').replace('type', 'tipe')}</data>")
    assert "tipe" in judge.complaints("getconfig", wrong)


def table() -> str:
    """A line for each operation, a column for each client, and a note for each that cannot."""
    rows = [["operation", *(each.NAME for each in CLIENTS), "yanglint"]]
    rows.append(["---"] * len(rows[0]))
    notes: list[str] = []
    for name, operation in OPERATIONS.items():
        cells = []
        for client_class in CLIENTS:
            if name in client_class.CANNOT:
                notes.append(f"{client_class.NAME}: {client_class.CANNOT[name]}.")
                cells.append(f"no ({len(notes)})")
            else:
                cells.append("yes" if has_calls_for(client_class, operation) else "as XML")
        rows.append([name, *cells, "valid" if name in JUDGED else "-"])
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([*lines, "", *(f"{n}. {note}" for n, note in enumerate(notes, 1)), ""])


def has_calls_for(client_class, operation):
    return all(getattr(client_class, m) is not getattr(Client, m) for m in operation.methods)


def test_the_published_table_is_the_one_that_is_tested():
    """`REGENERATE=1 pytest` writes it anew."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    current = f"{before}{BEGIN}\n{table()}\n{END}{after}"
    if os.environ.get("REGENERATE"):
        PAGE.write_text(current, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == current
