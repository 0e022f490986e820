"""A NETCONF server as its clients see it, and the one a laboratory names in the environment.

TSN_NETCONF_SERVER       host:port; an IPv6 address in brackets
TSN_NETCONF_USER         who logs in (default: operator)
TSN_NETCONF_KEY          private key (default: ~/.ssh/id_ed25519)
TSN_NETCONF_KNOWN_HOSTS  where the server's host key is (default: ~/.ssh/known_hosts)

What the tests may touch there: interfaces whose names begin with `OWN_NAMES`, the candidate
datastore, locks, a confirmed commit with `OWN_PERSIST_ID`, and sessions of their own. They never
write startup.
"""

from __future__ import annotations

import base64
import os
import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from weakref import WeakSet

import asyncssh
import ncclient.transport.session
import paramiko
from ncclient import manager
from ncclient.operations import RPCError
from ncclient.transport import SSHSession
from ncclient.xml_ import to_ele

# ncclient looks for replies once per tick; its own 100 ms is most of a test's time.
ncclient.transport.session.TICK = 0.002

REPLY_TIMEOUT_S = 20.0
VARIABLE = "TSN_NETCONF_SERVER"
OWN_NAMES = "tsn-test-"
OWN_PERSIST_ID = "tsn-test"
# How long a killed session may hold its locks, and its confirmed commit may take to be undone.
RELEASE_TIMEOUT_S = 10.0
BASE = "urn:ietf:params:xml:ns:netconf:base:1.0"
INTERFACES = "urn:ietf:params:xml:ns:yang:ietf-interfaces"
# In this order, if a server is known by several.
_KEY_TYPES = ("ssh-ed25519", *(f"ecdsa-sha2-nistp{bits}" for bits in (256, 384, 521)), "ssh-rsa")


def accepted_tags(ours: str, *others: str) -> set[str]:
    """The error-tags that a test accepts: of our own server one, of a named one all that are right.

    RFC 6241 leaves the tag of some refusals open, and servers differ.
    """
    return {ours, *others} if VARIABLE in os.environ else {ours}


class _Transport(paramiko.Transport):
    """Asks for an RSA host key by the signatures it makes (RFC 8332); ncclient names its format."""

    @property
    def _preferred_keys(self):
        return self._host_key_algorithms

    @_preferred_keys.setter
    def _preferred_keys(self, names):
        rsa = ("rsa-sha2-512", "rsa-sha2-256")
        self._host_key_algorithms = [
            algorithm for name in names for algorithm in (rsa if name == "ssh-rsa" else (name,))
        ]


class _Session(SSHSession):
    """ncclient's session over such a transport, and no other session's."""

    def __setattr__(self, name, value):
        if name == "_transport" and value is not None:
            value.__class__ = _Transport
        super().__setattr__(name, value)


class NotUsable(Exception):
    """The named server cannot be tested as things are; says what to change."""


@dataclass(eq=False)
class FrontEnd:
    """Where a server listens, and what proves the one side to the other."""

    host: str
    port: int
    username: str
    client_key: Path
    host_key_type: str
    host_key_b64: str
    # Those of `connect`, as long as they are open.
    sessions: WeakSet[SSHSession] = field(default_factory=WeakSet, repr=False)

    def connect(self, device_params=None, **changes):
        """A new ncclient session that checks the host key."""
        options = {
            "host": self.host,
            "port": self.port,
            "username": self.username,
            "key_filename": str(self.client_key),
            "hostkey_b64": self.host_key_b64,
            "allow_agent": False,
            "look_for_keys": False,
            "timeout": REPLY_TIMEOUT_S,
        }
        handler = manager.make_device_handler(device_params)
        session = _Session(handler)
        try:
            session.connect(**(options | changes))
        except BaseException:
            if session.transport:
                session.close()
            raise
        self.sessions.add(session)
        return manager.Manager(session, handler)

    async def log_in(self, **changes):
        """An SSH connection that checked the host key, and no session on it yet."""
        host_key = asyncssh.import_public_key(f"{self.host_key_type} {self.host_key_b64}")
        options = {
            "host": self.host,
            "port": self.port,
            "username": self.username,
            "client_keys": [str(self.client_key)],
            "known_hosts": ([host_key], [], []),
            "config": None,
        }
        return await asyncssh.connect(**(options | changes))

    async def connect_raw(self, window_octets=2 * 2**20, **changes):
        """The bare byte streams of a new session; so much may be sent before it is read."""
        connection = await self.log_in(**changes)
        writer, reader, _ = await connection.open_session(
            subsystem="netconf", encoding=None, window=window_octets
        )
        return connection, reader, writer


def named_server(environment: Mapping[str, str]) -> FrontEnd:
    """The server that the environment names. Raises NotUsable."""
    address = environment[VARIABLE]
    parts = re.fullmatch(r"(?:\[([^]]+)\]|([^:\[\]]+)):(\d{1,5})", address)
    if not parts:
        raise NotUsable(f"{VARIABLE} is {address!r}, expected host:port")
    host, port = parts[1] or parts[2], int(parts[3])
    client_key = _file(environment, "TSN_NETCONF_KEY", "~/.ssh/id_ed25519")
    known_hosts = _file(environment, "TSN_NETCONF_KNOWN_HOSTS", "~/.ssh/known_hosts")
    name = host if port == paramiko.config.SSH_PORT else f"[{host}]:{port}"
    keys = paramiko.HostKeys(str(known_hosts)).lookup(name) or {}
    key_type = next((each for each in _KEY_TYPES if each in keys), None)
    if key_type is None:
        raise NotUsable(
            f"{known_hosts} has no host key for {name}; compare it with the server's own, then: "
            f"ssh-keyscan -p {port} {host} >> {known_hosts}"
        )
    return FrontEnd(
        host=host,
        port=port,
        username=environment.get("TSN_NETCONF_USER", "operator"),
        client_key=client_key,
        host_key_type=key_type,
        host_key_b64=base64.b64encode(keys[key_type].asbytes()).decode(),
    )


def _file(environment: Mapping[str, str], variable: str, default: str) -> Path:
    path = Path(environment.get(variable, default)).expanduser()
    if not path.is_file():
        raise NotUsable(f"there is no file {path}; set {variable}")
    return path


def check_untouched(server: FrontEnd) -> None:
    """Raise NotUsable if a test would throw away somebody's work on the named server."""
    with server.connect() as client:
        running, candidate = (
            client.get_config(datastore).data_xml for datastore in ("running", "candidate")
        )
        if _own_interfaces(client):
            raise NotUsable(
                f"running has interfaces named {OWN_NAMES}…, which the tests would remove: "
                "remove or rename them"
            )
    if running != candidate:
        raise NotUsable("candidate differs from running: commit these changes or discard them")


def clean_up(server: FrontEnd) -> None:
    """Leave the named server as it was found, whatever a test did to it.

    The sessions that a test left open end, and with them their locks and confirmed commits.
    """
    left_open = [session for session in server.sessions if session.connected]
    with server.connect() as client:
        for session in left_open:
            with suppress(RPCError):  # it has ended meanwhile
                client.kill_session(session.id)
            session.close()
        with suppress(RPCError):  # there is none
            client.cancel_commit(persist_id=OWN_PERSIST_ID)
        # Denied while a killed session holds a lock or a commit of its own is not undone yet.
        _until_permitted(lambda: client.lock("running"))
        _until_permitted(client.discard_changes)
        left = _own_interfaces(client)
        if left:
            entries = "".join(
                f'<interface nc:operation="remove"><name>{name}</name></interface>' for name in left
            )
            client.edit_config(
                target="candidate",
                config=(
                    f'<config xmlns="{BASE}" xmlns:nc="{BASE}">'
                    f'<interfaces xmlns="{INTERFACES}">{entries}</interfaces></config>'
                ),
            )
            client.commit()
        client.unlock("running")


def _until_permitted(request: Callable[[], object]) -> None:
    """Repeat a request that is refused. Raises RPCError when the time is over."""
    deadline_s = time.monotonic() + RELEASE_TIMEOUT_S
    while True:
        try:
            request()
        except RPCError:
            if time.monotonic() >= deadline_s:
                raise
            time.sleep(0.05)
        else:
            return


def _own_interfaces(client) -> list[str]:
    """The names of the tests' own interfaces in running."""
    names = to_ele(
        f'<filter xmlns="{BASE}" type="subtree">'
        f'<interfaces xmlns="{INTERFACES}"><interface><name/></interface></interfaces></filter>'
    )
    found = client.get_config("running", filter=names).data.iter(f"{{{INTERFACES}}}name")
    return [name.text for name in found if (name.text or "").startswith(OWN_NAMES)]
