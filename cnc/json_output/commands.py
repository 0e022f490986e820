"""The document of each command, for those who want all of them: this imports every room."""

from __future__ import annotations

from typing import Any

from cnc.json_output.captures import Verified
from cnc.json_output.comparison import Difference
from cnc.json_output.document import Config, Error
from cnc.json_output.history import Rollout
from cnc.json_output.path import Path
from cnc.json_output.planning import CheckedIntent, CheckedPlan, Discovered, PlanFile
from cnc.json_output.service import NewToken, Token
from cnc.json_output.switches import Diagnosis, PortState, Push
from cnc.json_output.watch import Event
from cnc.laboratory import registration
from cnc.model.transmissions import Transmission

_LABORATORY = registration()

# By the words of the command. What each prints is one of these.
BY_COMMAND: dict[str, Any] = {
    "check": CheckedIntent | CheckedPlan,
    "config": Config,
    "diff": Difference,
    "discover": Discovered,
    "doctor": Diagnosis,
    "history": list[Rollout] | Rollout,
    **(_LABORATORY.documents() if _LABORATORY else {}),
    "path": Path,
    "plan": PlanFile,
    "push": Push,
    "rollback": Push,
    "show": PlanFile,
    "status": list[PortState],
    "talkers": list[Transmission],
    "token add": NewToken,
    "token list": list[Token],
    "token rotate": NewToken,
    "token key": Token,
    "verify": Verified,
    "watch": Event,
    "error": Error,
}
