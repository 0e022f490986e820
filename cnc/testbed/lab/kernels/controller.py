"""Run a module of `cnc` on the controller of a lab of kernels, from the machine that has started
it."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from cnc.testbed.lab.kernels.layout import CONTROLLER, HOME, SHARED
from cnc.testbed.lab.lifecycle import execute
from cnc.testbed.lab.running import Lab

_RESULTS = "results"  # in the directory that all kernels of a lab share


def run_module(lab: Lab, module: str, arguments: Sequence[str], directory: Path) -> int:
    """Run `python -m MODULE`, and return its exit code. What it leaves in the directory that
    $TSN_OUT names there is in `directory` afterwards; standard streams are those of this process.

    Raises:
        CncError: the lab has ended.
        InputError: it is not up.
    """
    results = lab.directory / HOME / "shared" / _RESULTS
    shutil.rmtree(results, ignore_errors=True)  # of a run that was killed
    results.mkdir()
    program = [sys.executable, "-m", module, *arguments]
    argv = ["env", f"TSN_OUT={SHARED / _RESULTS}", *program]
    try:
        code = execute(lab.intent.name, CONTROLLER, argv)
        shutil.copytree(results, directory, dirs_exist_ok=True)
    finally:
        shutil.rmtree(results)
    return code
