"""Talking to switches: one session each (`device`), one change for all (`rollout`)."""

from cnc.netconf.compare import PortStatus, status
from cnc.netconf.device import ConnectOptions
from cnc.netconf.rollout import Report, push

__all__ = ["ConnectOptions", "PortStatus", "Report", "push", "status"]
