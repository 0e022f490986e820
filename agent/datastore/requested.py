"""Which ports a request for operational data is about, so that no others are built."""

from __future__ import annotations

import re

# One port by name, and a plain path below it. What is not understood asks for every port: sysrepo
# filters what it is given, so too much is only slow, and too little would be wrong.
_OF_ONE_PORT = re.compile(
    r"/ietf-interfaces:interfaces/(?:ietf-interfaces:)?interface"
    r"""\[(?:ietf-interfaces:)?name\s*=\s*(?:'(?P<single>[^']*)'|"(?P<double>[^"]*)")\]"""
    r"(?:/(?:[\w-]+:)?(?:[\w-]+|\*))*"
)
_OF_ANOTHER_MODULE = re.compile(r"/(?!ietf-interfaces:)[\w-]+:[\w-]+(?:/(?:[\w-]+:)?[\w-]+)*")


def requested_ports(xpath: str | None) -> frozenset[str] | None:
    """The ports a union of paths names; None for all of them.

    sysrepo hands over the client's whole expression, with the paths of other modules in it. A `|`
    inside a name only makes parts that are not understood.
    """
    ports: set[str] = set()
    for alternative in (xpath or "").split("|"):
        path = alternative.strip(" ()")
        if match := _OF_ONE_PORT.fullmatch(path):
            ports.add(match["single"] if match["single"] is not None else match["double"])
        elif not _OF_ANOTHER_MODULE.fullmatch(path):
            return None
    return frozenset(ports)
