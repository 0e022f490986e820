"""NETCONF over SSH (RFC 6242): connections from their first octet to the `netconf` subsystem."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Protocol

import asyncssh
from asyncssh.rsa import RSAKey

from agent.netconfd.front.host_key import key_pairs
from agent.netconfd.front.logins import Logins, is_user_name
from agent.netconfd.front.newcomers import Newcomers
from agent.netconfd.front.penalties import Offence, Penalties
from agent.netconfd.front.trusted_hosts import TrustedHosts
from agent.netconfd.garbage import Garbage
from agent.netconfd.limits import Client, Limits

LOG = logging.getLogger(__name__)

SUBSYSTEM = "netconf"
READ_OCTETS = 65_536
# What a client may send before it is read, for each channel, by SSH's flow control.
WINDOW_OCTETS = 262_144
MAX_CHANNELS = 16
MAX_WRONG_PASSWORDS = 3
# Unanswered in a row: one lost packet must not end a connection.
KEEPALIVES = 3

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
# asyncssh verifies whatever signature a client or an authority has made, offered or not.
RSAKey.all_sig_algorithms = {b"rsa-sha2-256", b"rsa-sha2-512"}


class Refused(Exception):
    """The client gets no session; the text gives the reason, `offence` the penalty for it."""

    def __init__(self, reason: str, offence: Offence | None = None) -> None:
        super().__init__(reason)
        self.offence = offence


class Settings(Protocol):
    """What may change while the server runs."""

    @property
    def limits(self) -> Limits:
        """The limits in force now."""


class SshTransport:
    """One open `netconf` subsystem."""

    def __init__(
        self,
        process: Any,
        connection: Any,
        *,
        on_accept: Callable[[bool], None],
        on_offence: Callable[[Offence], None],
    ) -> None:
        """`on_accept` is called with whether the user may commit."""
        self._process = process
        self._connection = connection
        self._on_accept = on_accept
        self._on_offence = on_offence
        self.is_accepted = False
        self.is_gone = False
        self.user = str(process.get_extra_info("username"))
        self.peer = str(process.get_extra_info("peername")[0])

    def accept(self, *, may_commit: bool) -> None:
        """The connection has a session now and no longer counts as a newcomer.

        With `may_commit`, its host has no penalties for a while.
        """
        self.is_accepted = True
        self._on_accept(may_commit)

    def penalise(self, offence: Offence) -> None:
        """Add the offence's penalty to those of the client's host."""
        self._on_offence(offence)

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
            self.is_gone = True

    async def wait_gone(self) -> None:
        """Return when the channel is closed, by the client, by `close` or with its connection."""
        await self._process.wait_closed()
        self.is_gone = True

    def close(self) -> None:
        """End the whole connection: the client must not open another subsystem on it."""
        self.is_gone = True
        self._connection.close()


class Endpoint:
    """The SSH server: everything its connections have in common."""

    def __init__(
        self,
        host_key: Path,
        logins: Logins,
        settings: Settings,
        serve: Callable[[SshTransport], Awaitable[None]],
        *,
        peer_timeout_s: float,
    ) -> None:
        """`serve` is called for each `netconf` subsystem and may raise Refused.

        A connection whose client has sent nothing for `peer_timeout_s`, not even answers to
        keepalives, is ended.

        Raises OSError, UnsafeFile, or asyncssh.KeyImportError for an unusable host key.
        """
        self.logins = logins
        self.settings = settings
        self.serve = serve
        self.newcomers = Newcomers()
        self.garbage = Garbage()
        trusted = TrustedHosts(host_key.with_name("trusted-hosts"))
        self.penalties = Penalties(lambda: settings.limits, trusted)
        self._options = asyncssh.SSHServerConnectionOptions(
            server_factory=lambda: _Connection(self),
            server_host_keys=key_pairs(host_key),
            kbdint_auth=False,
            host_based_auth=False,
            gss_host=None,
            allow_pty=False,
            line_editor=False,
            agent_forwarding=False,
            x11_forwarding=False,
            # `hello-timeout` replaces it; it may change at run time.
            login_timeout=0,
            keepalive_interval=peer_timeout_s / (KEEPALIVES + 1),
            keepalive_count_max=KEEPALIVES,
            **_ALGORITHMS,
        )
        self._call_options = asyncssh.SSHServerConnectionOptions(
            self._options, server_factory=lambda: _Connection(self, is_call=True)
        )

    async def listen(self, host: str, port: int) -> Any:
        """Accept connections. Raises OSError."""
        return await asyncssh.listen(host, port, options=self._options)

    async def call(self, client: Client) -> Any:
        """Connect to a client that then speaks SSH as if it had connected to us (RFC 8071).

        Raises OSError or asyncssh.Error.
        """
        return await asyncssh.connect_reverse(
            client.address, client.port, options=self._call_options
        )


class _Connection(asyncssh.SSHServer):  # type: ignore[misc]
    """One SSH connection. Until its first session opens it counts as a newcomer.

    A call (RFC 8071) is the switch's own wish, so it is made whatever its host has done.
    """

    def __init__(self, endpoint: Endpoint, *, is_call: bool = False) -> None:
        self._endpoint = endpoint
        self._is_call = is_call
        self._connection: Any = None
        self._peer = ""
        self._is_newcomer = False
        self._is_logged_in = False
        # What the connection gets a penalty for if it ends now.
        self._offence: Offence | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._channels = 0
        self._sessions = 0
        self._wrong_passwords = 0

    def connection_made(self, conn: Any) -> None:
        self._connection = conn
        self._peer = str((conn.get_extra_info("peername") or ("unknown",))[0])
        if not self._is_call and self._endpoint.penalties.refuses(self._peer):
            conn.abort()
            return
        limits = self._endpoint.settings.limits
        self._is_newcomer = self._endpoint.newcomers.admit(self, self._peer, limits)
        if self._is_newcomer:
            self._expect_session()
        else:
            self.give_way()

    def give_way(self) -> None:
        """Close: another connection gets the place among those without a session."""
        LOG.warning("%s refused: too many connections without a session", self._peer)
        self._offence = None
        self._connection.abort()

    def connection_lost(self, _exc: Exception | None) -> None:
        self._stop_expecting()
        self._settle()
        if self._offence is not None:
            self._penalise(self._offence)
        self._endpoint.garbage.collect_soon()

    def auth_completed(self) -> None:
        self._is_logged_in, self._offence = True, None

    async def begin_auth(self, username: str) -> bool:
        self._offence = Offence.FAILED_LOGIN
        keys = await self._endpoint.logins.keys_of(username)
        # A user without keys gets the same answer as one with a different key.
        self._connection.set_authorized_keys(keys)
        return True

    def public_key_auth_supported(self) -> bool:
        return True

    def password_auth_supported(self) -> bool:
        return self._endpoint.logins.pam is not None

    async def validate_password(self, username: str, password: str) -> bool:
        pam = self._endpoint.logins.pam
        if pam is None or not is_user_name(username):
            return False
        if await pam.admits(username, password):
            return True
        self._wrong_passwords += 1
        if self._wrong_passwords >= MAX_WRONG_PASSWORDS:
            LOG.warning("%s: too many wrong passwords", self._peer)
            self._connection.abort()
        return False

    def session_requested(self) -> Any:
        if self._channels >= MAX_CHANNELS:
            raise asyncssh.ChannelOpenError(
                asyncssh.OPEN_RESOURCE_SHORTAGE, f"{MAX_CHANNELS} channels are open"
            )
        self._channels += 1
        channel = self._connection.create_server_channel(encoding=None, window=WINDOW_OCTETS)
        return channel, _Process(self._serve, self._channel_closed)

    async def _serve(self, process: Any) -> None:
        if process.subsystem != SUBSYSTEM:
            process.exit(1)
            return
        transport = SshTransport(
            process,
            self._connection,
            on_accept=self._session_opened,
            on_offence=self._penalise,
        )
        try:
            await self._endpoint.serve(transport)
        except Refused as refusal:
            if refusal.offence is not None:
                self._penalise(refusal.offence)
            process.stderr.write(f"{refusal}\n".encode())
            process.exit(1)
        else:
            process.exit(0)
        finally:
            if transport.is_accepted:
                self._sessions -= 1
                if not self._sessions:
                    self._expect_session()

    def _session_opened(self, may_commit: bool) -> None:
        if may_commit:
            self._endpoint.penalties.trust(self._peer)
        self._stop_expecting()
        self._settle()
        self._sessions += 1

    def _channel_closed(self) -> None:
        self._channels -= 1

    def _expect_session(self) -> None:
        self._stop_expecting()
        timeout_s = self._endpoint.settings.limits.hello_timeout_s
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(timeout_s, self._give_up, timeout_s)

    def _stop_expecting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self, timeout_s: int) -> None:
        if self._is_newcomer:
            LOG.warning("%s: no session within %d s", self._peer, timeout_s)
            if not self._is_logged_in:
                self._offence = Offence.NO_LOGIN
        self._connection.abort()

    def _penalise(self, offence: Offence) -> None:
        self._endpoint.penalties.penalise(self._peer, offence)

    def _settle(self) -> None:
        self._is_newcomer = False
        self._endpoint.newcomers.remove(self)


class _Process(asyncssh.SSHServerProcess):  # type: ignore[misc]
    """A channel that reports its end."""

    def __init__(self, start: Callable[[Any], Awaitable[None]], on_end: Callable[[], None]) -> None:
        super().__init__(start, None, 0, allow_scp=False)
        self._on_end = on_end

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._on_end()
