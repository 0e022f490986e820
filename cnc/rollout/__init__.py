"""One change of all switches, or of none.

    push  ─►  rollout      find what differs, lock, choose the base time
                └─►  transaction   the two phases, and the rollback
    recovery               ends the rollouts of controllers that died
    history                every rollout of this controller, and the journal of a running one

`stated_ports` reads what switches state of their ports before planning; `compare` reads what
they run; `path` follows one stream through them.
"""

from cnc.data_tree.stated import StatedPorts
from cnc.rollout.claim import Met, claim, meet
from cnc.rollout.compare import PortStatus, status, status_without_plan
from cnc.rollout.doctor import Visit, diagnose, states, visit
from cnc.rollout.events import Step, StepBegun
from cnc.rollout.history import DATABASE, FILE_NAME, History, Phase, Rollout
from cnc.rollout.left_over import NEXT_PUSH, LeftOver, left_over
from cnc.rollout.path import StreamPath, follow, require_bridged
from cnc.rollout.preflight import Check, Finding, Verdict
from cnc.rollout.push import push
from cnc.rollout.recovery import describe, resume, roll_back, unresolved
from cnc.rollout.rollout import FormerWays, Report
from cnc.rollout.stated_ports import read_ports, stated
from cnc.rollout.transaction import CHOICES
from cnc.switch.rollout_id import Term, this_controller

__all__ = [
    "CHOICES",
    "DATABASE",
    "FILE_NAME",
    "NEXT_PUSH",
    "Check",
    "Finding",
    "FormerWays",
    "History",
    "LeftOver",
    "Met",
    "Phase",
    "PortStatus",
    "Report",
    "Rollout",
    "StatedPorts",
    "Step",
    "StepBegun",
    "StreamPath",
    "Term",
    "Verdict",
    "Visit",
    "claim",
    "describe",
    "diagnose",
    "follow",
    "left_over",
    "meet",
    "push",
    "read_ports",
    "require_bridged",
    "resume",
    "roll_back",
    "stated",
    "states",
    "status",
    "status_without_plan",
    "this_controller",
    "unresolved",
    "visit",
]
