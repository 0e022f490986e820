"""Algorithm 3: a path carries data while its radio link is one of those that are configured."""

from __future__ import annotations

from typing import NamedTuple

from agent.mechanisms.multipath.decisions.policy import PathPolicy


class Radio(NamedTuple):
    """What the driver says; None: it says nothing of that."""

    technology: str | None = None
    signal_dbm: int | None = None
    rate_bps: int | None = None


def is_poor(path: PathPolicy, radio: Radio) -> str | None:
    """Why the path is a backup; None: it is not for its radio link, or that is unknown."""
    wanted, has = path.radio_technologies, radio.technology
    if wanted and has is not None and has not in wanted:
        return f"its radio link has {has}"
    least, signal = path.minimum_signal_dbm, radio.signal_dbm
    if least is not None and signal is not None and signal < least:
        return f"its signal is {signal} dBm, less than {least}"
    return None
