"""One private sysrepo: a directory and a name for its shared memory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108  where sysrepo keeps it


@dataclass(frozen=True)
class Repository:
    """Where one sysrepo keeps its files and its shared memory."""

    path: Path
    shm_prefix: str

    @property
    def environment(self) -> dict[str, str]:
        """What a child process needs to reach this sysrepo."""
        return {
            "SYSREPO_REPOSITORY_PATH": str(self.path),
            "SYSREPO_SHM_PREFIX": self.shm_prefix,
        }

    def forget_shared_memory(self) -> None:
        """Remove the shared memory. Only for a repository that nothing is connected to."""
        for segment in SHARED_MEMORY.glob(f"{self.shm_prefix}*"):
            segment.unlink()
