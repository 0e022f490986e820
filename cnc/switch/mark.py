"""The record of a rollout on a switch: written with the lists, and gone with them.

It is configuration (`/tsn-linux:rollout`), so a switch that goes back to its former lists goes back
to their record as well. What a switch says here is therefore what it runs, whatever became of the
controller that made the change.
"""

from __future__ import annotations

import getpass
import socket
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import uuid4

from lxml.builder import ElementMaker

from cnc.switch.readback import Element
from cnc.switch.tree import TSN_LINUX

_TSNL = ElementMaker(namespace=TSN_LINUX, nsmap={None: TSN_LINUX})
_NAMESPACES = {"t": TSN_LINUX}


@dataclass(frozen=True, slots=True)
class Mark:
    """`id` is a UUID, the same on all switches of a rollout; `controller` is user@host."""

    id: str
    controller: str
    time: str

    @classmethod
    def of_this_controller(cls) -> Mark:
        """A mark for a rollout that begins now."""
        return cls(
            str(uuid4()),
            f"{getpass.getuser()}@{socket.gethostname()}",
            datetime.now(UTC).isoformat(timespec="seconds"),
        )


def mark_filter() -> Element:
    """Subtree filter: the record."""
    return _TSNL("rollout")


def element_of(mark: Mark) -> Element:
    """The record as configuration."""
    return _TSNL(
        "rollout",
        _TSNL("id", mark.id),
        _TSNL("controller", mark.controller),
        _TSNL("time", mark.time),
    )


def mark_in(data: Element) -> Mark | None:
    """The record in the reply to a get-config; None where no rollout has been."""
    rollout = data.find("t:rollout", _NAMESPACES)
    identity = None if rollout is None else rollout.findtext("t:id", namespaces=_NAMESPACES)
    if rollout is None or identity is None:
        return None
    texts = (
        rollout.findtext(f"t:{leaf}", default="", namespaces=_NAMESPACES)
        for leaf in ("controller", "time")
    )
    return Mark(identity, *texts)
