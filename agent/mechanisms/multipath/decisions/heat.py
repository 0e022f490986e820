"""Algorithm 4: connections have one path while the machine is hot.

The listing numbers its steps so that the branch is open: from the stop level on, subflows are
controlled; below it, the frequency of the processor is. Only the first is done here.
"""

from __future__ import annotations

from agent.mechanisms.multipath.decisions.policy import Heat


def is_hot(was_hot: bool, millicelsius: int | None, policy: Heat | None) -> bool:
    """From `stop_millicelsius` on, until it is below `restart_millicelsius`."""
    if policy is None or millicelsius is None:
        return False
    if was_hot:
        return millicelsius >= policy.restart_millicelsius
    return millicelsius >= policy.stop_millicelsius
