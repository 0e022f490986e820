"""The wall clock of this process is set, as by NTP after a start or by hand."""

from __future__ import annotations

import sys
import time
from datetime import datetime, timedelta


def step(seconds):
    """What this program reads of it from now on is so much later."""
    read, read_ns = time.time, time.time_ns

    class Stepped(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.now(tz) + timedelta(seconds=seconds)

    time.time, time.time_ns = lambda: read() + seconds, lambda: read_ns() + seconds * 10**9
    for name, module in [*sys.modules.items()]:
        if name.startswith("cnc.") and getattr(module, "datetime", None) is datetime:
            module.datetime = Stepped
