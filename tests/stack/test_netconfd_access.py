"""Who gets in, and how a session that breaks the rules ends."""

from __future__ import annotations

import asyncio

import asyncssh
import pytest
from ncclient.transport.errors import AuthenticationError, SSHError

from agent.netconfd.framing import encode
from tests.stack.netconfd_process import REPLY_TIMEOUT_S, running_netconfd, wait_until

BASE = "urn:ietf:params:xml:ns:netconf:base:1.0"
END = b"]]>]]>"


def hello(*capabilities, extra=""):
    listed = "".join(f"<capability>{each}</capability>" for each in capabilities)
    text = f'<hello xmlns="{BASE}"><capabilities>{listed}</capabilities>{extra}</hello>'
    return text.encode() + END


HELLO_1_0 = hello("urn:ietf:params:netconf:base:1.0")
HELLO_1_1 = hello("urn:ietf:params:netconf:base:1.1")
GET = (
    f'<rpc xmlns="{BASE}" message-id="1"><get-config><source><running/></source></get-config></rpc>'
)
CLOSE = f'<rpc xmlns="{BASE}" message-id="2"><close-session/></rpc>'


@pytest.fixture
def server(sysrepo_repository, tmp_path):
    with running_netconfd(tmp_path / "netconfd") as server:
        yield server


def said_until_the_end(server, *sent):
    """What the server says after its hello, until it ends the session itself."""

    async def talk():
        connection, reader, writer = await server.connect_raw()
        async with asyncio.timeout(REPLY_TIMEOUT_S), connection:
            await reader.readuntil(END)
            for each in sent:
                writer.write(each)
            return await reader.read()

    return asyncio.run(talk())


def test_a_client_refuses_a_server_with_another_host_key(server):
    other = asyncssh.generate_private_key("ssh-ed25519").export_public_key().decode().split()[1]
    with pytest.raises(SSHError):
        server.connect(hostkey_b64=other)


def test_the_host_key_is_private_and_survives_a_restart(server):
    assert server.host_key.stat().st_mode & 0o777 == 0o600
    before = server.host_key.read_bytes()
    server.stop()
    server.start()
    assert server.host_key.read_bytes() == before
    server.connect().close_session()


def test_a_password_opens_nothing(server):
    with pytest.raises(AuthenticationError):
        server.connect(key_filename=None, password="operator")  # noqa: S106


def test_a_key_that_is_not_authorized_opens_nothing(server, tmp_path):
    stranger = tmp_path / "stranger"
    asyncssh.generate_private_key("ssh-ed25519").write_private_key(str(stranger))
    with pytest.raises(AuthenticationError):
        server.connect(key_filename=str(stranger))


def test_ssh_gives_no_shell(server):
    async def run_a_command():
        connection, _, _ = await server.connect_raw()
        async with asyncio.timeout(REPLY_TIMEOUT_S), connection:
            return await connection.run("id")

    result = asyncio.run(run_a_command())
    assert (result.exit_status, result.stdout) == (1, "")


def test_a_session_is_in_the_log_from_open_to_end(server):
    with server.connect() as client:
        name = f"session {client.session_id} operator@127.0.0.1"
        assert f"{name} opened" in server.log
    assert wait_until(lambda: f"{name} ends: closed by the client" in server.log)


def test_the_client_chooses_the_framing_by_its_hello(server):
    old = said_until_the_end(server, HELLO_1_0, GET.encode() + END, CLOSE.encode() + END)
    assert old.count(END) == 2
    new = said_until_the_end(
        server, HELLO_1_1, *(encode(each.encode(), chunked=True) for each in (GET, CLOSE))
    )
    assert new.startswith(b"\n#")
    assert new.count(b"\n##\n") == 2


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        ([hello("urn:example:other")], "neither base:1.0 nor base:1.1"),
        (
            [hello("urn:ietf:params:netconf:base:1.1", extra="<session-id>4</session-id>")],
            "session-id",
        ),
        ([GET.encode() + END], "expected <hello>, found <rpc>"),
        ([b"SSH is fun" + END], "not well-formed"),
        ([HELLO_1_1, GET.encode() + END], "expected the start of a chunk"),
        ([HELLO_1_1, b"\n#4294967295\n"], "longer than 33554432 octets"),
        ([HELLO_1_1, b"\n#0\n"], "chunk size b'0'"),
    ],
)
def test_a_session_without_a_common_language_ends(server, sent, reason):
    assert said_until_the_end(server, *sent) == b""
    assert wait_until(lambda: reason in server.log), server.log
    server.connect().close_session()


def test_the_server_says_why_it_cannot_start(server, tmp_path):
    (tmp_path / "netconfd" / "authorized_keys").unlink()
    server.stop()
    with pytest.raises(AssertionError, match=r"cannot serve: .*authorized_keys"):
        server.start()
    asyncssh.read_private_key(str(server.client_key)).write_public_key(
        str(tmp_path / "netconfd" / "authorized_keys")
    )
    server.start()
