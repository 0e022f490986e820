"""A switch behind other hosts: the controller goes by ssh_config, with the ssh of the system."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import asyncssh
import pytest

from cnc.model import Management
from cnc.switch import ConnectOptions
from cnc.switch.connection import DeviceError
from cnc.switch.device import Device, Managed

HOSTS = ("127.0.0.1", "127.0.0.2")  # of one jump host
ADDRESS = "192.0.2.7"  # of the switch, which nothing here has


class Jumps(asyncssh.SSHServer):
    """Lets its one user through to anywhere."""

    def __init__(self, through: list[str], *, is_open: bool) -> None:
        self.through, self.is_open = through, is_open

    def connection_requested(self, dest_host: str, dest_port: int, *_: object) -> bool:
        self.through.append(f"{dest_host}:{dest_port}")
        return self.is_open


@contextmanager
def jump_host(directory: Path, *, is_open: bool = True) -> Iterator[tuple[int, list[str]]]:
    """The port at which it answers at each of HOSTS, and where it was asked to lead to."""
    loop, through = asyncio.new_event_loop(), list[str]()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    host_key = asyncssh.generate_private_key("ssh-ed25519")
    user_key = asyncssh.generate_private_key("ssh-ed25519")
    directory.mkdir(exist_ok=True)
    user_key.write_private_key(str(directory / "id"))
    (directory / "id").chmod(0o600)
    user_key.write_public_key(str(directory / "authorized"))

    async def listen(host: str, port: int) -> asyncssh.SSHAcceptor:
        return await asyncssh.listen(
            host,
            port,
            server_factory=lambda: Jumps(through, is_open=is_open),
            server_host_keys=[host_key],
            authorized_client_keys=str(directory / "authorized"),
        )

    acceptors, port = [], 0
    for host in HOSTS:
        acceptors.append(asyncio.run_coroutine_threadsafe(listen(host, port), loop).result(20))
        port = acceptors[0].get_port()
    public = host_key.export_public_key().decode()
    known = (f"[{host}]:{port} {public}" for host in HOSTS)
    (directory / "known_hosts").write_text("".join(known))
    yield port, through
    for acceptor in acceptors:
        loop.call_soon_threadsafe(acceptor.close)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(20)


def ssh_config(directory: Path, port: int, hosts: Sequence[str] = HOSTS[:1]) -> Path:
    """What leads to the switch by these hosts, in this order."""
    jumps = ",".join(f"op@{host}:{port}" for host in hosts)
    file = directory / "config"
    file.write_text(
        f"Host {ADDRESS}\n  HostName 127.0.0.1\n  ProxyJump {jumps}\n"
        f"Host {' '.join(HOSTS)}\n  IdentityFile {directory}/id\n  IdentitiesOnly yes\n"
        f"  UserKnownHostsFile {directory}/known_hosts\n"
    )
    return file


def reached(netconfd, known_hosts: Path, config: Path) -> Device:
    """A session with the server as the switch at ADDRESS."""
    key = f"{netconfd.host_key_type} {netconfd.host_key_b64}"
    known_hosts.write_text(f"[{ADDRESS}]:{netconfd.port} {key}\n")
    switch = Managed("s1", Management(ADDRESS, netconfd.port, netconfd.username))
    return Device(switch, ConnectOptions(netconfd.client_key, known_hosts, 20.0, config))


def test_a_switch_is_reached_by_way_of_a_jump_host(netconfd, tmp_path):
    with jump_host(tmp_path) as (port, through):
        config = ssh_config(tmp_path, port)
        with reached(netconfd, tmp_path / "switches", config) as device:
            assert "ietf-interfaces" in device.server().modules
    assert through == [f"127.0.0.1:{netconfd.port}"]


def test_a_way_may_lead_by_several_hosts(netconfd, tmp_path):
    with jump_host(tmp_path) as (port, through):
        config = ssh_config(tmp_path, port, HOSTS)
        with reached(netconfd, tmp_path / "switches", config) as device:
            assert "ietf-interfaces" in device.server().modules
    assert through == [f"{HOSTS[1]}:{port}", f"127.0.0.1:{netconfd.port}"]


def test_a_jump_host_that_leads_no_further_is_named_with_what_ssh_says(netconfd, tmp_path):
    with (
        jump_host(tmp_path, is_open=False) as (port, _),
        pytest.raises(DeviceError) as refused,
    ):
        reached(netconfd, tmp_path / "switches", ssh_config(tmp_path, port))
    assert f"the way through op@127.0.0.1:{port}: " in refused.value.reason
    assert "open failed" in refused.value.reason


def test_a_jump_host_with_an_unknown_key_is_not_used(netconfd, tmp_path):
    with jump_host(tmp_path) as (port, through):
        (tmp_path / "known_hosts").write_text("")
        with pytest.raises(DeviceError, match="Host key verification failed"):
            reached(netconfd, tmp_path / "switches", ssh_config(tmp_path, port))
    assert through == []
