"""NETCONF over SSH (RFC 6242): who may connect, and the bytes of those who did."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import asyncssh

SUBSYSTEM = "netconf"
LOGIN_TIMEOUT_S = 15
READ_OCTETS = 65_536

_ALGORITHMS = {
    "kex_algs": [
        "mlkem768x25519-sha256",
        "curve25519-sha256",
        "curve25519-sha256@libssh.org",
        "ecdh-sha2-nistp256",
        "ecdh-sha2-nistp384",
    ],
    "encryption_algs": [
        "chacha20-poly1305@openssh.com",
        "aes256-gcm@openssh.com",
        "aes128-gcm@openssh.com",
        "aes256-ctr",
        "aes128-ctr",
    ],
    "mac_algs": [
        "hmac-sha2-256-etm@openssh.com",
        "hmac-sha2-512-etm@openssh.com",
        "hmac-sha2-256",
        "hmac-sha2-512",
    ],
    "signature_algs": [
        "ssh-ed25519",
        "ecdsa-sha2-nistp256",
        "ecdsa-sha2-nistp384",
        "rsa-sha2-256",
        "rsa-sha2-512",
    ],
    "compression_algs": None,
}


class SshTransport:
    """One open `netconf` subsystem."""

    def __init__(self, process: Any) -> None:
        self._process = process
        self.user = str(process.get_extra_info("username"))
        self.peer = str(process.get_extra_info("peername")[0])

    async def read(self) -> bytes:
        """The next bytes, b"" at the end."""
        try:
            return bytes(await self._process.stdin.read(READ_OCTETS))
        except (OSError, asyncssh.Error, asyncssh.BreakReceived, asyncssh.SignalReceived):
            return b""

    async def write(self, data: bytes) -> None:
        """Send; returns when the client is ready for more."""
        try:
            self._process.stdout.write(data)
            await self._process.stdout.drain()
        except (OSError, asyncssh.Error):
            # The next read reports the end.
            return

    def close(self) -> None:
        """End the whole connection: the client must not open another subsystem on it."""
        self._process.channel.get_connection().close()


async def listen(
    host: str,
    port: int,
    *,
    host_key: Path,
    authorized_keys: Path,
    serve: Callable[[SshTransport], Awaitable[None]],
) -> Any:
    """Accept SSH connections and hand each `netconf` subsystem to `serve`.

    Whoever owns a key in `authorized_keys` may log in, under any user name. Raises OSError, or
    asyncssh.Error for unusable keys.
    """

    async def start(process: Any) -> None:
        if process.subsystem != SUBSYSTEM:
            process.exit(1)
            return
        await serve(SshTransport(process))
        process.exit(0)

    return await asyncssh.listen(
        host,
        port,
        server_host_keys=[load_or_create_host_key(host_key)],
        authorized_client_keys=asyncssh.read_authorized_keys(str(authorized_keys)),
        process_factory=start,
        encoding=None,
        password_auth=False,
        kbdint_auth=False,
        host_based_auth=False,
        gss_host=None,
        allow_pty=False,
        agent_forwarding=False,
        login_timeout=LOGIN_TIMEOUT_S,
        keepalive_interval=30,
        **_ALGORITHMS,
    )


def load_or_create_host_key(path: Path) -> Any:
    """The server's private key; a first start makes an Ed25519 one that only root can read."""
    try:
        return asyncssh.read_private_key(str(path))
    except FileNotFoundError:
        key = asyncssh.generate_private_key("ssh-ed25519")
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(key.export_private_key())
    key.write_public_key(str(path) + ".pub")
    return key
