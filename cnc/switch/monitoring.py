"""State of a NETCONF server: its locks and their holders (RFC 6022), its modules (RFC 8525)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lxml.builder import ElementMaker

from cnc.data_tree import reply
from cnc.data_tree.reply import Element

MONITORING = "urn:ietf:params:xml:ns:yang:ietf-netconf-monitoring"
YANG_LIBRARY = "urn:ietf:params:xml:ns:yang:ietf-yang-library"

# RFC 6022: one at a datastore, of which RFC 8342 has six. Each is a line of `cnc doctor`.
LOCKS_MAX = 16

_STATE = ElementMaker(namespace=MONITORING, nsmap={None: MONITORING})
_LIBRARY = ElementMaker(namespace=YANG_LIBRARY, nsmap={None: YANG_LIBRARY})
_NAMESPACES = {"m": MONITORING, "y": YANG_LIBRARY}


@dataclass(frozen=True, slots=True)
class Lock:
    """A datastore that a session has locked; `holder` describes the session as far as it is known,
    and `user` is whose it is."""

    datastore: str
    session_id: str
    holder: str
    user: str = ""


@dataclass(frozen=True, slots=True)
class ServerReport:
    """`modules` are those that hold data, with the features of each; empty if none is reported."""

    locks: tuple[Lock, ...]
    modules: Mapping[str, frozenset[str]]


def server_filter() -> list[Element]:
    """Subtree filter: locks, sessions, and the names and features of all modules."""
    return [
        _STATE("netconf-state", _STATE("datastores"), _STATE("sessions")),
        _LIBRARY(
            "yang-library",
            _LIBRARY("module-set", _LIBRARY("module", _LIBRARY("name"), _LIBRARY("feature"))),
        ),
    ]


def server_report(data: Element) -> ServerReport:
    """Parses the reply to `server_filter`; nodes that the server does not report are left out.

    Raises the errors of `reply`.
    """
    sessions = {
        _text(session, "m:session-id"): session
        for session in reply.entries(data, "m:netconf-state/m:sessions/m:session", _NAMESPACES)
    }
    locks = []
    datastores = "m:netconf-state/m:datastores/m:datastore"
    for datastore in reply.entries(data, datastores, _NAMESPACES, LOCKS_MAX):
        for lock in reply.entries(datastore, "m:locks/m:global-lock", _NAMESPACES, LOCKS_MAX):
            number = _text(lock, "m:locked-by-session")
            session = sessions.get(number)
            user = "" if session is None else _text(session, "m:username")
            locks.append(Lock(_text(datastore, "m:name"), number, _holder(session), user))
    modules: dict[str, frozenset[str]] = {}
    for module in reply.entries(data, "y:yang-library/y:module-set/y:module", _NAMESPACES):
        features = {
            feature.text or "" for feature in reply.entries(module, "y:feature", _NAMESPACES)
        }
        modules[_text(module, "y:name")] = frozenset(features)
    return ServerReport(tuple(locks), modules)


def _holder(session: Element | None) -> str:
    """`user from host`."""
    if session is None:
        return "an unknown holder"
    user = _text(session, "m:username") or "an unknown user"
    host = _text(session, "m:source-host")
    return f"{user} from {host}" if host else user


def _text(parent: Element, path: str) -> str:
    return reply.text(parent, path, _NAMESPACES) or ""
