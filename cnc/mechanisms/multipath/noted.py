"""What `cnc watch` tells of connections and their paths, as the station notifies it.

Subflows that open and close are not told: a station has as many as its programs connect.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from cnc.mechanism import Noted
from cnc.mechanisms.multipath.leaves import MULTIPATH


class Kind(StrEnum):
    """The notifications of tsn-multipath that are events."""

    MODE_CHANGED = "mode-changed"
    FALL_BACK = "fall-back"
    DATA_LIMIT_NEAR = "data-limit-near"
    PATH_DEMOTED = "path-demoted"
    PATH_RESTORED = "path-restored"


def told(kind: StrEnum, leaves: Mapping[str, str]) -> tuple[str, str]:
    """The port, or "" for the station, and the words."""

    def said(leaf: str) -> str:
        return leaves.get(leaf, "?")

    match kind:
        case Kind.MODE_CHANGED:
            text = f"connection {said('token')} is {said('mode')}, was {said('before')}"
            return "", f"{text}: {said('reason')}"
        case Kind.FALL_BACK:
            peer = f"{said('remote')} port {said('remote-port')}"
            return "", f"the connection from {said('local')} to {peer} is plain TCP"
        case Kind.DATA_LIMIT_NEAR:
            return said("interface"), f"{said('octets')} octets of its data limit are used up"
        case Kind.PATH_DEMOTED:
            return said("interface"), f"is a backup of every connection: {said('reason')}"
        case _:
            return said("interface"), "is again what the modes of connections make of it"


NOTED = Noted(MULTIPATH, Kind, told)
