"""Modules that are executed when they are first used.

What `cnc` can do needs paramiko, lxml and pydantic, which take longer to import than a small plan
takes to compute. So the application layer names all rooms at its head, and a command pays for those
that it enters.
"""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType


def lazy_import(name: str) -> ModuleType:
    """The module `name`, executed when the first of its attributes is read.

    As in the documentation of importlib, "Implementing lazy imports". Only a room itself is lazy:
    to find a module within a room, Python executes the room. Raises ModuleNotFoundError where there
    is none; what executing it raises comes with the first use.
    """
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.find_spec(name)
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    spec.loader = importlib.util.LazyLoader(spec.loader)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    package, _, child = name.rpartition(".")
    if package:  # as an import does, which will find the module made
        setattr(sys.modules[package], child, module)
    return module
