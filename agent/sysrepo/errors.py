"""The errors behind an exception: sysrepo and libyang may keep several, with paths."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, NamedTuple, NoReturn

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
# sysrepo/error_format.h: session, type, tag, app-tag, path, message, and what is in error-info.
LIBRARY.sr_session_set_netconf_error2.argtypes = [
    ctypes.c_void_p,
    *[ctypes.c_char_p] * 5,
    ctypes.c_uint32,
    *[ctypes.c_void_p] * 2,
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
_ERROR_TAG = 1
_ERROR_PATH = 3

# Of the errors of one refused change: a configuration may name any number of ports.
MAX_ERRORS = 32


class Item(NamedTuple):
    """One error as libyang or sysrepo keeps it; `code` is an sr_error_t, `path` a data path.

    `tag` is the error-tag of RFC 6241 where a subscriber has given one.
    """

    code: int
    text: str
    path: str | None
    tag: str | None = None


class NetconfError(NamedTuple):
    """One error of a subscriber's for a NETCONF client; `path` a data path of libyang's."""

    tag: str
    text: str
    path: str | None


def refuse(session: SysrepoSession, errors: Sequence[NetconfError]) -> NoReturn:
    """Refuse the change of which `session` is told: the client gets these errors, one at least.

    Calls `sr_session_set_netconf_error2`, which adds one to those before; the bindings have only
    errors of a text. Any NETCONF server on sysrepo finds them. Beyond `MAX_ERRORS` they are only
    counted.
    """
    told = list(errors[:MAX_ERRORS])
    if left_out := len(errors) - len(told):
        told.append(NetconfError(errors[-1].tag, f"and {left_out} more refusals", None))
    for each in told:
        LIBRARY.sr_session_set_netconf_error2(
            address(session.cdata),
            *(b"application", each.tag.encode(), None, each.path and each.path.encode()),
            *(each.text.encode(errors="replace"), 0, None, None),
        )
    # With a text, the bindings would add an error of their own.
    raise sysrepo.SysrepoValidationFailedError("")


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
        Item(each.err_code, _text(each.message), _part(each, _ERROR_PATH), _part(each, _ERROR_TAG))
        for each in kept
        if each.message
    ] or [Item(error.rc, str(error), None)]


def libyang_items(error: libyang.LibyangError) -> list[Item]:
    """Every error that libyang gave with an exception, at least one."""
    items = [Item(LIBYANG, item.msg or "", item.data_path) for item in error.errors]
    return [item for item in items if item.text] or [Item(LIBYANG, str(error), None)]


def _text(message: object) -> str:
    return bytes(ffi.string(message)).decode(errors="replace")


def _part(error: Any, index: int) -> str | None:
    """A part of the NETCONF error in an sr_error_info_err_t, if it has one (`sr_get_error_data`).

    The memory is the session's.
    """
    if not error.error_format or ffi.string(error.error_format) != _NETCONF_FORMAT:
        return None
    octets, data = ctypes.c_uint32(), ctypes.c_void_p()
    where = address(ffi.addressof(error))
    code = LIBRARY.sr_get_error_data(where, index, ctypes.byref(octets), ctypes.byref(data))
    if code or not data.value:
        return None
    return ctypes.string_at(data.value).decode(errors="replace") or None
