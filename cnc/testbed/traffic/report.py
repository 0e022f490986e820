"""What came of flows that were sent through a lab."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cnc.testbed.lab.platform import Platform
    from cnc.testbed.traffic.measure import Lateness, Spread, Summary


@dataclass(frozen=True, slots=True)
class TrafficReport:
    """Each flow's figures, and the clock that they were measured with.

    `wake_up` is how late talkers woke up; `lateness` is None where no stream was sent. `exceeded`
    is what the plan rests on that was found otherwise: its bounds are void then.
    """

    flows: Sequence[Summary]
    wake_up: Spread
    platform: Platform
    lateness: Lateness | None = None
    exceeded: str | None = None

    @property
    def is_judged(self) -> bool:
        """On a real clock only if talkers were no later than the plan allows and nothing else that
        it rests on was exceeded."""
        return self.platform.exact or (
            self.lateness is not None and self.lateness.is_allowed and not self.exceeded
        )

    @property
    def violations(self) -> list[str]:
        """What broke its promise; none where nothing is judged."""
        return [
            line
            for summary in (self.flows if self.is_judged else ())
            for line in summary.violations(of_gates=self.platform.exact)
        ]
