"""A kernel with taprio for those who need one: this machine's own, or a guest of scripts/vm."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from cnc.errors import CncError
from cnc.lab.switch import CHECKOUT

VM = CHECKOUT / "scripts/vm"


def own_kernel_has_taprio() -> bool:
    """Whether this machine's own kernel has taprio, and we are root."""
    if not VM.exists():
        return False
    return (
        subprocess.run([VM, "--own", "--which"], capture_output=True, check=False).returncode == 0
    )


def run_module(module: str, arguments: Sequence[str], out: Path) -> None:
    """Run `python -m MODULE` in a kernel with taprio: the own one, else a guest in virtual time.

    It finds `out` in $TSN_OUT. What it prints goes to our error stream.

    Raises:
        CncError: there is no such kernel to be had, or the program failed.
    """
    if not VM.exists():
        raise CncError(
            "this needs a kernel with taprio, and scripts/vm of the source tree finds or makes one",
            hint="run it from a checkout",
        )
    lane = ["--own"] if own_kernel_has_taprio() else ["--uml", "--virtual-time"]
    program = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(
        [VM, *lane, "--memory", "2G", "--out", out, "--", *program],
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr,
        check=False,
    )
    if done.returncode != 0:
        raise CncError(
            f"it ended with exit code {done.returncode} in the kernel it was run in (see above)",
            hint="`scripts/vm --which` tells which kernels there are",
        )
