"""What time is here: a clock that runs by itself, or one that only sleeping moves."""

from __future__ import annotations

import os


def is_exact() -> bool:
    """Whether only sleeping takes time: in user-mode Linux in virtual time, as scripts/vm tells.

    QEMU's virtual time counts instructions: computing takes time there.
    """
    return os.environ.get("TSN_VIRTUAL_TIME") == "1" and os.environ.get("TSN_VM") == "uml"
