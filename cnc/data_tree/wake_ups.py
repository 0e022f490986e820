"""How late timers wake up, or talkers send, as a switch or an end station states it."""

from __future__ import annotations

from cnc.data_tree.reply import Element, Leaves
from cnc.model import WakeUps

_TIME_MAX_NS = 2**63 - 1


def wake_ups(parent: Element, container: str, namespace: str) -> WakeUps | None:
    """What is in a container of this name; None where nothing was measured.

    Raises ValueError where it is no lateness.
    """
    leaves = Leaves(namespace)
    count = leaves.optional_number(parent, f"{container}/count")
    maximum_ns = leaves.optional_number(parent, f"{container}/maximum-ns")
    if not count or maximum_ns is None:
        return None
    if not 0 <= maximum_ns <= _TIME_MAX_NS:
        raise ValueError(f"maximum-ns of {container} is {maximum_ns}, which is no lateness")
    return WakeUps(count, maximum_ns, leaves.optional_number(parent, f"{container}/quantile-ns"))
