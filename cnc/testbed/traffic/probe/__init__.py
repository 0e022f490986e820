"""tsn-probe: where the time of a packet goes in two real hosts.

The program is in C, beside this file: what it measures is a few microseconds, of which it takes as
few as it can. It is compiled where a wheel is built or a checkout is set up.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

PROGRAM = Path(__file__).with_name("tsn-probe")
LACKING = "tsn-probe: this installation lacks the program: it was built without a C compiler"
REMEDY = "install gcc and libc6-dev and build it again"


def main() -> None:
    """The command `tsn-probe`: become the program."""
    try:
        os.execv(PROGRAM, [str(PROGRAM), *sys.argv[1:]])  # noqa: S606  on purpose
    except FileNotFoundError:
        sys.exit(f"{LACKING}\nhint: {REMEDY}")


if __name__ == "__main__":
    main()
