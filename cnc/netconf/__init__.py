"""Talking to switches: one session each (`device`), one change for all (`rollout`).

    push  ─►  rollout      find what differs, lock, choose the base time
                └─►  transaction   the two phases, and the way back
    recovery               what a controller that died has left

Before a plan is made, `limits` asks what the ports can do; `compare` asks what they run.
"""

from cnc.netconf.compare import PortStatus, status
from cnc.netconf.device import ConnectOptions
from cnc.netconf.limits import discover
from cnc.netconf.push import push
from cnc.netconf.recovery import resume, roll_back, unresolved
from cnc.netconf.rollout import Report

__all__ = [
    "ConnectOptions",
    "PortStatus",
    "Report",
    "discover",
    "push",
    "resume",
    "roll_back",
    "status",
    "unresolved",
]
