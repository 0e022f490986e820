"""The memory that the long messages of all sessions take together."""

from __future__ import annotations

from collections.abc import Callable

from agent.netconfd.broker.sessions import Session
from agent.netconfd.errors import RpcError


class MemoryBudget:
    """Grants session processes the octets of the long messages that they hold."""

    def __init__(self, limit_octets: Callable[[], int]) -> None:
        self._limit_octets = limit_octets
        self._taken_octets = 0

    def hold(self, session: Session, octets: int) -> None:
        """Replace the session's share. Raises RpcError too-big, then nothing has changed."""
        taken_octets = self._taken_octets - session.held_octets + octets
        limit_octets = self._limit_octets()
        if octets > session.held_octets and taken_octets > limit_octets:
            raise RpcError(
                "too-big", f"the long messages of all sessions exceed {limit_octets} octets", "rpc"
            )
        self._taken_octets = taken_octets
        session.held_octets = octets
