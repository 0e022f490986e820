"""Programs of iproute2, `tc` and `ip`, that execute many lines at once."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Sequence

from cnc.errors import CncError


def batch(program: Sequence[str], lines: Iterable[str], *, aim: str, needs: str) -> None:
    """Have a program execute the lines in order; `program` are the words that start it where they
    are to act.

    Raises:
        CncError: it refused one, in its own words; `aim` is what cannot be done then, and `needs`
            what the kernel most likely lacks.
    """
    done = subprocess.run(
        [*program, "-batch", "-"],
        input="\n".join(lines),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise CncError(f"cannot {aim}: {done.stderr.strip()}", hint=f"the kernel needs {needs}")
