"""The server with host keys of each kind, met by the controller and by the tests' own client.

Ed25519 is what it makes for itself, so every other test has that.
"""

from __future__ import annotations

import asyncssh
import pytest

from cnc.model import Management
from cnc.switch import ConnectOptions
from cnc.switch.device import Device, HostKeyRefused, Managed
from tests.stack.netconfd_process import NetconfdProcess


@pytest.fixture(params=["ecdsa-sha2-nistp256", "ssh-rsa"])
def keyed(request, sysrepo_repository, tmp_path):
    """A server that an operator gave a host key."""
    server = NetconfdProcess(tmp_path / "netconfd")
    key = asyncssh.generate_private_key(request.param)
    key.write_private_key(str(server.host_key))
    server.host_key.chmod(0o600)
    key.write_public_key(str(server.host_key.with_suffix(".pub")))
    server.start()
    yield server
    server.stop()


def test_a_host_key_of_any_kind_proves_the_server_and_another_one_does_not(keyed, tmp_path):
    switch = Managed("s1", Management("127.0.0.1", keyed.port, keyed.username))
    connect = ConnectOptions(keyed.client_key, tmp_path / "known_hosts")
    host = f"[127.0.0.1]:{keyed.port}"
    connect.known_hosts.write_text(f"{host} {keyed.host_key_type} {keyed.host_key_b64}\n")
    with Device(switch, connect) as device:
        assert "ietf-interfaces" in device.server().modules
    with keyed.connect() as client:
        assert client.connected
    other = asyncssh.generate_private_key(keyed.host_key_type).export_public_key().decode()
    connect.known_hosts.write_text(f"{host} {other}")
    with pytest.raises(HostKeyRefused, match=r"the host key of .* differs from"):
        Device(switch, connect)
