"""Plans for scheduled traffic (IEEE 802.1Qbv), and their deployment to Linux switches.

The names in `__all__` are the public API: docs/reference/api.md. They stay as they are within a
minor version; everything else may change. A name is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from cnc.version import __version__

if TYPE_CHECKING:
    from cnc.app import (
        Diagnosis,
        doctor,
        dump_plan,
        judge,
        limit,
        load_intent,
        load_plan,
        open_history,
        plan,
    )
    from cnc.check import Violation
    from cnc.errors import CncError, InputError, PlanRejected, RolloutError, Unschedulable
    from cnc.model import Intent, Plan
    from cnc.planner import Changes, Live
    from cnc.rollout import (
        Finding,
        History,
        PortStatus,
        Report,
        Rollout,
        Step,
        StepBegun,
        resume,
        roll_back,
        status,
    )
    from cnc.rollout.push import push
    from cnc.switch import ConnectOptions

__all__ = [
    "Changes",
    "CncError",
    "ConnectOptions",
    "Diagnosis",
    "Finding",
    "History",
    "InputError",
    "Intent",
    "Live",
    "Plan",
    "PlanRejected",
    "PortStatus",
    "Report",
    "Rollout",
    "RolloutError",
    "Step",
    "StepBegun",
    "Unschedulable",
    "Violation",
    "__version__",
    "doctor",
    "dump_plan",
    "judge",
    "limit",
    "load_intent",
    "load_plan",
    "open_history",
    "plan",
    "push",
    "resume",
    "roll_back",
    "status",
]

# Where a name is defined; all others are those of the application layer.
_ROOMS = {
    **dict.fromkeys(["CncError", "InputError", "PlanRejected", "RolloutError"], "cnc.errors"),
    **dict.fromkeys(["Finding", "History", "PortStatus", "Report", "Rollout"], "cnc.rollout"),
    **dict.fromkeys(["Step", "StepBegun", "push", "resume", "roll_back", "status"], "cnc.rollout"),
    **dict.fromkeys(["Changes", "Live"], "cnc.planner"),
    **dict.fromkeys(["Intent", "Plan"], "cnc.model"),
    "ConnectOptions": "cnc.switch",
    "Unschedulable": "cnc.errors",
    "Violation": "cnc.check",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_ROOMS.get(name, "cnc.app")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
