"""What the nursery is asked to do."""

from __future__ import annotations

import signal
from dataclasses import dataclass

from tests.scale.chassis import Chassis

AGENT = "tsn-agent"
NETCONF_SERVER = "tsn-netconfd"
PROGRAMS = (AGENT, NETCONF_SERVER)


@dataclass(frozen=True)
class Start:
    """Start these programs. Answered with their process ids, or what one that failed has logged."""

    programs: tuple[tuple[Chassis, str], ...]


@dataclass(frozen=True)
class End:
    """Send a signal that ends this program. Answered, with None, when it has ended."""

    pid: int
    number: signal.Signals
