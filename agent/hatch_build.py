"""Compiles the BPF programs: a wheel, and an editable installation, bring their objects."""

# mypy: allow-subclassing-any

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CompileBpf(BuildHookInterface):  # type: ignore[type-arg]
    """The build hook `custom` of pyproject.toml; raises where the compiler refuses."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        subprocess.run([Path(self.root) / "bpf" / "compile"], check=True)
