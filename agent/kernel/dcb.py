"""The priority tables that drivers keep for received frames, by netlink (dcb-app(8)). Pure.

Messages of RTM_*DCB (struct dcbmsg) with an application priority table (`DCB_ATTR_IEEE_APP_TABLE`
of struct dcb_app, IEEE Std 802.1Q-2022, D.2.11) and the order in which the tables of several
selectors count (`DCB_ATTR_DCB_APP_TRUST_TABLE`, since Linux 6.2), from linux/dcbnl.h and
net/dcb/dcbnl.c.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from pyroute2.netlink.exceptions import NetlinkError

from agent.kernel.netlink_batch import NLA_F_NESTED, Message, attribute, attributes
from agent.kernel.rtnetlink import RTM_GETDCB, RTM_SETDCB

# Selectors: what the `protocol` of an entry is. 0 of ETHERTYPE stands for all other frames.
ETHERTYPE, PCP = 1, 255

_DCBMSG, _APP = struct.Struct("=BBxx"), struct.Struct("=BBH")
_IEEE_SET, _IEEE_GET, _IEEE_DEL = 20, 21, 27
_IFNAME, _IEEE = 1, 13
_APP_TABLE, _TRUST_TABLE = 3, 11
# The kind of an attribute depends on its selector: PCP is none of the standard's.
_STANDARD, _OTHER = 1, 2


class App(NamedTuple):
    """An entry: frames of this kind get this priority. Fields as in struct dcb_app."""

    selector: int
    priority: int
    protocol: int


class Tables(NamedTuple):
    """What the driver of a port has; `trust` is None where it cannot tell what counts."""

    apps: frozenset[App]
    trust: tuple[int, ...] | None


def get_tables(port: str) -> Message:
    """The answer is for `parsed`."""
    return Message(RTM_GETDCB, _payload(_IEEE_GET, port))


def set_apps(port: str, apps: Iterable[App]) -> Message:
    """Adds entries; the answer is for `raise_refusal`, as those of the following are."""
    return Message(RTM_SETDCB, _payload(_IEEE_SET, port, _nested(_APP_TABLE, _encoded(apps))))


def delete_apps(port: str, apps: Iterable[App]) -> Message:
    """Removes entries, which all have to be there."""
    return Message(RTM_SETDCB, _payload(_IEEE_DEL, port, _nested(_APP_TABLE, _encoded(apps))))


def set_trust(port: str, trust: Sequence[int]) -> Message:
    """The selectors whose entries count, the first one first; those of others do not."""
    selectors = b"".join(attribute(_kind(each), bytes([each])) for each in trust)
    return Message(RTM_SETDCB, _payload(_IEEE_SET, port, _nested(_TRUST_TABLE, selectors)))


def parsed(answers: Collection[Message]) -> Tables:
    """What the answer to `get_tables` says."""
    ieee = {}
    for message in answers:
        found = dict(attributes(message.payload[_DCBMSG.size :]))
        ieee = dict(attributes(found.get(_IEEE, b"")))
    apps = (App(*_APP.unpack(value)) for _kind, value in attributes(ieee.get(_APP_TABLE, b"")))
    trust = None
    if _TRUST_TABLE in ieee:
        trust = tuple(value[0] for _kind, value in attributes(ieee[_TRUST_TABLE]))
    return Tables(frozenset(apps), trust)


def raise_refusal(answers: Collection[Message]) -> None:
    """Raises NetlinkError where the driver has refused: the kernel answers with an octet, its error
    number below 0."""
    for message in answers:
        outcome = dict(attributes(message.payload[_DCBMSG.size :])).get(_IEEE, b"\0")[0]
        if outcome:
            code = 0x100 - outcome
            raise NetlinkError(code, os.strerror(code))


def _payload(command: int, port: str, ieee: bytes | None = None) -> bytes:
    payload = _DCBMSG.pack(0, command) + attribute(_IFNAME, port.encode() + b"\0")
    return payload if ieee is None else payload + attribute(_IEEE | NLA_F_NESTED, ieee)


def _nested(table: int, entries: bytes) -> bytes:
    return attribute(table | NLA_F_NESTED, entries)


def _encoded(apps: Iterable[App]) -> bytes:
    return b"".join(attribute(_kind(each.selector), _APP.pack(*each)) for each in sorted(apps))


def _kind(selector: int) -> int:
    return _OTHER if selector == PCP else _STANDARD
