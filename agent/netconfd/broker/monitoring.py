"""The server's state: /netconf-state of RFC 6022, in sysrepo's operational datastore.

Every read operation shows it, and access control applies to it as to any other state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from agent.netconfd.broker.current_library import CurrentLibrary
from agent.netconfd.broker.sessions import Session, Sessions
from agent.netconfd.capabilities import DATASTORES
from agent.netconfd.session_report import Counters
from agent.sysrepo import SysrepoConnection

MODULE = "ietf-netconf-monitoring"


class Monitoring:
    """Published until `close`. Raises SysrepoError if the module is not installed."""

    def __init__(
        self,
        connection: SysrepoConnection,
        sessions: Sessions,
        capabilities: Sequence[str],
        library: CurrentLibrary,
    ) -> None:
        """`capabilities`: those that do not depend on the modules installed."""
        self._sessions = sessions
        self._capabilities = capabilities
        self._library = library
        self._started = datetime.now(UTC)
        self._bad_hellos = 0
        self._dropped = 0
        self._session = connection.start_session("operational")
        for name, read in (
            ("capabilities", self._read_capabilities),
            ("datastores", self._read_datastores),
            ("schemas", self._read_schemas),
            ("sessions", self._read_sessions),
            ("statistics", self._read_statistics),
        ):
            self._session.subscribe_oper_data_request(
                MODULE, f"/{MODULE}:netconf-state/{name}", _answering(name, read)
            )

    def close(self) -> None:
        """Stop publishing. Blocks until no read is in progress."""
        self._session.stop()

    def session_ended(self, session: Session, reason: str) -> None:
        """Count how a session ended, by RFC 6470's reasons."""
        if reason == "bad-hello":
            self._bad_hellos += 1
        elif reason != "closed" and session.killed_by is None:
            self._dropped += 1

    # sysrepo's threads call these while the event loop goes on; a copied list is all they share.

    def _read_capabilities(self) -> dict[str, Any]:
        return {"capability": [*self._capabilities, *self._library.get().capabilities()]}

    def _read_datastores(self) -> dict[str, Any]:
        return {"datastore": [self._datastore(name) for name in DATASTORES]}

    def _datastore(self, name: str) -> dict[str, Any]:
        for session in self._sessions.all():
            locked = session.locks.get(name)
            if locked is not None:
                lock = {"locked-by-session": session.number, "locked-time": _time(locked)}
                return {"name": name, "locks": {"global-lock": lock}}
        return {"name": name}

    def _read_schemas(self) -> dict[str, Any]:
        return {
            "schema": [
                {
                    "identifier": schema.name,
                    "version": schema.revision,
                    "format": format_,
                    "namespace": schema.namespace,
                    "location": ["NETCONF"],
                }
                for schema in self._library.get().schemas
                for format_ in schema.formats
            ]
        }

    def _read_sessions(self) -> dict[str, Any]:
        return {"session": [_session(session) for session in self._sessions.all()]}

    def _read_statistics(self) -> dict[str, Any]:
        return {
            "netconf-start-time": _time(self._started),
            "in-bad-hellos": _counter32(self._bad_hellos),
            "in-sessions": _counter32(self._sessions.opened),
            "dropped-sessions": _counter32(self._dropped),
            **_counters(self._sessions.counters()),
        }


def _answering(
    name: str, read: Callable[[], dict[str, Any]]
) -> Callable[[str, object], dict[str, Any]]:
    def answer(_xpath: str, _private: object) -> dict[str, Any]:
        return {"netconf-state": {name: read()}}

    return answer


def _session(session: Session) -> dict[str, Any]:
    return {
        "session-id": session.number,
        "transport": "netconf-ssh",
        "username": session.user,
        "source-host": session.peer,
        "login-time": _time(session.login_time),
        **_counters(session.counters),
    }


def _counters(counters: Counters) -> dict[str, int]:
    return {name.replace("_", "-"): _counter32(value) for name, value in asdict(counters).items()}


def _counter32(value: int) -> int:
    return value % 2**32


def _time(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"
