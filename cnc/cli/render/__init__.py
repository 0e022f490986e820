"""What the commands print: text for people, JSON for programs; a module a command family."""

from cnc.cli.render.captures import captures
from cnc.cli.render.comparison import plan_difference, streams
from cnc.cli.render.doctor import diagnosis, findings
from cnc.cli.render.explanation import bound, no_place
from cnc.cli.render.history import other_plan, rollout, rollouts
from cnc.cli.render.output import INTERRUPTED, error, interrupted, misuse, warning
from cnc.cli.render.path import path
from cnc.cli.render.planning import chart, difference, intent, limits, plan, refused, verdict
from cnc.cli.render.status import status
from cnc.cli.render.switches import exposed, moves, push
from cnc.cli.render.talkers import talkers

__all__ = [
    "INTERRUPTED",
    "bound",
    "captures",
    "chart",
    "diagnosis",
    "difference",
    "error",
    "exposed",
    "findings",
    "intent",
    "interrupted",
    "limits",
    "misuse",
    "moves",
    "no_place",
    "other_plan",
    "path",
    "plan",
    "plan_difference",
    "push",
    "refused",
    "rollout",
    "rollouts",
    "status",
    "streams",
    "talkers",
    "verdict",
    "warning",
]
