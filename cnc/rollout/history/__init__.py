"""Every rollout of this controller, kept in a file.

While a rollout is made, its journal says how far it came: should the controller die, the next one
reads there what to finish or to take back.
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
