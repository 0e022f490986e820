"""Changes of the configuration by any program: netconf-config-change (RFC 6470).

A commit waits for each of its callbacks, so a callback reads only the top of the change: a created
subtree is one edit, however large, and a change in more than MAX_EDITS places is reported at their
common ancestor.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any

from agent.sysrepo import DContainer, DList, SysrepoConnection, SysrepoSession
from agent.sysrepo.changes import (
    ChangeSubscription,
    change_diff,
)
from agent.sysrepo.originator import get_originator

MAX_EDITS = 64

# Of a diff's operations, those that change the node; the other one is none.
_OPERATIONS = frozenset({"create", "delete", "replace"})

# Datastore, changed-by, edits as in `summary`.
OnChange = Callable[[str, Mapping[str, Any], list[tuple[str, str]]], None]


class ConfigWatch:
    """The changes of one datastore, in the modules that are added."""

    def __init__(self, connection: SysrepoConnection, datastore: str, on_change: OnChange) -> None:
        self._datastore = datastore
        self._on_change = on_change
        self._subscription = ChangeSubscription(connection, datastore, self._changed)

    def watch(self, module: str) -> None:
        """Watch this module too. Raises SysrepoError."""
        self._subscription.add(module)

    def close(self) -> None:
        """Stop watching."""
        self._subscription.close()

    def _changed(self, session: SysrepoSession) -> None:
        with change_diff(session) as diff:
            edits = summary(diff)
        if edits:
            self._on_change(self._datastore, _changed_by(session), edits)


def summary(diff: Iterable[Any]) -> list[tuple[str, str]]:
    """Path and operation of the topmost changed nodes of a libyang diff, at most MAX_EDITS.

    Where there are more, the node that holds them all counts as merged into.
    """
    edits = []
    unchanged = deque(diff)
    while unchanged:
        node = unchanged.popleft()
        operation = node.get_meta("operation")
        if operation in _OPERATIONS:
            edits.append((node.path(), operation))
            continue
        below = list(islice(_children(node), MAX_EDITS + 1))
        if len(edits) + len(unchanged) + len(below) > MAX_EDITS:
            edits.append((node.path(), "merge"))
        else:
            unchanged.extend(below)
    return edits


def _children(node: Any) -> Iterable[Any]:
    is_inner = isinstance(node, DContainer | DList)
    return node.children(no_keys=True) if is_inner else ()


def _changed_by(session: SysrepoSession) -> Mapping[str, Any]:
    """The NETCONF session that made a change; `server` for all other programs."""
    originator = get_originator(session)
    if originator is None:
        return {"server": None}
    by = {"username": originator.user, "source-host": originator.address}
    return {
        **{name: text for name, text in by.items() if text is not None},
        "session-id": originator.session_id,
    }
