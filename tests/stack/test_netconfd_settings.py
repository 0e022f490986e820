"""The server's own configuration, tsn-netconf-server, and passwords through PAM."""

from __future__ import annotations

import asyncio

import asyncssh
import pytest
from ncclient.operations import RPCError
from ncclient.transport.errors import AuthenticationError

from tests.stack.netconfd_process import NetconfdProcess, wait_until

BASE = "urn:ietf:params:xml:ns:netconf:base:1.0"
SERVER = "urn:tsn-control-plane:yang:tsn-netconf-server"
PASSWORD = "correct horse"  # noqa: S105


def edit(client, content):
    client.edit_config(
        target="candidate",
        config=f'<config xmlns="{BASE}" xmlns:nc="{BASE}">'
        f'<netconf-server xmlns="{SERVER}">{content}</netconf-server></config>',
    )
    client.commit()


def opens(server, **options):
    try:
        server.connect(**options).close_session()
    except AuthenticationError:
        return False
    return True


@pytest.mark.parametrize("algorithm", ["ssh-ed25519", "ecdsa-sha2-nistp256", "ssh-rsa"])
def test_a_key_in_the_configuration_opens_for_its_user_until_it_is_deleted(
    shared_netconfd, algorithm
):
    key = asyncssh.generate_private_key(algorithm)
    _, key_data = key.export_public_key().decode().split()[:2]

    def admits(user):
        async def log_in():
            # paramiko cannot load some ECDSA keys
            (await shared_netconfd.log_in(username=user, client_keys=[key])).close()

        try:
            asyncio.run(log_in())
        except asyncssh.PermissionDenied:
            return False
        return True

    assert not admits("maria")
    with shared_netconfd.connect() as operator:
        edit(
            operator,
            "<users><user><name>maria</name><authorized-key><name>laptop</name>"
            f"<algorithm>{algorithm}</algorithm><key-data>{key_data}</key-data>"
            "</authorized-key></user></users>",
        )
        assert wait_until(lambda: admits("maria"))
        assert not admits("operator")
        edit(operator, '<users><user nc:operation="delete"><name>maria</name></user></users>')
        assert wait_until(lambda: not admits("maria"))


@pytest.mark.parametrize(
    "content",
    [
        "<limits><max-sessions>0</max-sessions></limits>",
        "<limits><max-message>1000</max-message></limits>",
        "<users><user><name>../root</name></user></users>",
        "<users><user><name>a</name><authorized-key><name>k</name></authorized-key></user></users>",
    ],
)
def test_settings_that_make_no_sense_are_refused(shared_netconfd, content):
    with shared_netconfd.connect() as operator, pytest.raises(RPCError):
        edit(operator, content)


@pytest.fixture
def with_pam(sysrepo_repository, tmp_path):
    """A server that sees a PAM configuration of its own, in which one password is right."""
    services = tmp_path / "pam.d"
    services.mkdir()
    check = tmp_path / "check"
    check.write_text(f'#!/bin/sh\ngiven=$(tr -d "\\0")\n[ "$given" = "{PASSWORD}" ]\n')
    check.chmod(0o755)
    exec_module = f"pam_exec.so quiet expose_authtok {check}"
    (services / "tsn-test").write_text(
        f"auth requisite {exec_module}\n"
        "auth required pam_permit.so\n"
        "account required pam_permit.so\n"
    )
    server = NetconfdProcess(tmp_path / "netconfd")
    server.wrapper = [
        *("unshare", "--mount", "--propagation", "private", "sh", "-c"),
        f'mount --bind "{services}" /etc/pam.d && exec "$@"',
        "sh",
    ]
    server.arguments = ["--pam", "tsn-test"]
    server.start()
    yield server
    server.stop()


def test_pam_decides_which_password_opens(with_pam):
    by_password = {"key_filename": None, "password": PASSWORD}
    assert opens(with_pam, **by_password)
    assert not opens(with_pam, **by_password | {"password": "wrong"})
    assert "PAM service tsn-test does not admit operator" in with_pam.log
    assert "wrong" not in with_pam.log
    # keys go on working
    assert opens(with_pam)


def test_a_guesser_of_passwords_is_hung_up_on(with_pam):
    async def guess():
        tries = iter(["1", "2", "3", "4", "5", "6"])

        class Guesser(asyncssh.SSHClient):
            def password_auth_requested(self):
                return next(tries, None)

        with pytest.raises((asyncssh.Error, OSError)):
            await with_pam.log_in(client_factory=Guesser, client_keys=None, agent_path=None)
        return list(tries)

    assert asyncio.run(guess()) == ["4", "5", "6"]


def test_pam_without_its_library_is_refused_at_the_start(sysrepo_repository, tmp_path):
    (tmp_path / "pam.py").write_text("raise ImportError('no pam here')\n")
    server = NetconfdProcess(tmp_path / "netconfd")
    server.wrapper = ["env", f"PYTHONPATH={tmp_path}"]
    server.arguments = ["--pam", "login"]
    with pytest.raises(AssertionError, match=r"cannot serve: --pam needs .* python-pam"):
        server.start()
