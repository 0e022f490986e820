"""What `cnc lab clocks` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cnc.json_output.document import Document
from cnc.testbed.lab.kernels.clock_history import NodeClock

if TYPE_CHECKING:
    from cnc.testbed.lab.kernels.clock_history import ClockHistory


class LabClocks(Document):
    """`cnc lab clocks`. Instants count from the start of the lab."""

    lab: str
    reference: str
    """The node from whose clock the others' distances are told: the first switch."""
    clock_error_ns: int
    """What a plan allows any two clocks to differ."""
    clocks: list[NodeClock]

    @classmethod
    def of(cls, history: ClockHistory) -> LabClocks:
        return cls(
            lab=history.intent.name,
            reference=history.reference,
            clock_error_ns=history.intent.network.clock_error_ns,
            clocks=[*history.nodes()],
        )
