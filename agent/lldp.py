"""What the machine's LLDP daemon (lldpd) says of this machine and of the neighbours it hears.

lldpd hands its data out through its client, which prints JSON (lldpcli(8)). Most of it is what
any device on a cable sent: nothing of it is trusted to be present, of the right type, or printable.
"""

from __future__ import annotations

import ipaddress
import json
import logging
import subprocess
import time
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

LOG = logging.getLogger(__name__)

# json0 always writes lists, where json leaves out those of one element.
COMMAND = ("lldpcli", "-f", "json0", "show")
TIMEOUT_S = 2.0  # for both questions: sysrepo gives up an answer after 5 s

TEXT_MAX = 255  # IEEE 802.1AB: octets of an identifier or string
# lldpd keeps 32 neighbours at a port unless it is configured otherwise. A frame of 1500 octets has
# room for a hundred addresses.
NEIGHBORS_MAX = 2048
ADDRESSES_MAX = 16

# lldpd's words for the subtypes of IEEE 802.1AB tables 8-2 and 8-3; it has none for the others.
ID_SUBTYPES = {
    "ifalias": "interface-alias",
    "mac": "mac-address",
    "ip": "network-address",
    "ifname": "interface-name",
    "local": "local",
}
CAPABILITIES = {
    "Other": "other",
    "Repeater": "repeater",
    "Bridge": "bridge",
    "Wlan": "wlan-access-point",
    "Router": "router",
    "Tel": "telephone",
    "Docsis": "docsis-cable-device",
    "Station": "station-only",
}


@dataclass(frozen=True, slots=True)
class Identifier:
    """The name of a chassis or port; `subtype` says what it is made of, as ieee802-types does."""

    text: str
    subtype: str | None


@dataclass(frozen=True, slots=True)
class Neighbor:
    """Who was heard at `interface`, in its own words. Texts are printable, "" where it said
    nothing; `capabilities` are those it says it uses, as tsn-linux calls them."""

    interface: str
    chassis_id: Identifier | None
    port_id: Identifier | None
    port_description: str
    system_name: str
    management_addresses: tuple[str, ...]
    capabilities: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Lldp:
    """What this machine says of itself, and whom it hears."""

    chassis_id: Identifier | None
    system_name: str
    neighbors: tuple[Neighbor, ...]


def read() -> Lldp | None:
    """Ask lldpd; None where there is none, or none that answers within `TIMEOUT_S`."""
    deadline = time.monotonic() + TIMEOUT_S
    chassis = _ask(deadline, "chassis")
    neighbors = _ask(deadline, "neighbors", "details")
    return None if chassis is None or neighbors is None else parse(chassis, neighbors)


def _ask(deadline: float, *what: str) -> object:
    """The JSON that lldpd answers, or None."""
    try:
        done = subprocess.run(
            [*COMMAND, *what],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=max(0, deadline - time.monotonic()),
            check=True,
        )
        answer: object = json.loads(done.stdout.decode(errors="replace"))
    except FileNotFoundError:
        return None
    except subprocess.CalledProcessError as error:
        LOG.debug("lldpd does not answer: %s", error.stderr.decode(errors="replace").strip())
        return None
    except (OSError, subprocess.TimeoutExpired, ValueError, RecursionError) as error:
        LOG.warning("lldpd does not answer: %s", error)
        return None
    return answer


def parse(chassis: object, neighbors: object) -> Lldp:
    """What `lldpcli -f json0 show chassis` and `show neighbors details` have printed.

    At most NEIGHBORS_MAX neighbours, and ADDRESSES_MAX addresses of each.
    """
    own = next(_inside(chassis, "local-chassis", "chassis"), {})
    heard = list(islice(_neighbors(neighbors), NEIGHBORS_MAX + 1))
    if len(heard) > NEIGHBORS_MAX:
        LOG.warning("lldpd has more than %d neighbours: the others are left out", NEIGHBORS_MAX)
    return Lldp(
        chassis_id=_identifier(own),
        system_name=_text(own, "name"),
        neighbors=tuple(heard[:NEIGHBORS_MAX]),
    )


def _neighbors(neighbors: object) -> Iterator[Neighbor]:
    for heard in _inside(neighbors, "lldp", "interface"):
        if name := _printable(heard.get("name")):
            yield _neighbor(name, heard)


def _neighbor(interface: str, heard: Mapping[str, object]) -> Neighbor:
    chassis = next(_inside(heard, "chassis"), {})
    port = next(_inside(heard, "port"), {})
    return Neighbor(
        interface=interface,
        chassis_id=_identifier(chassis),
        port_id=_identifier(port),
        port_description=_text(port, "descr"),
        system_name=_text(chassis, "name"),
        management_addresses=tuple(islice(dict.fromkeys(_addresses(chassis)), ADDRESSES_MAX)),
        capabilities=tuple(dict.fromkeys(_capabilities(chassis))),
    )


def _addresses(chassis: Mapping[str, object]) -> Iterator[str]:
    for entry in _inside(chassis, "mgmt-ip"):
        try:
            yield str(ipaddress.ip_address(str(entry.get("value"))))
        except ValueError:
            continue


def _capabilities(chassis: Mapping[str, object]) -> Iterator[str]:
    for entry in _inside(chassis, "capability"):
        name = CAPABILITIES.get(str(entry.get("type")))
        if name and entry.get("enabled") is True:
            yield name


def _identifier(of: Mapping[str, object]) -> Identifier | None:
    entry = next(_inside(of, "id"), {})
    text = _printable(entry.get("value"))
    return Identifier(text, ID_SUBTYPES.get(str(entry.get("type")))) if text else None


def _text(of: Mapping[str, object], key: str) -> str:
    return _printable(next(_inside(of, key), {}).get("value"))


def _inside(node: object, *path: str) -> Iterator[Mapping[str, object]]:
    """Every object at `path` below `node`, through lists and without them; of wrong types none."""
    if isinstance(node, list):
        for element in node:
            yield from _inside(element, *path)
    elif isinstance(node, dict):
        if path:
            yield from _inside(node.get(path[0]), *path[1:])
        else:
            yield node


def _printable(value: object) -> str:
    """Text that a YANG string can hold and a terminal shows as it is; "" for what is no text.

    Controls, surrogates, code points without a character and marks that turn the direction of
    writing (Unicode's general categories C and Zl, Zp) would make libyang refuse all neighbours, or
    show an operator something else.
    """
    if not isinstance(value, str):
        return ""
    return "".join(
        "\N{REPLACEMENT CHARACTER}" if _is_unprintable(character) else character
        for character in value[:TEXT_MAX].strip()
    )


def _is_unprintable(character: str) -> bool:
    category = unicodedata.category(character)
    return category[0] == "C" or category in {"Zl", "Zp"}
