"""The sysrepo repository that every switch of a lab starts from, kept in the cache.

Installing the modules takes seconds where the kernel is emulated. A guest of scripts/vm uses the
host's cache, so that a template built before it boots saves it the work.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Collection
from getpass import getuser
from pathlib import Path

from cnc.model import Intent
from cnc.support import directories
from cnc.testbed.lab.switch import YANG, make_template, others_yang, tools_path


def operators(intent: Intent) -> list[str]:
    """The users with which `cnc` logs in: NACM must permit them everything."""
    nodes = intent.network.managed.values()
    return sorted({where.user or getuser() for node in nodes if (where := node.management)})


def prepare(intent: Intent) -> None:
    """Ensure that the template of the intent's switches is in the cache, for a guest that boots
    next.

    Raises:
        CncError: sysrepo could not be set up.
    """
    with tempfile.TemporaryDirectory() as scratch:
        template(f"{intent.name}-{os.getpid()}", operators(intent), Path(scratch))


def template(lab: str, users: Collection[str], scratch: Path) -> Path:
    """The repository for switches with these operators; built in `scratch` if it is not cached.

    Raises:
        CncError: sysrepo could not be set up.
    """
    cached = directories.cache_dir().expanduser() / f"sysrepo-template-{_key(users)}"
    if not cached.exists():
        built = make_template(scratch, lab, users)
        _publish(built, cached)
    return cached


def _publish(built: Path, cached: Path) -> None:
    """Copy the template into the cache atomically: other processes may read it."""
    cached.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=".sysrepo-template-", dir=cached.parent))
    try:
        shutil.copytree(built, partial, dirs_exist_ok=True)
        partial.rename(cached)
    except OSError:
        if not cached.exists():  # it exists if another lab was faster
            raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _key(users: Collection[str]) -> str:
    """Hash of everything that determines a repository: modules, installers, sysrepo, operators."""
    digest = hashlib.sha256(repr((sorted(users), _sysrepo())).encode())
    ours = ((path.relative_to(YANG), path) for path in YANG.rglob("*") if path.is_file())
    for name, path in sorted([*ours, *((Path(its.name), its) for its in others_yang())]):
        content = path.read_bytes()
        digest.update(f"\n{name} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:12]


def _sysrepo() -> tuple[str, int, int] | None:
    """Path, size and time of sysrepoctl, which identify the version without starting it."""
    path = shutil.which("sysrepoctl", path=tools_path())
    if path is None:
        return None
    program = Path(path).resolve()
    return str(program), program.stat().st_size, program.stat().st_mtime_ns
