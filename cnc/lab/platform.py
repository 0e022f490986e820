"""Where a measurement ran: which kernel, and which clock."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass

from cnc import clock


@dataclass(frozen=True, slots=True)
class Platform:
    """The kernel and clock all figures were taken on.

    `exact`: only sleeping takes time, so frames can be judged to the microsecond.
    """

    kernel: str
    clock: str
    exact: bool

    @classmethod
    def here(cls) -> Platform:
        """As set by the runner of `cnc.lab.vm`; without it, the machine's own kernel."""
        lane = os.environ.get("TSN_VM", "own")
        virtual = os.environ.get("TSN_VIRTUAL_TIME") == "1"
        names = {"uml": "user-mode Linux", "qemu": "QEMU", "own": "this machine's own kernel"}
        return cls(
            kernel=f"Linux {platform.release()}, {names.get(lane, lane)}",
            clock="virtual time" if virtual else "real time",
            exact=clock.is_exact(),
        )

    def __str__(self) -> str:
        return f"{self.kernel}, {self.clock}"
