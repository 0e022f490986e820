"""The server's own notifications: those of RFC 6470.

They are published here and not sent through sysrepo: as soon as a program subscribes to
`ietf-netconf-notifications` there, sysrepo adds a netconf-config-change of its own to each commit,
with an entry for every changed leaf and before the client gets its reply.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

from agent.netconfd.broker.events.log import Stream
from agent.netconfd.broker.sessions import Session
from agent.netconfd.session_report import Reason
from agent.sysrepo import LibyangError, SysrepoConnection, SysrepoError

LOG = logging.getLogger(__name__)

MODULE = "ietf-netconf-notifications"

# What every user can cause without end.
_OF_SESSIONS = ("netconf-session-start", "netconf-session-end")

ConfirmEvent = Literal["start", "cancel", "timeout", "extend", "complete"]
Content = Mapping[str, Any]


class Events:
    """Creates the notifications in a thread of its own, so that requests do not wait for them."""

    def __init__(self, connection: SysrepoConnection, stream: Stream) -> None:
        self._connection = connection
        self._stream = stream
        self._thread = ThreadPoolExecutor(1, "events")

    def session_started(self, session: Session) -> None:
        """netconf-session-start."""
        self._send("netconf-session-start", by(session))

    def session_ended(self, session: Session, reason: Reason) -> None:
        """netconf-session-end; a killed session has no other reason."""
        content = {**by(session), "termination-reason": reason}
        if session.killed_by is not None:
            content |= {"termination-reason": "killed", "killed-by": session.killed_by}
        self._send("netconf-session-end", content)

    def confirmed_commit(
        self, event: ConfirmEvent, session: Session, timeout_s: int | None = None
    ) -> None:
        """netconf-confirmed-commit; `timeout_s` with start and extend alone."""
        # A timeout has no session.
        content = {} if event == "timeout" else by(session)
        if timeout_s is not None:
            content["timeout"] = timeout_s
        self._send("netconf-confirmed-commit", {**content, "confirm-event": event})

    def config_changed(
        self, datastore: str, changed_by: Content, edits: Sequence[tuple[str, str]]
    ) -> None:
        """netconf-config-change; an edit is the path of a node and the operation."""
        self._send(
            "netconf-config-change",
            {
                "changed-by": changed_by,
                "datastore": datastore,
                "edit": [{"target": target, "operation": done} for target, done in edits],
            },
        )

    def capability_modified(self, capability: str) -> None:
        """netconf-capability-change: the parameters of a capability have changed."""
        self._send(
            "netconf-capability-change",
            {"changed-by": {"server": None}, "modified-capability": [capability]},
        )

    async def settle(self) -> None:
        """Wait until all earlier notifications are in the stream."""
        await asyncio.get_running_loop().run_in_executor(self._thread, lambda: None)

    def close(self) -> None:
        """Wait until all notifications are in the stream, then end."""
        self._thread.shutdown()

    def _send(self, name: str, content: Content) -> None:
        self._thread.submit(self._publish, name, content, time.time_ns())

    def _publish(self, name: str, content: Content, time_ns: int) -> None:
        try:
            with self._connection.get_ly_ctx() as context:
                tree = context.get_module(MODULE).parse_data_dict(
                    {name: content}, notification=True, validate=False, strict=True
                )
                try:
                    notification = tree.print_mem("xml", pretty=False)
                finally:
                    tree.free()
            self._stream.publish(notification, time_ns, of_sessions=name in _OF_SESSIONS)
        except (LibyangError, SysrepoError):
            LOG.exception("cannot report a %s", name)


def by(session: Session) -> dict[str, Any]:
    """The session parameters of every notification (RFC 6470)."""
    # The server itself has no source address.
    host = {"source-host": session.peer} if session.number else {}
    return {"username": session.user, "session-id": session.number, **host}
