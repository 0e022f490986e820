"""The errors behind an exception: sysrepo and libyang may keep several, with paths."""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

import libyang
import sysrepo
from _sysrepo import ffi, lib
from sysrepo.session import SysrepoSession

from agent.sysrepo.library import LIBRARY, address

LIBRARY.sr_get_error_data.argtypes = [
    ctypes.c_void_p,
    ctypes.c_uint32,
    ctypes.POINTER(ctypes.c_uint32),
    ctypes.POINTER(ctypes.c_void_p),
]

INVALID_ARGUMENT = lib.SR_ERR_INVAL_ARG
LIBYANG = lib.SR_ERR_LY
NO_MEMORY = lib.SR_ERR_NO_MEMORY
NOT_FOUND = lib.SR_ERR_NOT_FOUND
EXISTS = lib.SR_ERR_EXISTS
UNSUPPORTED = lib.SR_ERR_UNSUPPORTED
UNAUTHORIZED = lib.SR_ERR_UNAUTHORIZED
LOCKED = lib.SR_ERR_LOCKED

# The format and order in which sysrepo keeps the parts of an RFC 6241 error.
_NETCONF_FORMAT = b"NETCONF"
_ERROR_PATH = 3


class Item(NamedTuple):
    """One error as libyang or sysrepo keeps it; `code` is an sr_error_t, `path` a data path."""

    code: int
    text: str
    path: str | None


def items_of(
    session: SysrepoSession, error: sysrepo.SysrepoError | libyang.LibyangError
) -> list[Item]:
    """Every error behind an exception, at least one.

    `sr_session_get_error` returns what the session owns until its next call: call this before.
    """
    if isinstance(error, libyang.LibyangError):
        return libyang_items(error)
    info = ffi.new("const sr_error_info_t **")
    lib.sr_session_get_error(session.cdata, info)
    count = info[0].err_count if info[0] else 0
    kept = [info[0].err[index] for index in range(count)]
    return [
        Item(each.err_code, _text(each.message), _path(each)) for each in kept if each.message
    ] or [Item(error.rc, str(error), None)]


def libyang_items(error: libyang.LibyangError) -> list[Item]:
    """Every error that libyang gave with an exception, at least one."""
    items = [Item(LIBYANG, item.msg or "", item.data_path) for item in error.errors]
    return [item for item in items if item.text] or [Item(LIBYANG, str(error), None)]


def _text(message: object) -> str:
    return bytes(ffi.string(message)).decode(errors="replace")


def _path(error: Any) -> str | None:
    """The instance path in an sr_error_info_err_t, if the error has one (`sr_get_error_data`).

    The memory is the session's.
    """
    if not error.error_format or ffi.string(error.error_format) != _NETCONF_FORMAT:
        return None
    octets, data = ctypes.c_uint32(), ctypes.c_void_p()
    where = address(ffi.addressof(error))
    code = LIBRARY.sr_get_error_data(where, _ERROR_PATH, ctypes.byref(octets), ctypes.byref(data))
    if code or not data.value:
        return None
    return ctypes.string_at(data.value).decode(errors="replace") or None
