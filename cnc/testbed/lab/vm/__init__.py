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

_CLEARS_UP_S = 20.0
_LASTS_S = 3600  # at most, on a busy machine, too
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
    limits = ["--memory", "2G", "--timeout", str(_LASTS_S)]
    code = _run([*RUNNER, *lane, *limits, "--out", str(out), "--", *program])
    if code != 0:
        raise CncError(
            f"the measurement ended with exit code {code} in its kernel (see above)",
            hint=f"`{sys.executable} -m {__name__} --which` lists the available kernels",
        )


def _run(command: Sequence[str]) -> int:
    """The exit code of a runner. At Ctrl-C it is left the time to end its guest, and to remove
    what that had: `subprocess.run` would kill it after a quarter of a second."""
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sys.stderr) as runner:
        try:
            return runner.wait()
        except KeyboardInterrupt:
            try:
                runner.wait(_CLEARS_UP_S)  # it is in this process group, and was interrupted, too
            except subprocess.TimeoutExpired:
                runner.kill()
            raise
