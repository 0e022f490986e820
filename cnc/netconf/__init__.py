"""Talking to switches: one session each (`device`), one change for all (`rollout`).

Before a plan is made, `limits` asks what their ports can do.
"""

from cnc.netconf.compare import PortStatus, status
from cnc.netconf.device import ConnectOptions
from cnc.netconf.limits import discover
from cnc.netconf.rollout import Report, push

__all__ = ["ConnectOptions", "PortStatus", "Report", "discover", "push", "status"]
