"""`python -m cnc.testbed.experiments FILE`: measure an experiment, with the rows in $TSN_OUT.

For scripts/vm, which boots the kernel for `cnc lab measure`.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from cnc.errors import CncError
from cnc.testbed.experiments import run


def main() -> int:
    begun_s = time.monotonic()

    def progress(step: str) -> None:
        print(f"{time.monotonic() - begun_s:6.1f} s  {step}", file=sys.stderr, flush=True)  # noqa: T201

    try:
        run(Path(sys.argv[1]), Path(os.environ["TSN_OUT"]), progress)
    except CncError as error:
        print(f"cnc: {error}\nhint: {error.hint}", file=sys.stderr)  # noqa: T201
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
