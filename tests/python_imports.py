"""What the modules of a package import, read from their source and not by running it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

# Functions that import the module whose name they are given.
BY_NAME = {"lazy_import", "import_module"}

# The modules of the controller that name its mechanisms, one after the other, for all others.
REGISTRY = {"cnc.mechanisms", "cnc.mechanisms.loading", "cnc.mechanisms.registry"}


class Bound(NamedTuple):
    """A name that an import binds in a file, and the module that it, or what it names, is in."""

    name: str
    module: str
    line: int


class Package:
    """A folder of Python below `root`, as `cnc`; its modules by name, `cnc.mechanisms.gates`."""

    def __init__(self, root: Path, folder: str) -> None:
        self.root = root
        files = sorted((root / folder).rglob("*.py"))
        self.files = {_module(root, file): file for file in files}
        self._trees: dict[str, ast.Module] = {}
        self._imported: dict[str, tuple[Bound, ...]] = {}

    def tree(self, module: str) -> ast.Module:
        """The syntax of a module."""
        if module not in self._trees:
            self._trees[module] = ast.parse(self.files[module].read_text())
        return self._trees[module]

    def imports(self, module: str) -> tuple[Bound, ...]:
        """All that a module imports of the package, wherever in the file, also for types only.

        What another module has only imported comes from where that has it.
        """
        if module not in self._imported:
            self._imported[module] = tuple(self._read(module))
        return self._imported[module]

    def mechanism_of(self, module: str) -> str | None:
        """The folder of `cnc/mechanisms` that a module is in; None for all others, also for files
        beside these folders."""
        match module.split("."):
            case ["cnc", "mechanisms", name, *_]:
                file = self.files.get(f"cnc.mechanisms.{name}")
                return name if file and file.name == "__init__.py" else None
        return None

    def _read(self, module: str) -> Iterator[Bound]:
        for node in ast.walk(self.tree(module)):
            match node:
                case ast.ImportFrom(module=source, names=names, level=level):
                    start = self._package(module, level) if level else ""
                    given = ".".join(filter(None, [start, source]))
                    for each in names:
                        found = self._source(given, each.name)
                        yield Bound(each.asname or each.name, found, node.lineno)
                case ast.Import(names=names):
                    for each in names:
                        yield Bound(each.asname or each.name, each.name, node.lineno)
                case ast.Assign(
                    targets=[ast.Name(id=name)],
                    value=ast.Call(func=ast.Name(id=called), args=[ast.Constant(value=str(given))]),
                ) if called in BY_NAME:
                    yield Bound(name, given, node.lineno)

    def _package(self, module: str, level: int) -> str:
        """The package that a relative import with so many dots starts from."""
        up = level - (self.files[module].name == "__init__.py")
        return ".".join(module.split(".")[: -up or None])

    def _source(self, module: str, name: str) -> str:
        if (inner := f"{module}.{name}") in self.files:
            return inner
        if module not in self.files or name in self._defined(module):
            return module
        return next((b.module for b in self.imports(module) if b.name == name), module)

    def _defined(self, module: str) -> Iterator[str]:
        for node in self.tree(module).body:
            match node:
                case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                    yield name
                case ast.Assign(targets=[ast.Name(id=name)]):
                    yield name


def _module(root: Path, file: Path) -> str:
    parts = file.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
