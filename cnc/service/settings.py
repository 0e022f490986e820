"""How a service runs, as `cnc serve` was told."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from cnc.errors import CncError
from cnc.switch import ConnectOptions

SOCKET, NETCONF_SOCKET = "core.sock", "netconf.sock"
_SOCKET_PATH_MAX = 107  # unix(7)


@dataclass(frozen=True, slots=True)
class Settings:
    """How a service runs: where its workers listen and how many they are, where its state is, how
    it reaches the switches. `take_over`: also those that another controller's rollout runs on.
    `worker_socket`: a socket for workers that others keep running, and the group that may connect.
    `netconf_socket`: a socket for a NETCONF server, and the group of its user if it is another one.
    `database`: the URL of the database that has the state, in the place of files. Its controllers
    reach the workers of this one at `url`, by default where they listen, with the `certificate`, by
    default that of the state directory; `adopt`: what runs on the switches is the plan of the
    database, whatever they keep that it does not know; `move_state`: what the files of `state_dir`
    have goes to the database first, if it is not there yet.
    """

    file: Path
    state_dir: Path
    connect: ConnectOptions
    address: str
    port: int
    workers: int
    take_over: bool = False
    worker_socket: tuple[Path, int] | None = None
    database: str | None = None
    url: str | None = None
    certificate: Path | None = None
    adopt: bool = False
    move_state: bool = False
    netconf_socket: tuple[Path, int | None] | None = None


def socket_in(directory: Path, name: str = SOCKET) -> Path:
    """A socket of the core. Raises CncError where its path is longer than a socket's may be."""
    path = directory / name
    if len(os.fsencode(path)) > _SOCKET_PATH_MAX:
        raise CncError(
            f"{path}: longer than the {_SOCKET_PATH_MAX} octets that the path of a socket has",
            hint="name a directory with a shorter path with --state-dir",
        )
    return path
