"""libsysrepo beyond its bindings: the loaded library itself, and what it says about its repository.

The Python bindings compile only the functions they use. The others are called with ctypes in the
very library that the bindings have loaded: `dlsym` on the extension also searches the libraries it
is linked with, so there is no second copy with state of its own.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Any

import _sysrepo
import sysrepo
from _sysrepo import ffi

LIBRARY = ctypes.CDLL(_sysrepo.__file__)
LIBRARY.sr_get_content_id.argtypes = [ctypes.c_void_p]
LIBRARY.sr_get_content_id.restype = ctypes.c_uint32
LIBRARY.sr_get_repo_path.restype = ctypes.c_char_p


def address(pointer: Any) -> int:
    """The address in a cffi pointer, as ctypes takes it. The memory stays its owner's."""
    return int(ffi.cast("uintptr_t", pointer))


def content_id(connection: sysrepo.SysrepoConnection) -> int:
    """The number of the modules and features installed now (`sr_get_content_id`).

    It changes whenever a module or feature does.
    """
    return int(LIBRARY.sr_get_content_id(address(connection.cdata)))


def data_file(datastore: str, module: str) -> Path:
    """The file in which sysrepo keeps the data of a module in `startup` or `running`.

    `sr_get_repo_path` returns a string that sysrepo owns. The places within are those of sysrepo's
    plugin "JSON DS file", which a repository may replace by others.
    """
    if datastore == "startup":
        return Path(os.fsdecode(LIBRARY.sr_get_repo_path()), "data", f"{module}.startup")
    prefix = os.environ.get("SYSREPO_SHM_PREFIX", "sr")
    return Path("/dev/shm", f"{prefix}_{module}.running")  # noqa: S108  sysrepo's place
