"""Functions of libsysrepo that the bindings lack, called in the very library they have loaded."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Any

import _sysrepo
import libyang
import sysrepo
from _sysrepo import ffi

# A symbol is looked up in the extension and in what it is linked with: there is no second copy.
_library = ctypes.CDLL(_sysrepo.__file__)
_library.sr_nacm_init.argtypes = [
    ctypes.c_void_p,
    ctypes.c_uint32,
    ctypes.POINTER(ctypes.c_void_p),
]
_library.sr_nacm_set_user.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
_library.sr_nacm_check_operation.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
_library.sr_get_content_id.argtypes = [ctypes.c_void_p]
_library.sr_get_content_id.restype = ctypes.c_uint32
_library.sr_get_repo_path.restype = ctypes.c_char_p
_library.sr_unsubscribe.argtypes = [ctypes.c_void_p]
_library.sr_get_change_diff.argtypes = [ctypes.c_void_p]
_library.sr_get_change_diff.restype = ctypes.c_void_p
_library.sr_get_error_data.argtypes = [
    ctypes.c_void_p,
    ctypes.c_uint32,
    ctypes.POINTER(ctypes.c_uint32),
    ctypes.POINTER(ctypes.c_void_p),
]

# The format and order in which sysrepo keeps the parts of an RFC 6241 error.
_NETCONF_FORMAT = b"NETCONF"
_ERROR_PATH = 3


class Nacm:
    """NACM's data rules (RFC 8341 section 3.4.5), in force in this process until `close`.

    sysrepo follows the rules in running by itself. Raises SysrepoError.
    """

    def __init__(self, session: sysrepo.SysrepoSession) -> None:
        self._subscription = ctypes.c_void_p()
        _check(_library.sr_nacm_init(_address(session.cdata), 0, ctypes.byref(self._subscription)))

    def close(self) -> None:
        """Judge nobody any more. Sessions that have a user must be gone."""
        _check(_library.sr_unsubscribe(self._subscription))
        _library.sr_nacm_destroy()


def set_nacm_user(session: sysrepo.SysrepoSession, user: str | None) -> None:
    """Apply the data rules for this user to the session; for None, apply none."""
    _check(
        _library.sr_nacm_set_user(_address(session.cdata), None if user is None else user.encode())
    )


def check_readable(session: sysrepo.SysrepoSession, notification: libyang.DNode) -> None:
    """Raise SysrepoUnauthorizedError unless the session's user may read it (RFC 8341 3.4.6).

    The notification is given as the top node of its tree.
    """
    node = int(libyang.util.ffi.cast("uintptr_t", notification.cdata))
    _check(_library.sr_nacm_check_operation(_address(session.cdata), node))


def content_id(connection: sysrepo.SysrepoConnection) -> int:
    """A number for the modules and features installed now: others have another."""
    return int(_library.sr_get_content_id(_address(connection.cdata)))


def data_file(datastore: str, module: str) -> Path:
    """Where sysrepo keeps the data of a module in startup or running, unless told otherwise."""
    if datastore == "startup":
        return Path(os.fsdecode(_library.sr_get_repo_path()), "data", f"{module}.startup")
    prefix = os.environ.get("SYSREPO_SHM_PREFIX", "sr")
    return Path("/dev/shm", f"{prefix}_{module}.running")  # noqa: S108  sysrepo's place


def change_diff(session: sysrepo.SysrepoSession) -> int | None:
    """Where the tree of a change is, for the session of the callback about it; sysrepo owns it.

    None if nothing has changed.
    """
    address: int | None = _library.sr_get_change_diff(_address(session.cdata))
    return address


def error_path(error: Any) -> str | None:
    """The instance path in an sr_error_info_err_t, where whoever made the error gave one."""
    if not error.error_format or ffi.string(error.error_format) != _NETCONF_FORMAT:
        return None
    octets, data = ctypes.c_uint32(), ctypes.c_void_p()
    where = _address(ffi.addressof(error))
    code = _library.sr_get_error_data(where, _ERROR_PATH, ctypes.byref(octets), ctypes.byref(data))
    if code or not data.value:
        return None
    return ctypes.string_at(data.value).decode(errors="replace") or None


def _address(pointer: Any) -> int:
    return int(ffi.cast("uintptr_t", pointer))


def _check(code: int) -> None:
    if code:
        raise sysrepo.SysrepoError.new("NACM", code)
