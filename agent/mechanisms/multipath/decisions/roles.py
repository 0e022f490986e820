"""What each path is for one connection, and why: the modes, and what of a path overrides them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple

from agent.mechanisms.multipath.decisions.policy import ConnectionMode, PathPolicy


class Role(IntEnum):
    """Whether there is a subflow by a path, and whether it carries data while others do."""

    ABSENT = 0
    BACKUP = 1
    ACTIVE = 2


class Decided(NamedTuple):
    role: Role
    why: str


class Situation(NamedTuple):
    """What has become of a connection. `first` is the path it began by, `further` are those that
    are opened on demand, `download` says why it is a download; None: it is none."""

    first: str
    further: Collection[str] = ()
    why_further: str = ""
    download: str | None = None


def roles(
    mode: ConnectionMode,
    paths: Iterable[PathPolicy],
    its: Situation,
    demoted: Mapping[str, str],
    *,
    hot: bool,
) -> dict[str, Decided]:
    """By path. The first path of a connection is never absent: without a subflow it would end.

    `demoted` says by path why it is a backup, whatever the mode.
    """
    found = {}
    for path in paths:
        name = path.interface
        decided = _by_mode(mode, path, its)
        if decided.role is Role.ACTIVE and name in demoted:
            decided = Decided(Role.BACKUP, demoted[name])
        if hot and name != its.first:
            decided = Decided(Role.ABSENT, "the machine is hot")
        found[name] = decided
    return found


def _by_mode(mode: ConnectionMode, path: PathPolicy, its: Situation) -> Decided:
    role, why = Role.ACTIVE, f"mode {mode}"
    match mode:
        case ConnectionMode.RELIABILITY if path.is_backup:
            role = Role.BACKUP
        case _ if path.interface == its.first:
            why = "the connection began here"
        case ConnectionMode.SINGLE_PATH:
            role = Role.ABSENT
        case ConnectionMode.DOWNLOAD if its.download is None:
            role, why = Role.ABSENT, "it is no download yet"
        case ConnectionMode.DOWNLOAD:
            why = str(its.download)
        case ConnectionMode.ON_DEMAND if path.is_backup:
            role = Role.ACTIVE if path.interface in its.further else Role.ABSENT
            why = its.why_further or "the paths that there are suffice"
    return Decided(role, why)
