"""How a session with a switch is opened, and the errors of one.

Host keys are always verified against a known_hosts file; an unknown key is refused, never added.
"""

from __future__ import annotations

import getpass
from collections.abc import Collection
from functools import lru_cache
from pathlib import Path

import paramiko
from ncclient import manager
from ncclient.transport.errors import AuthenticationError, SessionCloseError, SSHUnknownHostError

from cnc.errors import CncError
from cnc.model import Management
from cnc.switch import rehearsed
from cnc.switch.identity import IdentityError, login_keys
from cnc.switch.jump import JumpError, Way, way_to
from cnc.switch.known_hosts import KnownHosts
from cnc.switch.options import ConnectOptions
from cnc.switch.transport import HungUp, open_session

# Longest error message of a switch that is shown whole, in characters.
_TEXT_MAX = 4000


class DeviceError(CncError):
    """A switch refused a request, did not answer, or could not be authenticated.

    `tags` are the error-tags of a refusal (RFC 6241 appendix A): none where there was no reply.
    `is_final`: a repeated request would fail as well.
    """

    def __init__(
        self,
        switch: str,
        reason: str,
        *,
        hint: str | None = None,
        tags: Collection[str] = (),
        is_final: bool = False,
    ) -> None:
        super().__init__(f"{switch}: {reason}", hint=hint)
        self.switch = switch
        self.reason = reason
        self.tags = frozenset(tags)
        self.is_final = is_final


class HostKeyRefused(DeviceError):
    """The switch's host key is unknown, or differs from the known one."""


class LoginRefused(DeviceError):
    """The switch does not accept the operator's key."""


def shortened(text: str) -> str:
    """The text, or its first _TEXT_MAX characters."""
    return text if len(text) <= _TEXT_MAX else f"{text[:_TEXT_MAX]}… ({len(text)} characters)"


def open_to(switch: str, management: Management, options: ConnectOptions) -> manager.Manager:
    where = f"{management.address} port {management.port}"
    host_keys = _host_keys(switch, management, options.known_hosts)
    try:
        keys = login_keys(options.identity)
    except IdentityError as error:
        raise LoginRefused(switch, str(error), hint=error.hint) from error
    try:
        at = rehearsed.endpoint(management, options.known_hosts)
        if at == (management.address, management.port):
            way = way_to(at.address, options.ssh_config)
        else:
            way = Way(at.address)
            where += f" (rehearsed: {at.address} port {at.port})"
        return open_session(
            way=way,
            port=at.port,
            user=management.user or getpass.getuser(),
            keys=keys,
            host_keys=host_keys,
            timeout_s=options.timeout_s,
        )
    except AuthenticationError as error:
        raise LoginRefused(
            switch,
            f"{where} does not accept the key {options.identity}",
            hint="add its public key to the switch's authorized keys",
        ) from error
    except JumpError as error:
        raise DeviceError(
            switch,
            f"cannot reach the NETCONF server at {where}: {error}",
            hint=f"`ssh -F {options.ssh_config}` with that host must log in without a question",
        ) from error
    except HungUp as error:
        raise DeviceError(
            switch,
            f"the NETCONF server at {where} has ended the connection before it answered the login",
            hint="its log has the reason: it may be too busy for a login within its hello-timeout",
        ) from error
    except SSHUnknownHostError as error:
        raise HostKeyRefused(
            switch,
            f"the host key of {where} differs from the one in {options.known_hosts}: "
            f"{error.fingerprint}",
            hint=f"if the switch was reinstalled, correct its line in {options.known_hosts}; "
            "otherwise another machine answers in its place",
        ) from error
    except SessionCloseError as error:
        raise DeviceError(
            switch,
            f"the NETCONF server at {where} refuses {management.user} a session: {error}",
            hint="its log has the reason: too many sessions, no time for one, or "
            f"{management.user} is in no group of the switch's NACM configuration",
        ) from error
    except Exception as error:
        # ncclient and paramiko parse what any host may send, and do not document what they raise.
        reason = shortened(str(error) or type(error).__name__)
        raise DeviceError(
            switch,
            f"cannot reach the NETCONF server at {where}: {reason}",
            hint="is the switch up and tsn-netconfd (or netopeer2) running?",
        ) from error


def _host_keys(switch: str, management: Management, known_hosts: Path) -> list[paramiko.PKey]:
    """The switch's keys in `known_hosts`, in their order there.

    As OpenSSH does: those of the host with its port, and only without any those of the host alone.
    """
    host = management.address
    if management.port != paramiko.config.SSH_PORT:
        host = f"[{management.address}]:{management.port}"
    try:
        known = _known(known_hosts, known_hosts.stat().st_mtime_ns)
    except OSError as error:
        raise HostKeyRefused(
            switch,
            f"cannot read {known_hosts}: {error.strerror}",
            hint="--known-hosts names the file of the switches' host keys",
        ) from error
    keys = known.keys_of(host) or known.keys_of(management.address)
    if accepted := [key for key in keys if key.asbytes() not in known.revoked]:
        return accepted
    if keys:
        raise HostKeyRefused(
            switch,
            f"{known_hosts}:{known.revoked[keys[0].asbytes()]}: the host key of {host} is revoked",
            hint="generate a new host key on the switch, and add it to the file",
        )
    unread = ", ".join(map(str, known.unreadable))
    raise HostKeyRefused(
        switch,
        f"{known_hosts} has no host key for {host}"
        + (f" (without a usable key: line {unread})" if unread else ""),
        hint=f"compare it with the switch's own, then: ssh-keyscan -p {management.port} "
        f"{management.address} >> {known_hosts}",
    )


@lru_cache(maxsize=1)
def _known(known_hosts: Path, _changed_ns: int) -> KnownHosts:
    """The file, read once for all switches and again when it has changed."""
    return KnownHosts.read(known_hosts)
