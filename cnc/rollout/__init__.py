"""One change for all switches, or none.

    push  ─►  rollout      find what differs, lock, choose the base time
                └─►  transaction   the two phases, and the rollback
    recovery               what a controller that died has left open
    history                every rollout of this controller, and the journal of one under way

Before a plan is made, `port_limits` asks what the ports can do; `compare` asks what they run.
"""

from cnc.rollout.compare import PortStatus, status
from cnc.rollout.port_limits import discover
from cnc.rollout.push import push
from cnc.rollout.recovery import resume, roll_back, unresolved
from cnc.rollout.rollout import Report

__all__ = [
    "PortStatus",
    "Report",
    "discover",
    "push",
    "resume",
    "roll_back",
    "status",
    "unresolved",
]
