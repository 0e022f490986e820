"""The sysrepo repository that every switch of a lab starts from, kept in the cache.

Installing the modules takes seconds where the kernel is emulated. A guest of scripts/vm sees the
host's cache: what is made there before the guest boots, the guest need not make.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Collection
from getpass import getuser
from pathlib import Path

from cnc.lab.switch import YANG, make_template, tools_path
from cnc.model import Intent


def operators(intent: Intent) -> list[str]:
    """The users whom the switches must let do everything: who `cnc` logs in as."""
    managed = [bridge.management for bridge in intent.network.bridges.values() if bridge.management]
    return sorted({reached.user or getuser() for reached in managed})


def prepare(intent: Intent) -> None:
    """Have what the switches of a lab start from in the cache, for a guest that boots next.

    Raises:
        CncError: sysrepo could not be set up.
    """
    with tempfile.TemporaryDirectory() as scratch:
        template(f"{intent.name}-{os.getpid()}", operators(intent), Path(scratch))


def template(lab: str, users: Collection[str], scratch: Path) -> Path:
    """The repository for switches with these operators; made in `scratch` if it is not cached.

    Raises:
        CncError: sysrepo could not be set up.
    """
    cached = _cache() / f"sysrepo-template-{_key(users)}"
    if not cached.exists():
        made = make_template(scratch, lab, users)
        _publish(made, cached)
    return cached


def _publish(made: Path, cached: Path) -> None:
    """Copy it under its name at once, whole: others may be looking for it."""
    cached.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=".sysrepo-template-", dir=cached.parent))
    try:
        shutil.copytree(made, partial, dirs_exist_ok=True)
        partial.rename(cached)
    except OSError:
        if not cached.exists():  # it does if another lab was faster
            raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("TSN_CACHE") or Path(base) / "tsn-control-plane")


def _key(users: Collection[str]) -> str:
    """Tells apart what goes into a repository: modules, their installers, sysrepo, operators."""
    digest = hashlib.sha256(repr((sorted(users), _sysrepo())).encode())
    for path in sorted(path for path in YANG.rglob("*") if path.is_file()):
        content = path.read_bytes()
        digest.update(f"\n{path.relative_to(YANG)} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:12]


def _sysrepo() -> tuple[str, int, int] | None:
    """Which sysrepo it is, without starting it."""
    found = shutil.which("sysrepoctl", path=tools_path())
    if found is None:
        return None
    program = Path(found).resolve()
    return str(program), program.stat().st_size, program.stat().st_mtime_ns
