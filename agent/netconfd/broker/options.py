"""The command line of tsn-netconf-broker."""

from __future__ import annotations

import argparse
import pwd
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Options:
    """The options of the command line. `front_user` is the one whose process may connect."""

    socket: Path
    front_user: pwd.struct_passwd
    state_dir: Path


def parse() -> Options:
    """Parse the command line; exits with 2 if it is invalid."""
    arguments = parser().parse_args()
    return Options(arguments.socket, arguments.front_user, arguments.state_dir)


def parser() -> argparse.ArgumentParser:
    """The command line; its help is the manual page, too."""
    command_line = argparse.ArgumentParser(
        prog="tsn-netconf-broker",
        description="Holds sysrepo for the NETCONF server of this host: sessions, locks, access "
        "control (NACM), confirmed commits and their deadlines. It parses nothing of clients; "
        "`tsn-netconfd --broker` does, and may end and start again meanwhile.",
    )
    command_line.add_argument(
        "--socket",
        metavar="PATH",
        type=Path,
        default=Path("/run/tsn-netconf-broker/socket"),
        help="where to listen for tsn-netconfd; it serves one at a time (default: %(default)s)",
    )
    command_line.add_argument(
        "--front-user",
        metavar="NAME",
        type=_user,
        default="tsn-netconfd",
        help="user of the tsn-netconfd that may connect (default: %(default)s)",
    )
    command_line.add_argument(
        "--state-dir",
        type=Path,
        default=Path("/var/lib/tsn-netconf-broker"),
        help="directory of the configuration that a confirmed commit reverts to, and of the log of "
        "notifications (default: %(default)s)",
    )
    return command_line


def _user(name: str) -> pwd.struct_passwd:
    try:
        return pwd.getpwnam(name)
    except KeyError:
        raise argparse.ArgumentTypeError(f"there is no user {name!r}") from None
