"""Each kind of host key proves the server to OpenSSH, paramiko and asyncssh; none with SHA-1."""

from __future__ import annotations

import asyncio
import base64
import logging
import os
import re
import socket
import struct
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import asyncssh
import paramiko
import pytest
from asyncssh.rsa import RSAKey

from cnc.switch.identity import login_keys
from cnc.switch.jump import Way
from cnc.switch.transport import open_session
from tests.stack.front_end import REPLY_TIMEOUT_S
from tests.stack.netconfd_process import NetconfdProcess
from tests.stack.test_netconfd_access import CLOSE, END, HELLO_1_0

RSA_SIGNATURES = ("rsa-sha2-256", "rsa-sha2-512")
# The type of a key to the signatures that it makes (RFC 8332, RFC 5656, RFC 8709).
SIGNATURES = {
    "ssh-ed25519": ("ssh-ed25519",),
    "ssh-rsa": RSA_SIGNATURES,
    **{f"ecdsa-sha2-nistp{bits}": (f"ecdsa-sha2-nistp{bits}",) for bits in (256, 384, 521)},
}
HYBRID_KEY_EXCHANGE = "mlkem768x25519-sha256"
# RFC 4253 section 12, RFC 5656 section 7.1
KEXINIT, KEX_ECDH_INIT, KEX_ECDH_REPLY = 20, 30, 31


@pytest.fixture
def server_with(sysrepo_repository, tmp_path):
    """A server whose host key is of a type: `server_with("ssh-rsa")`."""
    server = NetconfdProcess(tmp_path / "netconfd")

    def start(kind):
        key = asyncssh.generate_private_key(kind)
        key.write_private_key(str(server.host_key))
        server.host_key.chmod(0o600)
        key.write_public_key(str(server.host_key) + ".pub")
        server.start()
        assert server.host_key_type == kind
        return server

    yield start
    server.stop()


def openssh(server, signature):
    """A whole session by `ssh`, which takes a host key proved by this signature alone."""
    known_hosts = server.client_key.with_name("known_hosts")
    known_hosts.write_text(
        f"[{server.host}]:{server.port} {server.host_key_type} {server.host_key_b64}\n"
    )
    return subprocess.run(
        [
            *("ssh", "-F", "none", "-p", str(server.port), "-i", server.client_key),
            *("-o", "BatchMode=yes", "-o", "IdentitiesOnly=yes"),
            *("-o", f"UserKnownHostsFile={known_hosts}", "-o", "StrictHostKeyChecking=yes"),
            *("-o", f"HostKeyAlgorithms={signature}"),
            *("-l", server.username, "-s", server.host, "netconf"),
        ],
        input=HELLO_1_0 + CLOSE.encode() + END,
        capture_output=True,
        timeout=REPLY_TIMEOUT_S,
        check=False,
    )


def key_shown_to_paramiko(server, signature):
    with (
        socket.create_connection((server.host, server.port), REPLY_TIMEOUT_S) as connection,
        paramiko.Transport(connection) as transport,
    ):
        transport.get_security_options().key_types = [signature]
        transport.start_client(timeout=REPLY_TIMEOUT_S)
        return transport.get_remote_server_key().get_base64()


@pytest.mark.parametrize("kind", SIGNATURES)
def test_clients_know_the_server_by_a_host_key_of_this_kind(server_with, kind):
    server = server_with(kind)
    for signature in SIGNATURES[kind]:
        session = openssh(server, signature)
        assert b"<ok/>" in session.stdout, session.stderr
        assert key_shown_to_paramiko(server, signature) == server.host_key_b64

    async def log_in():
        async with await server.log_in(server_host_key_algs=SIGNATURES[kind]):
            pass

    asyncio.run(log_in())


def test_an_rsa_host_key_makes_no_sha_1_signature(server_with):
    server = server_with("ssh-rsa")
    refused = openssh(server, "ssh-rsa")
    assert refused.returncode == 255
    assert b"no matching host key type" in refused.stderr
    with KeyExchange(server, "rsa-sha2-512") as exchange:
        assert sorted(exchange.offered) == sorted(RSA_SIGNATURES)


def test_each_client_has_the_signature_it_chose_whatever_another_chooses(server_with):
    server = server_with("ssh-rsa")
    for mine, other in (RSA_SIGNATURES, RSA_SIGNATURES[::-1]):
        with KeyExchange(server, mine) as exchange:
            assert key_shown_to_paramiko(server, other)
            assert exchange.signature() == mine


def controller(server):
    """A session of `cnc`, which knows the server's host key."""
    key = paramiko.PKey.from_type_string(
        server.host_key_type, base64.b64decode(server.host_key_b64)
    )
    return open_session(
        way=Way(server.host),
        port=server.port,
        user=server.username,
        keys=login_keys(Path(server.client_key)),
        host_keys=[key],
        timeout_s=REPLY_TIMEOUT_S,
    )


@pytest.mark.parametrize("kind", SIGNATURES)
def test_the_controller_agrees_on_a_hybrid_key_exchange_and_the_strongest_signature(
    server_with, kind, caplog
):
    server = server_with(kind)
    with caplog.at_level(logging.DEBUG, "paramiko.transport"), controller(server) as session:
        assert session._session.transport.host_key_type == SIGNATURES[kind][-1]
    # paramiko keeps no name of it afterwards.
    agreed = re.findall(r"^Kex: (\S+)$", "\n".join(caplog.messages), re.MULTILINE)
    assert agreed == [HYBRID_KEY_EXCHANGE]


def test_asyncssh_agrees_on_a_hybrid_key_exchange(server_with):
    server = server_with("ssh-ed25519")
    with KeyExchange(server, "ssh-ed25519") as exchange:
        assert exchange.offered_key_exchanges[0] == HYBRID_KEY_EXCHANGE

    async def agrees():
        async with await server.log_in(kex_algs=[HYBRID_KEY_EXCHANGE]):
            pass

    asyncio.run(agrees())


def is_sha_1(algorithm):
    return algorithm in {"ssh-rsa", "ssh-dss"} or "sha1" in algorithm or "ssh-rsa-" in algorithm


def test_the_server_offers_no_sha_1(server_with):
    server = server_with("ssh-rsa")
    with KeyExchange(server, "rsa-sha2-512") as exchange:
        assert [*filter(is_sha_1, exchange.offered_key_exchanges + exchange.offered)] == []
    with controller(server) as session:
        signatures = session._session.transport.server_extensions["server-sig-algs"]
    assert b"rsa-sha2-512" in signatures.split(b",")
    assert [*filter(is_sha_1, signatures.decode().split(","))] == []


def test_the_controller_offers_no_sha_1(tmp_path):
    rsa = asyncssh.generate_private_key("ssh-rsa")
    rsa.write_private_key(str(tmp_path / "key"))
    with socket.create_server(("127.0.0.1", 0)) as listening, ThreadPoolExecutor() as pool:
        session = pool.submit(
            open_session,
            way=Way("127.0.0.1"),
            port=listening.getsockname()[1],
            user="operator",
            keys=login_keys(tmp_path / "key"),
            host_keys=[paramiko.PKey.from_type_string("ssh-rsa", rsa.public_data)],
            timeout_s=REPLY_TIMEOUT_S,
        )
        connection, _ = listening.accept()
        with connection, connection.makefile("rb") as stream:
            connection.sendall(b"SSH-2.0-test\r\n")
            stream.readline()
            key_exchanges, signatures = offered(packet(stream))
        with pytest.raises((paramiko.SSHException, OSError, EOFError)):
            session.result()
    assert key_exchanges[0] == HYBRID_KEY_EXCHANGE
    assert set(RSA_SIGNATURES) <= set(signatures)
    assert [*filter(is_sha_1, key_exchanges + signatures)] == []


@pytest.mark.parametrize(("signature", "is_let_in"), [("rsa-sha2-256", True), ("ssh-rsa", False)])
def test_a_user_who_signs_with_sha_1_is_not_let_in(server_with, monkeypatch, signature, is_let_in):
    server = server_with("ssh-ed25519")
    key = asyncssh.generate_private_key("ssh-rsa")
    server.authorized_keys.write_bytes(key.export_public_key())
    # The client's process may have imported the server, which knows no such signature.
    monkeypatch.setattr(RSAKey, "all_sig_algorithms", {signature.encode()})
    (pair,) = asyncssh.load_keypairs([key])
    pair.sig_algorithms = [signature.encode()]
    pair.sig_algorithm = signature.encode()

    async def log_in():
        async with await server.log_in(client_keys=[pair], signature_algs=[signature]):
            pass

    if is_let_in:
        asyncio.run(log_in())
    else:
        with pytest.raises(asyncssh.PermissionDenied):
            asyncio.run(log_in())


def test_a_host_key_of_another_kind_is_refused_with_the_remedy(server_with):
    with pytest.raises(
        AssertionError, match=r"cannot serve: .*host_key is ssh-ed448.*move it away"
    ):
        server_with("ssh-ed448")


class KeyExchange:
    """A client that has agreed on algorithms, and waits with its part of the key exchange."""

    def __init__(self, server, signature):
        self._socket = socket.create_connection((server.host, server.port), REPLY_TIMEOUT_S)
        self._stream = self._socket.makefile("rb")
        self._socket.sendall(b"SSH-2.0-test\r\n")
        assert self._stream.readline().startswith(b"SSH-2.0-")
        # No algorithm for the other direction may be missing, languages may.
        lists = [b"curve25519-sha256", signature.encode()]
        lists += [each for each in (b"aes128-ctr", b"hmac-sha2-256", b"none") for _ in "io"]
        packed = b"".join(string(each) for each in [*lists, b"", b""])
        self._send(bytes([KEXINIT]) + os.urandom(16) + packed + bytes(5))
        self.offered_key_exchanges, self.offered = offered(self._receive(KEXINIT))

    def signature(self):
        """The name of the signature that the server makes."""
        self._send(bytes([KEX_ECDH_INIT]) + string(bytes([9]) + bytes(31)))
        (_, _, signed), _ = strings(self._receive(KEX_ECDH_REPLY), 3)
        (name, _), _ = strings(signed, 2)
        return name.decode()

    def _send(self, payload):
        padding = 8 - (len(payload) + 5) % 8 + 8
        length = struct.pack(">IB", len(payload) + padding + 1, padding)
        self._socket.sendall(length + payload + bytes(padding))

    def _receive(self, kind):
        return packet(self._stream, kind)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._stream.close()
        self._socket.close()


def packet(stream, kind=KEXINIT):
    """The content of the next message, which is of this kind."""
    length, padding = struct.unpack(">IB", stream.read(5))
    payload = stream.read(length - 1)
    assert payload[0] == kind
    return payload[1 : len(payload) - padding]


def offered(kexinit):
    """The key exchanges and the host key algorithms of such a message (RFC 4253 section 7.1)."""
    lists, _ = strings(kexinit[16:], 2)
    return [each.decode().split(",") for each in lists]


def string(octets):
    """RFC 4251 section 5."""
    return struct.pack(">I", len(octets)) + octets


def strings(octets, count):
    """The first strings, and what follows them."""
    found = []
    for _ in range(count):
        (length,) = struct.unpack_from(">I", octets)
        found.append(octets[4 : 4 + length])
        octets = octets[4 + length :]
    return found, octets
