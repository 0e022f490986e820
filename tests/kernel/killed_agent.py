"""The agent's command, killed by its own hand at one of the moments that matter.

    python -m tests.kernel.killed_agent POINT [ARGUMENT…]

The moments are just before and just after each request that changes a qdisc, each transaction of
rules and each replacement of the memory file. Point 0 is before the first of them, point 1 after
it. An agent that comes to fewer of them lives.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agent import main
from agent.mechanisms.classification.iptables_legacy import LegacyTables
from agent.mechanisms.classification.iptables_restore import RestoreTables
from agent.mechanisms.gates import taprio

LASTING_CALLS = (
    (taprio, "_replace"),
    (taprio, "_delete"),
    (RestoreTables, "write"),
    (LegacyTables, "write"),
    (Path, "replace"),
)


def run(point: int, arguments: list[str]) -> int:
    moments = itertools.count()

    def pass_moment() -> None:
        if next(moments) == point:
            os.kill(os.getpid(), signal.SIGKILL)

    def deadly(call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*args: Any, **options: Any) -> Any:
            pass_moment()
            result = call(*args, **options)
            pass_moment()
            return result

        return wrapper

    for owner, name in LASTING_CALLS:
        setattr(owner, name, deadly(getattr(owner, name)))
    return main.main(arguments)


if __name__ == "__main__":
    sys.exit(run(int(sys.argv[1]), sys.argv[2:]))
