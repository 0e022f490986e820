"""SWITCH[:PORT] as an operator writes it."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable

from cnc.errors import InputError
from cnc.model import Management
from cnc.switch.device import Managed

NETCONF_PORT = 830
_PORT_MAX = 65535

# As the intent format has them: what is drafted must be accepted there.
_HOST = r"(?P<host>[A-Za-z0-9][A-Za-z0-9.-]{0,252})(?::(?P<port>[0-9]{1,5}))?"
_IPV6 = r"(?P<bare>[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*)"
_BRACKETED = r"\[(?P<ipv6>[0-9A-Fa-f:.]{2,45})\](?::(?P<ipv6_port>[0-9]{1,5}))?"
_TARGET = re.compile(f"{_HOST}|{_BRACKETED}|{_IPV6}")


def targets(texts: Iterable[str], user: str | None) -> list[Managed]:
    """Whom to ask, each under the name ADDRESS or ADDRESS:PORT.

    Raises:
        InputError: one is not SWITCH[:PORT], or is named twice.
    """
    found: dict[tuple[str, int], Managed] = {}
    for text in texts:
        management = _management(text, user)
        where = (management.address, management.port)
        if where in found:
            raise InputError(f"{text}: named twice", hint="name each switch once")
        found[where] = Managed(shown(management), management)
    return list(found.values())


def shown(management: Management) -> str:
    """`management` as an operator would write it."""
    address = management.address
    if management.port == NETCONF_PORT:
        return address
    return f"[{address}]:{management.port}" if ":" in address else f"{address}:{management.port}"


def _management(text: str, user: str | None) -> Management:
    match = _TARGET.fullmatch(text)
    address = match and (match["host"] or match["ipv6"] or match["bare"])
    port = int((match and (match["port"] or match["ipv6_port"])) or NETCONF_PORT)
    if not address or not _is_address(address) or not 0 < port <= _PORT_MAX:
        raise InputError(
            f"{text}: found no switch there, expected SWITCH[:PORT], SWITCH an address or a name",
            hint="for example 10.0.0.1, s1.lab.example:8300, [2001:db8::1]:830",
        )
    return Management(address, port, user)


def _is_address(text: str) -> bool:
    """Whether it is an IP address, or a name that does not look like one."""
    if ":" not in text and not re.fullmatch(r"[0-9.]+", text):
        return True
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
