"""What is asked at a place, as a rollout has it."""

from __future__ import annotations

from cnc.model import PortConfiguration, PortGates, PortSettings


def asked(*parts: object) -> PortSettings:
    """Of a bridge how it forwards, of a port its gates (None: none) and what talkers are told."""
    return PortSettings.of(
        *(PortGates(its) if isinstance(its, PortConfiguration | None) else its for its in parts)
    )
