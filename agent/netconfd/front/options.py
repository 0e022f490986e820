"""The command line of tsn-netconfd."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

from agent.netconfd.front.call_home import DEFAULT_PORT
from agent.netconfd.front.logins import USER_TOKEN
from agent.netconfd.limits import Client

MAX_PORT = 65_535
DEFAULT_STATE_DIR = Path("/var/lib/tsn-netconfd")


@dataclass(frozen=True)
class Options:
    """The options of the command line.

    Without `pam_service` there are no password logins; without `broker`, the socket of a broker
    that runs by itself, the server has one of its own, whose directory is `state_dir`.
    """

    host: str
    port: int
    host_key: Path
    authorized_keys: str
    pam_service: str | None
    clients: frozenset[Client]
    broker: Path | None
    state_dir: Path
    peer_timeout_s: int


def parse() -> Options:
    """Parse the command line; exits with 2 if it is invalid."""
    command_line = parser()
    arguments = command_line.parse_args()
    if arguments.broker is not None and arguments.state_dir is not None:
        command_line.error("--state-dir has no effect with --broker: it is tsn-netconf-broker's")
    host, port = arguments.listen
    return Options(
        host=host,
        port=port,
        host_key=arguments.host_key,
        authorized_keys=arguments.authorized_keys,
        pam_service=arguments.pam,
        clients=frozenset(arguments.call_home),
        broker=arguments.broker,
        state_dir=arguments.state_dir or DEFAULT_STATE_DIR,
        peer_timeout_s=arguments.peer_timeout,
    )


def parser() -> argparse.ArgumentParser:
    """The command line; its help is the manual page, too."""
    command_line = argparse.ArgumentParser(
        prog="tsn-netconfd",
        description="NETCONF over SSH for the sysrepo datastores of this host, or for another "
        "backend. Everything that "
        "can change while it runs is configuration: module tsn-netconf-server, and "
        "ietf-netconf-acm for access control.",
    )
    command_line.add_argument(
        "--listen",
        metavar="ADDRESS:PORT",
        type=_address,
        default="0.0.0.0:830",
        help="an IPv6 address goes in brackets; port 0 selects a free port (default: %(default)s)",
    )
    command_line.add_argument(
        "--call-home",
        metavar="HOST[:PORT]",
        type=_client,
        action="append",
        default=[],
        help="connect to the client that listens there (RFC 8071), and reconnect when the "
        f"connection ends; may be given more than once (port: {DEFAULT_PORT})",
    )
    command_line.add_argument(
        "--host-key",
        type=Path,
        default=Path("/etc/tsn/netconf_host_key"),
        help="this server's private key, created at the first start (default: %(default)s)",
    )
    command_line.add_argument(
        "--authorized-keys",
        metavar="PATH",
        default=f"/etc/tsn/authorized_keys/{USER_TOKEN}",
        help="public keys in OpenSSH's format, read at each login. %%u stands for the user "
        "name; without it, each key logs in as any user, root included (default: %(default)s)",
    )
    command_line.add_argument(
        "--pam",
        metavar="SERVICE",
        help="also let users log in with a password that this PAM service accepts",
    )
    command_line.add_argument(
        "--peer-timeout",
        metavar="SECONDS",
        type=_seconds,
        default=10,
        help="end the sessions of a client that has vanished or stopped after this time, and "
        "release their locks (default: %(default)s)",
    )
    command_line.add_argument(
        "--broker",
        metavar="PATH",
        type=Path,
        help="socket of a tsn-netconf-broker, which holds sysrepo, or of another backend; without "
        "this option the server starts a broker of its own, which ends with it",
    )
    command_line.add_argument(
        "--state-dir",
        type=Path,
        help="directory of the configuration that a confirmed commit reverts to, and of the log of "
        f"notifications; with --broker it is the broker's (default: {DEFAULT_STATE_DIR})",
    )
    return command_line


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
