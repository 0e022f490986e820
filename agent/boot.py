"""Which boot of the machine this is: what is kept of the kernel's state ends with it."""

from __future__ import annotations

from pathlib import Path

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str:
    """Another text after each start of the machine."""
    return BOOT_ID.read_text(encoding="ascii").strip()
