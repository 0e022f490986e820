"""A kernel with taprio for experiments: this machine's own, or a guest in virtual time.

The runner and all it builds a guest from are in this folder, so an installed wheel has them as a
checkout does; there `scripts/vm` is the same runner.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from cnc.errors import CncError

RUNNER = [sys.executable, "-I", str(Path(__file__).with_name("runner.py"))]


def own_kernel_has_taprio() -> bool:
    """Whether this machine's own kernel has taprio, and this process may use it (root)."""
    done = subprocess.run([*RUNNER, "--own", "--which"], capture_output=True, check=False)
    return done.returncode == 0


def run_module(module: str, arguments: Sequence[str], out: Path) -> None:
    """Run `python -m MODULE` in a kernel with taprio: the machine's own, else a guest.

    The module finds the directory `out` in $TSN_OUT. Its output goes to standard error.

    Raises:
        CncError: no such kernel is available, or the program failed.
    """
    lane = ["--own"] if own_kernel_has_taprio() else ["--uml", "--virtual-time"]
    program = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(
        [*RUNNER, *lane, "--memory", "2G", "--out", str(out), "--", *program],
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr,
        check=False,
    )
    if done.returncode != 0:
        raise CncError(
            f"the measurement ended with exit code {done.returncode} in its kernel (see above)",
            hint=f"`{sys.executable} -m {__name__}.runner --which` lists the available kernels",
        )
