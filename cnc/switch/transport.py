"""An SSH session of ncclient that sends at once, and wakes only when there is something to read.

ncclient's own session sends from a thread that polls its queue every TICK seconds, and paramiko
reads in a thread that polls ten times a second for its end. All sessions share one
interpreter: with a hundred of them those polls cost as much as the messages.
"""

from __future__ import annotations

import logging
import socket
import struct
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from io import BytesIO
from typing import Any

import paramiko
from lxml import etree
from ncclient import manager
from ncclient.transport import SSHSession
from ncclient.transport.errors import (
    AuthenticationError,
    SessionCloseError,
    SessionError,
    SSHUnknownHostError,
    TransportError,
)
from ncclient.transport.session import NetconfBase, NotificationHandler, SessionListener

from cnc.data_tree.tree import NETCONF
from cnc.switch.deadline import expires_after
from cnc.switch.framing import END_OF_CHUNKS, END_OF_MESSAGE, Decoder
from cnc.switch.jump import JumpError, Tunnel, Way

LOG = logging.getLogger(__name__)
# Without a handler Python prints records of level warning and above: paramiko logs the traceback of
# every failure. The reason is in the exception that `open_session` passes on.
for _library in ("ncclient", "paramiko"):
    logging.getLogger(_library).addHandler(logging.NullHandler())
_PARSER = etree.XMLParser(resolve_entities=False, no_network=True)
_RECEIVE_OCTETS = 64 * 1024
# How often paramiko's thread wakes without received data; a session's end wakes it at once.
NOT_CONNECTED = "not connected"  # of a request in a session that has ended before
_SOCKET_TIMEOUT_S = 10.0
# struct linger: on for no seconds, and off.
_RESET, _IN_ORDER = struct.pack("ii", 1, 0), struct.pack("ii", 0, 0)
# More are of no use to a reader, and a reply of 10 MB can hold 50,000.
ERRORS_MAX = 100


def open_session(
    *,
    way: Way,
    port: int,
    user: str,
    keys: Sequence[paramiko.PKey],
    host_keys: Sequence[paramiko.PKey],
    timeout_s: float,
) -> manager.Manager:
    """As `manager.connect`, over a `PromptSession`.

    `keys` are tried one after another, `host_keys` are the accepted ones. `timeout_s` is how long
    to wait for a session, whatever the host sends until then, and for each reply. Raises OSError,
    SSHUnknownHostError for another host key, AuthenticationError for a user or keys that are not
    accepted, HungUp where no answer came to either, JumpError for a host on the way, and the errors
    of ncclient and paramiko.
    """
    handler = manager.make_device_handler(None)
    session = PromptSession(handler, timeout_s)
    begun_s = time.monotonic()
    tunnel = Tunnel(way, port, timeout_s) if way.jumps else None
    if tunnel:
        connected = tunnel.connected
    else:
        connected = _connection(way.host, port, begun_s + timeout_s)
        # Otherwise the kernel delays a short message until the peer has acknowledged the one before
        # it, which takes 40 ms where the peer has no data to send (RFC 896, RFC 1122 4.2.3.2).
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # A connection that is given up is reset, by the kernel where this process is killed: what
        # the peer has not acknowledged, such as a commit, would else be sent again for minutes.
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    remaining_s = max(0.0, timeout_s - (time.monotonic() - begun_s))
    try:
        # paramiko's own limits apply to a line or a step, and a host that keeps sending stays
        # within each.
        with expires_after(remaining_s, lambda: _shut_down(connected)) as deadline:
            session.connect(connected, way.host, user, keys, host_keys)
    except BaseException as error:
        LOG.debug("%s port %d: no session: %r", way.host, port, error)
        if session.transport:
            session.close()
        connected.close()
        # ncclient waits as long for the hello, and its time-out may expire first.
        late = deadline.has_expired or time.monotonic() - begun_s >= timeout_s
        if late and isinstance(error, Exception):
            raise TimeoutError(f"no NETCONF session within {timeout_s:g} s") from error
        if tunnel and isinstance(error, Exception) and (said := tunnel.reason()):
            raise JumpError(f"the way through {tunnel.last}: {said}") from error
        raise
    return manager.Manager(session, handler, timeout=timeout_s)


def _connection(host: str, port: int, until_s: float) -> socket.socket:
    """A connection to the first address of a host that accepts one until `until_s` (monotonic).

    `socket.create_connection` waits as long for each address, of which a name may have any number.
    Raises OSError.
    """
    failure: OSError = TimeoutError("timed out")
    for family, kind, protocol, _, address in socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM
    ):
        remaining_s = until_s - time.monotonic()
        if remaining_s <= 0:
            break
        connecting = socket.socket(family, kind, protocol)
        try:
            connecting.settimeout(remaining_s)
            connecting.connect(address)
        except OSError as error:
            connecting.close()
            failure = error
        else:
            return connecting
    raise failure


def _shut_down(connected: socket.socket, how: int = socket.SHUT_RDWR) -> None:
    """End a connection for all threads that read from it or write to it."""
    with suppress(OSError):  # the host may have closed it
        connected.shutdown(how)


class HungUp(TransportError):  # type: ignore[misc]  # ncclient has no types
    """The server has ended the connection without an answer to the login."""


class PromptSession(SSHSession):  # type: ignore[misc]  # ncclient has no types
    """One session. `timeout_s`: how long a peer may take to read a message; it may be changed."""

    _channel: paramiko.Channel

    def __init__(self, device_handler: Any, timeout_s: float) -> None:
        super().__init__(device_handler)
        self.timeout_s = timeout_s
        self._sending = threading.Lock()
        self._decoder = Decoder()
        self._socket: socket.socket | None = None
        self._ended_by: Exception | None = None

    def run(self) -> None:
        """Dispatch messages until the session ends; ncclient starts this in a thread."""
        channel = self._channel
        try:
            while not self._closing.is_set() and (received := _receive(channel)):
                self.parse(received)
            if not self._closing.is_set():
                raise SessionCloseError(b"")
        except Exception as error:  # noqa: BLE001  every listener gets any listener's error
            # A request that began before this is told why the session ended, and one after it is
            # not sent: none waits for a reply that does not come.
            self._ended_by = error
            self._connected = False
            self._dispatch_error(error)
            self.close()

    def add_listener(self, listener: SessionListener) -> None:
        """As ncclient's, but without its queue of notifications, which nothing would empty."""
        if not isinstance(listener, NotificationHandler):
            super().add_listener(listener)

    def end(self) -> None:
        """End the connection in order: the peer has answered everything."""
        if self._socket is not None:
            with suppress(OSError):  # the host may have closed it
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _IN_ORDER)
            _shut_down(self._socket)
        self.close()

    def close(self) -> None:
        """Reset the connection, without waiting `_SOCKET_TIMEOUT_S` for paramiko."""
        self._closing.set()
        if self._socket is not None:
            # Wakes the thread that reads. To end the sending side would send what waits.
            _shut_down(self._socket, socket.SHUT_RD)
        super().close()

    def parse(self, received: bytes) -> None:
        """Dispatch each message that these octets complete. Raises the errors of `Decoder`."""
        self._decoder.feed(received)
        while (
            message := self._decoder.next_message(chunked=self._base == NetconfBase.BASE_11)
        ) is not None:
            self._dispatch_message(message)

    def connect(
        self,
        connected: socket.socket,
        host: str,
        user: str,
        keys: Sequence[paramiko.PKey],
        host_keys: Sequence[paramiko.PKey],
    ) -> None:
        """Log in over a connection, and exchange hellos; see `open_session`.

        ncclient requests an RSA key by the name of its format. RFC 8332 negotiates the names of its
        signature algorithms; a server refuses other names, or signs with SHA-1.
        """
        self._host, self._socket = host, connected
        self._transport = transport = paramiko.Transport(connected)
        options = transport.get_security_options()
        options.key_types = [algorithm for key in host_keys for algorithm in _signatures(key)]
        # paramiko compares the octets of a MAC one by one in Python, a third of the cost of a
        # message; AES-GCM (RFC 5647) has none. Ciphers keep their order otherwise.
        options.ciphers = sorted(options.ciphers, key=lambda name: "gcm" not in name)
        try:
            transport.start_client()
        except paramiko.ssh_exception.IncompatiblePeer as error:
            if "host key" not in str(error):
                raise
            kinds = ", ".join(key.get_name() for key in host_keys)
            raise SSHUnknownHostError(host, f"it has none of the kind {kinds}") from error
        server_key = transport.get_remote_server_key()
        if server_key.asbytes() not in [key.asbytes() for key in host_keys]:
            raise SSHUnknownHostError(host, server_key.fingerprint)
        try:
            _log_in(transport, user, keys)
        except AuthenticationError as error:
            # A server that refuses a key says so, and waits for another one.
            if transport.is_active():
                raise
            raise HungUp(str(error)) from error
        self._connected = True
        self._channel = transport.open_session()
        self._channel.invoke_subsystem("netconf")  # RFC 6242 3
        connected.settimeout(_SOCKET_TIMEOUT_S)
        try:
            self._post_connect(self.timeout_s)
        except (etree.LxmlError, AttributeError, TypeError, ValueError) as error:
            # Errors of ncclient at a malformed or malicious <hello>.
            raise SessionError(f"its <hello> cannot be read: {error}") from error

    def send(self, message: str) -> None:
        """Send now. Raises TransportError or OSError.

        A message that a peer takes octet by octet ends the session when its time is over, and so
        does one that waits for others, such as replies to a peer's own requests (RFC 4254 4).
        """
        if not self.connected or self._socket is None:
            raise TransportError(NOT_CONNECTED)
        connected = self._socket
        LOG.debug("to %s: %s", self._host, message)
        octets = message.encode()
        if self._base == NetconfBase.BASE_11:
            framed = b"\n#%d\n%b%b" % (len(octets), octets, END_OF_CHUNKS)
        else:
            framed = octets + END_OF_MESSAGE
        with expires_after(self.timeout_s, lambda: _shut_down(connected)) as deadline:
            try:
                with self._sending:
                    self._channel.settimeout(self.timeout_s)
                    self._channel.sendall(framed)
            except Exception as error:
                if deadline.has_expired:
                    raise TimeoutError("the peer does not take the message in time") from error
                if self._ended_by is not None:  # meanwhile
                    raise self._ended_by from error
                raise

    def _dispatch_message(self, raw: str) -> None:
        """Pass a message to all listeners. Raises etree.XMLSyntaxError, which ends the session.

        ncclient builds an object of every element to find the root, six times the work of parsing
        the message.
        """
        LOG.debug("from %s: %s", self._host, raw)
        message = _with_first_errors(raw)
        root = etree.fromstring(message.encode(), _PARSER)
        with self._lock:
            listeners = list(self._listeners)
        for listener in listeners:
            listener.callback((root.tag, dict(root.attrib)), message)


def _log_in(transport: paramiko.Transport, user: str, keys: Sequence[paramiko.PKey]) -> None:
    """With the first key that the server accepts. Raises ncclient's AuthenticationError."""
    for number, key in enumerate(keys):
        try:
            if number == 0:
                transport.auth_publickey(user, key)
            else:
                _ask_again(transport, user, key)
        except paramiko.AuthenticationException as error:
            refused = error
            if not transport.is_active():  # a server that hangs up takes no other key
                break
        else:
            return
    raise AuthenticationError(str(refused)) from refused


def _ask_again(transport: paramiko.Transport, user: str, key: paramiko.PKey) -> None:
    """Authenticate with a further key. Raises paramiko.AuthenticationException.

    paramiko requests the service of authentication once more for each key, which asyncssh refuses
    (RFC 4252 5). Its ServiceRequestingTransport does not, and waits for ever if the server answers
    sooner than it looks. So here its handler takes the service for accepted, as it is.
    """
    handler: Any = transport.auth_handler
    answered = threading.Event()
    with transport.lock:
        handler.auth_event, handler.auth_method = answered, "publickey"
        handler.username, handler.private_key = user, key
    accepted = paramiko.Message()
    accepted.add_string("ssh-userauth")
    accepted.rewind()
    handler._parse_service_accept(accepted)  # noqa: SLF001
    handler.wait_for_response(answered)


def _receive(channel: paramiko.Channel) -> bytes:
    """The next octets of a session; none at its end."""
    while True:
        with suppress(TimeoutError):  # a send's time-out, which paramiko applies to both directions
            return channel.recv(_RECEIVE_OCTETS)


def _signatures(key: paramiko.PKey) -> tuple[str, ...]:
    """The signature algorithms by which a server proves that it has `key`; none with SHA-1."""
    name = key.get_name()
    return ("rsa-sha2-512", "rsa-sha2-256") if name == "ssh-rsa" else (name,)


def _with_first_errors(message: str) -> str:
    """A message without its `<rpc-error>`s after the first ERRORS_MAX and the last one.

    ncclient builds an object, and several texts, of each. Raises etree.XMLSyntaxError.
    """
    if message.count("rpc-error") <= 2 * ERRORS_MAX:
        return message
    errors = etree.iterparse(
        BytesIO(message.encode()), tag=f"{{{NETCONF}}}rpc-error", resolve_entities=False
    )
    for number, (_, error) in enumerate(errors):
        parent, former = error.getparent(), error.getprevious()
        if number <= ERRORS_MAX or parent is None or former is None:
            continue
        if former.tag == error.tag:
            parent.remove(former)
    return message if errors.root is None else etree.tostring(errors.root, encoding="unicode")
