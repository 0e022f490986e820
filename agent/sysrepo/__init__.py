"""The C libraries sysrepo and libyang, as the agent and the NETCONF server use them.

No other folder imports the bindings: what the Python packages `sysrepo` and `libyang` offer is
named here, and what they lack is added in the modules of this folder, one for each task. Another
release of the libraries is then a change in this folder only.

Each function names the C function it calls and says which side frees the memory. Unless a docstring
says otherwise, a failure raises `SysrepoError`.
"""

from __future__ import annotations

from libyang import Context, DContainer, DList, DNode, LibyangError, SLeaf, SLeafList, SList
from sysrepo import (
    SysrepoConnection,
    SysrepoError,
    SysrepoLyError,
    SysrepoNotFoundError,
    SysrepoSysError,
    SysrepoTimeOutError,
    SysrepoUnauthorizedError,
    SysrepoValidationFailedError,
)
from sysrepo.session import SysrepoSession

__all__ = [
    "Context",
    "DContainer",
    "DList",
    "DNode",
    "LibyangError",
    "SLeaf",
    "SLeafList",
    "SList",
    "SysrepoConnection",
    "SysrepoError",
    "SysrepoLyError",
    "SysrepoNotFoundError",
    "SysrepoSession",
    "SysrepoSysError",
    "SysrepoTimeOutError",
    "SysrepoUnauthorizedError",
    "SysrepoValidationFailedError",
]
