"""How to log in to the switches: light, for what only passes it on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ConnectOptions:
    """How to log in to the switches: private key, known_hosts file, time-out of each reply, and the
    file that leads to those behind other hosts."""

    identity: Path
    known_hosts: Path
    timeout_s: float = 30.0
    ssh_config: Path | None = None
