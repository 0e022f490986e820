"""Where files of a user are kept, as the XDG Base Directory Specification says.

A variable that does not hold an absolute path does not count. Paths may begin with `~`: so they are
shown, and `Path.expanduser` makes them usable.
"""

from __future__ import annotations

import os
from pathlib import Path


def config_dir() -> Path:
    """What a user sets: `cnc.cli.settings`."""
    return _base("XDG_CONFIG_HOME", "~/.config") / "cnc"


def state_dir() -> Path:
    """What is kept from call to call: the history of rollouts."""
    return _base("XDG_STATE_HOME", "~/.local/state") / "cnc"


def cache_dir() -> Path:
    """What can be made again: kernels, templates of sysrepo. $TSN_CACHE names another directory.

    `cnc.testbed.lab.vm.runner`, which cannot import `cnc`, computes the same path.
    """
    chosen = os.environ.get("TSN_CACHE")
    return Path(chosen) if chosen else _base("XDG_CACHE_HOME", "~/.cache") / "tsn-control-plane"


def _base(variable: str, default: str) -> Path:
    base = Path(os.environ.get(variable, ""))
    return base if base.is_absolute() else Path(default)
