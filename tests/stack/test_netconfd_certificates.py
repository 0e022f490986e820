"""Users who log in with a certificate (OpenSSH's PROTOCOL.certkeys) of a `cert-authority`."""

from __future__ import annotations

import asyncio

import asyncssh
import pytest
from asyncssh.rsa import RSAKey

from tests.stack.front_end import REPLY_TIMEOUT_S
from tests.stack.netconfd_process import NetconfdProcess
from tests.stack.test_netconfd_access import END

USER = "operator"


@pytest.fixture(scope="module")
def user_key():
    return asyncssh.generate_private_key("ssh-ed25519")


@pytest.fixture(scope="module")
def authority():
    return asyncssh.generate_private_key("ssh-ed25519")


@pytest.fixture
def own_netconfd(sysrepo_repository, tmp_path):
    """A server whose file of keys is the test's."""
    server = NetconfdProcess(tmp_path / "netconfd")
    server.start()
    yield server
    server.stop()


def trust(server, authority, options="cert-authority"):
    key = authority.export_public_key().decode()
    server.authorized_keys.write_text(f"{options} {key}")


def opens(server, user_key, certificate):
    """Whether a NETCONF session opens with it."""

    async def session():
        connection, reader, _ = await server.connect_raw(client_keys=[(user_key, certificate)])
        async with asyncio.timeout(REPLY_TIMEOUT_S), connection:
            return (await reader.readuntil(END)).endswith(END)

    try:
        return asyncio.run(session())
    except (asyncssh.PermissionDenied, asyncio.IncompleteReadError):
        return False


def signed(authority, user_key, **options):
    return authority.generate_user_certificate(
        user_key, "test", **({"principals": [USER]} | options)
    )


def test_a_certificate_opens_for_whom_when_and_where_it_says(own_netconfd, authority, user_key):
    trust(own_netconfd, authority)
    assert opens(own_netconfd, user_key, signed(authority, user_key))
    assert opens(own_netconfd, user_key, signed(authority, user_key, valid_before="+1h"))
    assert opens(
        own_netconfd, user_key, signed(authority, user_key, source_address=["127.0.0.0/8"])
    )
    stranger = asyncssh.generate_private_key("ssh-ed25519")
    refused = {
        "nobody's": signed(authority, user_key, principals=[]),
        "another user's": signed(authority, user_key, principals=["observer"]),
        "another authority's": signed(stranger, user_key),
        "no longer valid": signed(authority, user_key, valid_after=1, valid_before=2),
        "not yet valid": signed(authority, user_key, valid_after="+1h", valid_before="+2h"),
        "for another place": signed(authority, user_key, source_address=["192.0.2.0/24"]),
        "for another command": signed(authority, user_key, force_command="true"),
        "a host's": authority.generate_host_certificate(user_key, "test", principals=[USER]),
    }
    for reason, certificate in refused.items():
        assert not opens(own_netconfd, user_key, certificate), reason


def test_an_authority_may_be_restricted_to_principals(own_netconfd, authority, user_key):
    trust(own_netconfd, authority, 'cert-authority,principals="shift-1,shift-2"')
    assert opens(own_netconfd, user_key, signed(authority, user_key, principals=["shift-2"]))
    assert not opens(own_netconfd, user_key, signed(authority, user_key, principals=["shift-3"]))
    assert not opens(own_netconfd, user_key, signed(authority, user_key, principals=[USER]))
    trust(own_netconfd, authority, 'cert-authority,principals="shift-*"')
    assert not opens(own_netconfd, user_key, signed(authority, user_key, principals=["shift-2"]))
    assert "principals are names" in own_netconfd.log


def test_an_authority_expires(own_netconfd, authority, user_key):
    trust(own_netconfd, authority, 'cert-authority,expiry-time="20200101"')
    assert not opens(own_netconfd, user_key, signed(authority, user_key))
    assert 'expiry-time="20200101" is past' in own_netconfd.log


@pytest.mark.parametrize(("signature", "is_let_in"), [("rsa-sha2-512", True), ("ssh-rsa", False)])
def test_a_certificate_that_its_authority_signed_with_sha_1_opens_nothing(
    own_netconfd, user_key, monkeypatch, signature, is_let_in
):
    authority = asyncssh.generate_private_key("ssh-rsa")
    trust(own_netconfd, authority)
    # The test's process may have imported the server, which knows no such signature.
    monkeypatch.setattr(RSAKey, "all_sig_algorithms", {signature.encode()})
    certificate = signed(authority, user_key, sig_alg=signature)
    assert signature.encode() in certificate.public_data
    assert opens(own_netconfd, user_key, certificate) is is_let_in
