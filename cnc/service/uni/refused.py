"""A request that this network does not carry as it is."""

from __future__ import annotations

from cnc.errors import CncError
from cnc.service.failures import Failure

__all__ = ["Failure", "Refused"]


class Refused(CncError):
    """A stream that this network does not carry as it is asked for, whatever the plan, with its
    code (IEEE 802.1Q-2022 table 46-15)."""

    def __init__(self, failure_code: int, text: str, hint: str) -> None:
        super().__init__(text, hint=hint)
        self.failure_code = int(failure_code)
