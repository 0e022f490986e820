"""The NETCONF session behind a change, as sysrepo passes it from the writer to all subscribers."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import count
from typing import NamedTuple

from _sysrepo import ffi, lib
from sysrepo.errors import check_call
from sysrepo.session import SysrepoSession

# sysrepo itself, and other subscribers, know the data of the originator of this name: the number of
# a NETCONF session as uint32 and its user as a string. The client's address is our addition.
NAME = "netopeer2"


class Originator(NamedTuple):
    """A NETCONF session: its session-id, user, and the client's address, None if unknown."""

    session_id: int
    user: str | None
    address: str | None


def set_originator(session: SysrepoSession, originator: Originator) -> None:
    """Attach a NETCONF session to all changes of a sysrepo session.

    `sr_session_set_orig_name` and `sr_session_push_orig_data`; sysrepo copies name and data.
    """
    check_call(lib.sr_session_set_orig_name, session.cdata, NAME.encode())
    texts = [text for text in (originator.user, originator.address) if text is not None]
    number = originator.session_id.to_bytes(4, sys.byteorder)
    for octets in (number, *(text.encode() + b"\0" for text in texts)):
        check_call(lib.sr_session_push_orig_data, session.cdata, len(octets), octets)


def get_originator(session: SysrepoSession) -> Originator | None:
    """The NETCONF session behind a change, in its callback; None for any other program."""
    if session.get_originator_name() != NAME:
        return None
    number, *texts = _data(session)
    user, address, *_ = [*(text.removesuffix(b"\0").decode() for text in texts), None, None]
    return Originator(int.from_bytes(number, sys.byteorder), user, address)


def _data(session: SysrepoSession) -> Iterator[bytes]:
    """Copies of the data (`sr_session_get_orig_data`), which sysrepo owns."""
    octets, data = ffi.new("uint32_t *"), ffi.new("const void **")
    for index in count():
        if lib.sr_session_get_orig_data(session.cdata, index, octets, data) or not octets[0]:
            return
        yield ffi.buffer(data[0], octets[0])[:]
