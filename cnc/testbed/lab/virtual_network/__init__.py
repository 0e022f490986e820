"""Many user-mode Linux kernels in one virtual time: what gives turns and carries frames.

The program, virtual-network, is in C: each turn of a kernel and each frame goes through it, and
its sources are beside this file. It is compiled where a wheel is built or a checkout is set up.
"""

from __future__ import annotations

from pathlib import Path

from cnc.errors import CncError

PROGRAM = Path(__file__).with_name("virtual-network")


def program() -> Path:
    """The program that joins kernels to one network in one virtual time.

    Raises:
        CncError: this installation was built where there was no C compiler.
    """
    if not PROGRAM.exists():
        raise CncError(
            "this installation lacks the program for networks of many kernels: it was built "
            "without a C compiler",
            hint="install gcc and libc6-dev and build it again, or use one kernel for all nodes",
        )
    return PROGRAM
