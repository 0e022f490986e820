"""The command line of tsn-netconfd."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

from agent.netconfd.settings import Client
from agent.netconfd.transport.call_home import DEFAULT_PORT
from agent.netconfd.transport.logins import USER_TOKEN

MAX_PORT = 65_535


@dataclass(frozen=True)
class Options:
    """What the command line says. Without `pam_service`, nobody logs in with a password."""

    host: str
    port: int
    host_key: Path
    authorized_keys: str
    pam_service: str | None
    clients: frozenset[Client]
    state_dir: Path
    peer_timeout_s: int


def parse() -> Options:
    """The options given; exits if they make no sense."""
    arguments = parser().parse_args()
    host, port = arguments.listen
    return Options(
        host=host,
        port=port,
        host_key=arguments.host_key,
        authorized_keys=arguments.authorized_keys,
        pam_service=arguments.pam,
        clients=frozenset(arguments.call_home),
        state_dir=arguments.state_dir,
        peer_timeout_s=arguments.peer_timeout,
    )


def parser() -> argparse.ArgumentParser:
    """The command line; its help is the manual page, too."""
    its = argparse.ArgumentParser(
        prog="tsn-netconfd",
        description="NETCONF over SSH for the sysrepo datastores of this host. What can be changed "
        "while it runs is configuration: module tsn-netconf-server, and ietf-netconf-acm for who "
        "may do what.",
    )
    its.add_argument(
        "--listen",
        metavar="ADDRESS:PORT",
        type=_address,
        default="0.0.0.0:830",
        help="an IPv6 address goes in brackets; port 0 takes a free one (default: %(default)s)",
    )
    its.add_argument(
        "--call-home",
        metavar="HOST[:PORT]",
        type=_client,
        action="append",
        default=[],
        help="connect to a client that waits there (RFC 8071), and again when the connection ends; "
        f"may be given more than once (port: {DEFAULT_PORT})",
    )
    its.add_argument(
        "--host-key",
        type=Path,
        default=Path("/etc/tsn/netconf_host_key"),
        help="this server's private key, made at the first start (default: %(default)s)",
    )
    its.add_argument(
        "--authorized-keys",
        metavar="PATH",
        default=f"/etc/tsn/authorized_keys/{USER_TOKEN}",
        help="public keys as OpenSSH writes them, read at each login. %%u stands for the user "
        "name; without it, each key logs in as any user, root included (default: %(default)s)",
    )
    its.add_argument(
        "--pam",
        metavar="SERVICE",
        help="also let users log in with a password that this PAM service accepts",
    )
    its.add_argument(
        "--peer-timeout",
        metavar="SECONDS",
        type=_seconds,
        default=10,
        help="end the sessions of a client that is gone without a word, or stopped, after this "
        "time, and free what they locked (default: %(default)s)",
    )
    its.add_argument(
        "--state-dir",
        type=Path,
        default=Path("/var/lib/tsn-netconfd"),
        help="keeps what a pending confirmed commit goes back to (default: %(default)s)",
    )
    return its


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > MAX_PORT:
        raise argparse.ArgumentTypeError(f"{text!r}: expected ADDRESS:PORT")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _seconds(text: str) -> int:
    if not (text.isdecimal() and int(text)):
        raise argparse.ArgumentTypeError(f"{text!r}: expected a number of seconds, at least 1")
    return int(text)


def _client(text: str) -> Client:
    has_port = ":" in text.rpartition("]")[2]
    host, port = _address(text if has_port else f"{text}:{DEFAULT_PORT}")
    if not host:
        raise argparse.ArgumentTypeError(f"{text!r}: expected HOST or HOST:PORT")
    return Client(host, port)
