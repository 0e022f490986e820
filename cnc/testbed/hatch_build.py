"""Compiles the programs in C for a wheel, where there is a compiler."""

# mypy: allow-subclassing-any

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# What `compile` exits with where there is none.
NO_COMPILER = 3


class CompilePrograms(BuildHookInterface):  # type: ignore[type-arg]
    """The build hook `custom` of pyproject.toml.

    Without a compiler the wheel is built without them, and what needs one says so; what the
    compiler refuses is an error.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        compile_ = Path(self.root) / "compile"
        done = subprocess.run([compile_], check=False)
        if done.returncode == NO_COMPILER:
            self.app.display_warning("this wheel gets no programs in C")
        elif done.returncode != 0:
            raise RuntimeError(f"{compile_} failed (see above)")
