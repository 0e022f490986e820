"""What has changed between two answers of the ptp4l that keeps the clock. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from agent.events import PtpGrandmasterChange, PtpPortStateChange
from agent.model import PtpStatus


def changes(
    instance: int, ports: Mapping[int, str], before: PtpStatus, now: PtpStatus
) -> Iterator[PtpGrandmasterChange | PtpPortStateChange]:
    """The events; `ports` are the interfaces by PTP's port number."""
    if now.grandmaster_identity != before.grandmaster_identity:
        yield PtpGrandmasterChange(
            instance,
            now.grandmaster_identity,
            before.grandmaster_identity,
            now.is_grandmaster,
        )
    for number, state in sorted(now.ports.items()):
        was = before.ports.get(number, state)
        if was is not state and number in ports:
            yield PtpPortStateChange(instance, ports[number], state, was)
