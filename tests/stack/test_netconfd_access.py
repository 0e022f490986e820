"""Who gets in, and how a session that breaks the rules ends."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import subprocess

import asyncssh
import pytest
import sysrepo
from ncclient.transport.errors import AuthenticationError, SSHError

from agent.netconfd.session.framing import encode
from tests.stack.conftest import CHECKOUT
from tests.stack.front_end import REPLY_TIMEOUT_S
from tests.stack.netconfd_process import NetconfdProcess, wait_until
from tests.stack.repository import SHARED_MEMORY

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


def said_until_the_end(server, *sent, **login):
    """What the server says after its hello, until it ends the session itself."""

    async def talk():
        connection, reader, writer = await server.connect_raw(**login)
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


def test_the_host_key_is_private_and_survives_a_restart(netconfd):
    assert netconfd.host_key.stat().st_mode & 0o777 == 0o600
    before = netconfd.host_key.read_bytes()
    netconfd.stop()
    netconfd.start()
    assert netconfd.host_key.read_bytes() == before
    netconfd.connect().close_session()


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


def test_a_session_is_in_the_log_from_open_to_end(shared_netconfd):
    with shared_netconfd.connect() as client:
        name = f"session {client.session_id} operator@127.0.0.1"
        assert f"{name} opened" in shared_netconfd.log
    assert wait_until(lambda: f"{name} ends: closed by the client" in shared_netconfd.log)


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
        ([HELLO_1_1, b"\n#4294967295\n"], "longer than 4194304 octets"),
        ([HELLO_1_1, b"\n#0\n"], "chunk size b'0'"),
    ],
)
def test_a_session_without_a_common_language_ends(shared_netconfd, sent, reason):
    assert said_until_the_end(shared_netconfd, *sent) == b""
    assert wait_until(lambda: reason in shared_netconfd.log), shared_netconfd.log
    shared_netconfd.connect().close_session()


@pytest.mark.parametrize("mode", [0o640, 0o604])
def test_a_host_key_that_others_may_read_is_refused_with_the_remedy(netconfd, mode):
    netconfd.stop()
    netconfd.host_key.chmod(mode)
    with pytest.raises(AssertionError, match=rf"cannot serve: .*mode {mode:o}.*chmod 600"):
        netconfd.start()
    netconfd.host_key.chmod(0o600)
    netconfd.start()


def uninstall_module_of_server():
    with sysrepo.SysrepoConnection() as connection:
        for datastore in ("running", "startup"):
            with connection.start_session(datastore) as session:
                # its rules name the module
                session.delete_item("/ietf-netconf-acm:nacm")
                session.apply_changes()
    subprocess.run(["sysrepoctl", "--uninstall", "tsn-netconf-server"], check=True)


def test_without_the_servers_own_module_it_says_what_to_install(netconfd, sysrepo_repository):
    netconfd.stop()
    uninstall_module_of_server()
    with pytest.raises(AssertionError, match=r"no module tsn-netconf-server: run yang/install"):
        netconfd.start()
    subprocess.run([CHECKOUT / "yang" / "install"], check=True)
    netconfd.start()
    netconfd.connect().close_session()


def test_with_an_earlier_revision_of_its_module_it_says_what_to_install(
    netconfd, sysrepo_repository, tmp_path
):
    netconfd.stop()
    uninstall_module_of_server()
    text = (CHECKOUT / "yang" / "tsn-netconf-server.yang").read_text()
    for newer in (r"  revision .*?\n  }\n", r"      leaf max-request-cpu \{.*?\n      }\n"):
        text = re.sub(newer, "", text, count=1, flags=re.DOTALL)
    module = tmp_path / "tsn-netconf-server.yang"
    module.write_text(text)
    directories = f"{CHECKOUT / 'yang' / 'standard'}"
    subprocess.run(["sysrepoctl", "--install", module, "--search-dirs", directories], check=True)
    with pytest.raises(
        AssertionError, match=r"earlier revision .* without 'max-request-cpu': run yang/install"
    ):
        netconfd.start()
    subprocess.run([CHECKOUT / "yang" / "install"], check=True)
    netconfd.start()
    netconfd.connect().close_session()


@pytest.mark.parametrize(
    ("module", "content"), [("ietf-interfaces", b""), ("ietf-netconf-acm", b"\x07{]")]
)
def test_no_start_with_an_unreadable_running_datastore_but_its_file_and_a_remedy(
    netconfd, sysrepo_repository, module, content
):
    netconfd.stop()
    whole = sysrepo_repository.path / "data" / f"{module}.startup"
    broken = SHARED_MEMORY / f"{sysrepo_repository.shm_prefix}_{module}.running"
    broken.write_bytes(content)
    with pytest.raises(AssertionError) as refusal:
        netconfd.start()
    log = str(refusal.value)
    assert f"cannot serve: the datastore running is unreadable: {broken}: " in log
    assert "\x07" not in log, "what a broken file holds does not reach the terminal"
    assert f"cp {whole} {broken}" in log
    assert netconfd.wait() == 1
    subprocess.run(["cp", whole, broken], check=True)
    netconfd.start()
    netconfd.connect().close_session()


@pytest.fixture
def with_user_keys(sysrepo_repository, tmp_path):
    """A server whose keys belong to users: `keys/operator` holds the operator's."""
    server = NetconfdProcess(tmp_path / "netconfd")
    keys = tmp_path / "keys"
    keys.mkdir()
    server.authorized_keys.rename(keys / "operator")
    server.authorized_keys = keys / "%u"
    server.start()
    yield server
    server.stop()


def opens(server, **options):
    """Whether this login succeeds."""
    try:
        server.connect(**options).close_session()
    except AuthenticationError:
        return False
    return True


def test_a_key_is_good_for_its_own_user_only(with_user_keys):
    assert opens(with_user_keys)
    assert not opens(with_user_keys, username="observer")
    assert not opens(with_user_keys, username="root")


@pytest.mark.parametrize("name", ["../keys/operator", "./operator", "operator/", "", "ope\nrator"])
def test_a_user_name_is_no_way_to_another_users_file(with_user_keys, name):
    assert not opens(with_user_keys, username=name)


def test_keys_come_and_go_without_a_restart(with_user_keys, tmp_path):
    keys = tmp_path / "keys"
    (keys / "observer").write_text(
        "# none of these lines is a key\n\nnonsense\n" + (keys / "operator").read_text()
    )
    assert opens(with_user_keys, username="observer")
    (keys / "observer").unlink()
    assert not opens(with_user_keys, username="observer")


def test_a_key_with_an_option_that_is_not_understood_opens_nothing(with_user_keys, tmp_path):
    file = tmp_path / "keys" / "operator"
    key = file.read_text()
    for options in ("verify-required", 'expiry-time="20200101"'):
        file.write_text(f"{options} {key}")
        assert not opens(with_user_keys)
        assert f"{file}:1: key refused" in with_user_keys.log
    file.write_text(f'restrict,from="127.0.0.0/8",expiry-time="20990101Z" {key}')
    assert opens(with_user_keys)


@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_a_key_file_that_others_may_write_opens_nothing(with_user_keys, tmp_path, mode):
    file = tmp_path / "keys" / "operator"
    file.chmod(mode)
    assert not opens(with_user_keys)
    assert "chmod go-w" in with_user_keys.log
    file.chmod(0o644)
    assert opens(with_user_keys)


def test_a_key_directory_that_others_may_write_opens_nothing(with_user_keys, tmp_path):
    (tmp_path / "keys").chmod(0o777)
    assert not opens(with_user_keys)


def test_a_key_file_that_never_ends_opens_nothing(with_user_keys, tmp_path):
    (tmp_path / "keys" / "observer").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "keys" / "fifo")
    assert not opens(with_user_keys, username="observer")
    assert not opens(with_user_keys, username="fifo")
    assert opens(with_user_keys)


def test_only_modern_algorithms_are_offered(server):
    with socket.create_connection(("127.0.0.1", server.port), REPLY_TIMEOUT_S) as connection:
        connection.sendall(b"SSH-2.0-test\r\n")
        greeting = b""
        while b"ssh-ed25519" not in greeting:
            greeting += connection.recv(65_536)
    offered = greeting.decode(errors="replace")
    assert "curve25519-sha256" in offered
    for old in ("sha1", "-cbc", "md5", "arcfour", "group1-", "group14-", "ssh-dss", "zlib"):
        assert old not in offered
