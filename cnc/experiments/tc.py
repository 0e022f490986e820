"""`tc` in the nodes of a lab, for what an experiment changes there."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable

from cnc.errors import CncError
from cnc.lab.running import Lab


def batch(running: Lab, node: str, lines: Iterable[str], *, aim: str, needs: str) -> None:
    """Have `tc` execute the lines in a node, in order.

    Raises:
        CncError: the kernel refused one; `aim` is what cannot be done then, and `needs` what the
            kernel most likely lacks.
    """
    done = subprocess.run(
        running.command(node, ["tc", "-batch", "-"]),
        input="\n".join(lines),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise CncError(f"cannot {aim}: {done.stderr.strip()}", hint=f"the kernel needs {needs}")
