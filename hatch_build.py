"""Compiles the program for networks of many kernels for a wheel, where there is a compiler."""

# mypy: allow-subclassing-any

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# What `compile` exits with where there is none.
NO_COMPILER = 3


class CompileVirtualNetwork(BuildHookInterface):  # type: ignore[type-arg]
    """The build hook `custom` of pyproject.toml.

    Without a compiler the wheel is built without the program, and the lab says so when it is asked
    for a kernel for each node; what the compiler refuses is an error.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        compile_ = Path(self.root) / "cnc" / "lab" / "virtual_network" / "compile"
        done = subprocess.run([compile_], check=False)
        if done.returncode == NO_COMPILER:
            self.app.display_warning("this wheel gets no program for networks of many kernels")
        elif done.returncode != 0:
            raise RuntimeError(f"{compile_} failed (see above)")
