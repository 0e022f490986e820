"""Every rollout of this controller, kept in a file.

The journal of a running rollout records its progress: if the controller dies, the next one reads
there which rollout to complete or to roll back.
"""

from cnc.rollout.history.journal import Journal
from cnc.rollout.history.record import Outcome, Phase, Rollout, SwitchChange, address_of
from cnc.rollout.history.store import FILE_NAME, History

__all__ = [
    "FILE_NAME",
    "History",
    "Journal",
    "Outcome",
    "Phase",
    "Rollout",
    "SwitchChange",
    "address_of",
]
