"""Every rollout of this controller, kept in a file, or of several in a database that they share.

The journal of a running rollout records its progress: if the controller dies, the next one reads
there which rollout to complete or to roll back.
"""

from cnc.rollout.history.database import in_progress
from cnc.rollout.history.journal import Journal
from cnc.rollout.history.place import DATABASE, Place
from cnc.rollout.history.record import Outcome, Phase, Rollout, SwitchChange, address_of
from cnc.rollout.history.store import FILE_NAME, History

__all__ = [
    "DATABASE",
    "FILE_NAME",
    "History",
    "Journal",
    "Outcome",
    "Phase",
    "Place",
    "Rollout",
    "SwitchChange",
    "address_of",
    "in_progress",
]
