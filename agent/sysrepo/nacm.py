"""NACM's rules about data (RFC 8341, section 3.4.5), which sysrepo applies inside a session."""

from __future__ import annotations

import ctypes

import libyang
import sysrepo
from sysrepo.session import SysrepoSession

from agent.sysrepo.library import LIBRARY, address

LIBRARY.sr_nacm_init.argtypes = [
    ctypes.c_void_p,
    ctypes.c_uint32,
    ctypes.POINTER(ctypes.c_void_p),
]
LIBRARY.sr_nacm_set_user.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
LIBRARY.sr_nacm_check_operation.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
LIBRARY.sr_unsubscribe.argtypes = [ctypes.c_void_p]


class Nacm:
    """The data rules are in force in this process from construction until `close`.

    `sr_nacm_init` subscribes to the rules in running, so that they follow each change there. The
    subscription is freed by `close`.
    """

    def __init__(self, session: SysrepoSession) -> None:
        self._subscription = ctypes.c_void_p()
        _check(LIBRARY.sr_nacm_init(address(session.cdata), 0, ctypes.byref(self._subscription)))

    def close(self) -> None:
        """Stop applying the rules (`sr_unsubscribe`, `sr_nacm_destroy`).

        Close all sessions that have a user first.
        """
        _check(LIBRARY.sr_unsubscribe(self._subscription))
        LIBRARY.sr_nacm_destroy()


def set_nacm_user(session: SysrepoSession, user: str | None) -> None:
    """Apply the rules for this user to the session; for None, apply none (`sr_nacm_set_user`).

    sysrepo copies the name.
    """
    name = None if user is None else user.encode()
    _check(LIBRARY.sr_nacm_set_user(address(session.cdata), name))


def check_access(session: SysrepoSession, operation: libyang.DNode) -> None:
    """Raise SysrepoUnauthorizedError unless the session's user may have it.

    To receive a notification (RFC 8341, section 3.4.6), or to execute an RPC or action (3.4.4): of
    an action, what it is in must be readable, too. `sr_nacm_check_operation`. `operation` is the
    top node of its tree, which stays the caller's.
    """
    node = int(libyang.util.ffi.cast("uintptr_t", operation.cdata))
    _check(LIBRARY.sr_nacm_check_operation(address(session.cdata), node))


def _check(code: int) -> None:
    if code:
        raise sysrepo.SysrepoError.new("NACM", code)
