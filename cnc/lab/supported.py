"""Checks that the lab can emulate an intent, beside its addresses (`cnc.addressing`)."""

from __future__ import annotations

from cnc.errors import InputError
from cnc.lab.management import SWITCH_PORT
from cnc.model import Intent


def check_streams(intent: Intent) -> None:
    """Refuse streams that the lab cannot forward as a network of switches would.

    Raises:
        InputError: a stream is to be sent over two paths.
    """
    for stream in intent.streams.values():
        if stream.paths > 1:
            raise InputError(
                f"stream {stream.name} asks for {stream.paths} paths, and cnc lab does not "
                "replicate frames yet",
                hint="to emulate it over one path, leave out its key paths",
            )


def check_ports(intent: Intent) -> None:
    """Refuse ports named as an interface that every node of the lab has.

    Raises:
        InputError: a port has such a name.
    """
    for port in intent.network.links:
        reserved = ("lo", SWITCH_PORT) if port.node in intent.network.bridges else ("lo",)
        if port.port in reserved:
            raise InputError(
                f"port {port}: a node of the lab has an interface {port.port} of its own",
                hint="give the port another name",
            )
