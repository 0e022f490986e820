"""Where a rehearsed switch listens in place of its management address.

`cnc lab up --rehearse` has no management network: its servers are on loopback, at ports that need
no rights. Which, it writes beside the known_hosts file of the lab, so that whoever trusts the host
keys of a rehearsal reaches its switches. The key that must answer is still that of the management
address: such a file leads nobody to a switch that known_hosts does not name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from cnc.model import Management

_FILE = "rehearsed-at.json"


class Endpoint(NamedTuple):
    """A TCP port of an IP address, or of a host."""

    address: str
    port: int


def write(known_hosts: Path, endpoints: Mapping[Endpoint, Endpoint]) -> None:
    """Say where the management addresses of a lab with this file are reached."""
    document = [[*stated, *reached] for stated, reached in endpoints.items()]
    known_hosts.with_name(_FILE).write_text(json.dumps(document))


def endpoint(management: Management, known_hosts: Path) -> Endpoint:
    """Where to connect to the switch with this management address.

    Raises:
        OSError, ValueError: the file of a rehearsal cannot be read.
    """
    stated = Endpoint(management.address, management.port)
    try:
        text = known_hosts.with_name(_FILE).read_text(encoding="utf-8")
    except FileNotFoundError:
        return stated
    endpoints = {
        Endpoint(address, port): Endpoint(at_address, at_port)
        for address, port, at_address, at_port in json.loads(text)
    }
    return endpoints.get(stated, stated)
