"""Who changed the configuration where: netconf-config-change (RFC 6470), whoever made the change.

sysrepo lets a commit wait for each callback about it, so a callback looks at the top of the change
only: a created subtree is one edit, however large, and a change in more than MAX_EDITS places is
reported where its places meet.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import count, islice
from typing import Any

import libyang
import sysrepo
from _sysrepo import ffi, lib

from agent.netconfd.store.libsysrepo import change_diff

MAX_EDITS = 64

# The originator whose data sysrepo's own notifications understand, and other subscribers too: the
# number of a NETCONF session as uint32, its user as a string. The client's address is our addition.
ORIGINATOR = "netopeer2"

# Of a diff's operations, those that change the node; the other one is none.
_OPERATIONS = frozenset({"create", "delete", "replace"})

# Datastore, who changed it, the edits.
OnChange = Callable[[str, Mapping[str, Any], list[tuple[str, str]]], None]


def identify(session: sysrepo.session.SysrepoSession, number: int, user: str, peer: str) -> None:
    """Let subscribers know whose changes this sysrepo session makes."""
    sysrepo.errors.check_call(lib.sr_session_set_orig_name, session.cdata, ORIGINATOR.encode())
    octets = number.to_bytes(4, sys.byteorder)
    for data in (octets, user.encode() + b"\0", peer.encode() + b"\0"):
        sysrepo.errors.check_call(lib.sr_session_push_orig_data, session.cdata, len(data), data)


class ConfigWatch:
    """One datastore's changes, of every module that it is told to watch."""

    def __init__(
        self, connection: sysrepo.SysrepoConnection, datastore: str, on_change: OnChange
    ) -> None:
        self._datastore = datastore
        self._on_change = on_change
        self._session = connection.start_session(datastore)
        # All modules share one subscription, and so one thread.
        self._subscription = sysrepo.subscription.Subscription(self._changed, unsafe=True)
        self._shared = ffi.new("sr_subscription_ctx_t **")
        self._session.subscriptions.append(self._subscription)

    def watch(self, module: str) -> None:
        """Watch this module too. Raises sysrepo.SysrepoError."""
        # Passive: who only watches must not make running show up as applied configuration.
        sysrepo.errors.check_call(
            lib.sr_module_change_subscribe,
            self._session.cdata,
            module.encode(),
            ffi.NULL,
            lib.srpy_module_change_cb,
            self._subscription.handle,
            0,
            lib.SR_SUBSCR_PASSIVE | lib.SR_SUBSCR_DONE_ONLY,
            self._shared,
        )
        self._subscription.cdata = self._shared[0]

    def close(self) -> None:
        """Watch no more."""
        self._session.stop()

    def _changed(self, session: sysrepo.session.SysrepoSession, *_: object) -> None:
        """A module has changed; `session` tells what and by whom until this returns."""
        pointer = change_diff(session)
        if pointer is None:
            return
        with session.get_ly_ctx() as context:
            node = libyang.util.ffi.cast("struct lyd_node *", pointer)
            edits = summary(libyang.DNode.new(context, node).siblings())
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
    is_inner = isinstance(node, libyang.DContainer | libyang.DList)
    return node.children(no_keys=True) if is_inner else ()


def _changed_by(session: sysrepo.session.SysrepoSession) -> Mapping[str, Any]:
    """The NETCONF session that made a change; for all others this host did it."""
    if session.get_originator_name() != ORIGINATOR:
        return {"server": None}
    number, *strings = _originator_data(session)
    names = ("username", "source-host")
    by = {
        name: text.removesuffix(b"\0").decode() for name, text in zip(names, strings, strict=False)
    }
    return {**by, "session-id": int.from_bytes(number, sys.byteorder)}


def _originator_data(session: sysrepo.session.SysrepoSession) -> Iterator[bytes]:
    octets, data = ffi.new("uint32_t *"), ffi.new("const void **")
    for index in count():
        if lib.sr_session_get_orig_data(session.cdata, index, octets, data) or not octets[0]:
            return
        yield ffi.buffer(data[0], octets[0])[:]
