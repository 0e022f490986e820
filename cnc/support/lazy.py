"""Modules that are imported when they are first used.

What `cnc` can do needs paramiko, lxml and pydantic, which take longer to import than a small plan
takes to compute. So the application layer names all rooms at its head, and a command pays for those
that it enters.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any


class _LazyModule(ModuleType):
    """Stands for a module outside of `sys.modules`, and imports it when an attribute is read.

    importlib's LazyLoader puts an unexecuted module into `sys.modules`. Python executes that while
    it imports a module of the package, and then executes this module twice: its classes exist
    twice, too.
    """

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self.__name__), name)


def lazy_import(name: str) -> ModuleType:
    """A stand-in for the module `name`; what importing it raises comes with the first use."""
    return _LazyModule(name)
