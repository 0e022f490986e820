"""Lets sysrepo work for a user who is not in its group.

sysrepo gives each of its files to the group that it was built for, which only root and members of
that group may do. Switches of a user's own, which nobody else is to configure, need no group: a
library that is loaded before sysrepo tells it that its group is the one of the user.
"""

from __future__ import annotations

import grp
import os
from getpass import getuser
from pathlib import Path

from cnc.errors import CncError

SYSREPO_GROUP = "sysrepo"  # Debian's packages and scripts/setup build it for this one
# Not .so, which would be a module of Python.
LIBRARY = Path(__file__).with_name("own-group.preload")


def environment() -> dict[str, str]:
    """What programs that use sysrepo need in their environment; nothing for root and members.

    Raises:
        CncError: this installation was built where there was no C compiler.
    """
    if os.geteuid() == 0 or _is_member():
        return {}
    if not LIBRARY.exists():
        raise CncError(
            f"sysrepo lets only root and the group {SYSREPO_GROUP} start switches, and this "
            "installation, built without a C compiler, lacks the library with which others can",
            hint=f"`sudo adduser {getuser()} {SYSREPO_GROUP}`, then log in again; or install gcc "
            "and libc6-dev and build it again",
        )
    loaded = os.environ.get("LD_PRELOAD")
    return {"LD_PRELOAD": f"{LIBRARY}:{loaded}" if loaded else str(LIBRARY)}


def _is_member() -> bool:
    try:
        group = grp.getgrnam(SYSREPO_GROUP).gr_gid
    except KeyError:
        return False
    return group in {os.getegid(), *os.getgroups()}
