"""The C bindings of sysrepo and libyang are used in one folder, `agent/sysrepo`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
ROOM = CHECKOUT / "agent" / "sysrepo"
BINDINGS = {"_sysrepo", "sysrepo", "_libyang", "libyang", "cffi"}
# The kernel's interfaces need it, too.
SERVERS = [CHECKOUT / "agent" / name for name in ("datastore", "netconfd")]


def imported(file: Path) -> Iterator[str]:
    """The topmost packages that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield (node.module or "").partition(".")[0]


def importers(folder: Path, packages: set[str]) -> list[str]:
    return [
        str(file.relative_to(CHECKOUT))
        for file in sorted(folder.rglob("*.py"))
        if ROOM not in file.parents and packages & set(imported(file))
    ]


def test_nothing_else_in_the_product_imports_the_bindings():
    assert [*importers(CHECKOUT / "agent", BINDINGS), *importers(CHECKOUT / "cnc", BINDINGS)] == []


def test_a_server_calls_c_by_itself_only_to_give_up_rights():
    assert [file for folder in SERVERS for file in importers(folder, {"ctypes"})] == [
        "agent/netconfd/confinement.py",
        "agent/netconfd/system_calls.py",
    ]


def test_the_folder_itself_imports_them():
    """So that the checks above look for the right names."""
    used = {name for file in ROOM.glob("*.py") for name in imported(file)}
    assert {"_sysrepo", "sysrepo", "libyang", "ctypes"} <= used
