"""The shape of a stream's key `identification`: by what the first switch knows untagged frames."""

from __future__ import annotations

import ipaddress
from typing import Annotated

from pydantic import Field

from cnc.keys.mapping import After, Shape
from cnc.keys.values import Dscp, Leaf, Mac, TcpPort, choice
from cnc.model import NextProtocol


def _ip_address(value: object) -> str:
    """An address in its shortest form."""
    try:
        if isinstance(value, str):
            return str(ipaddress.ip_address(value))
    except ValueError:
        pass
    raise ValueError("an IP address such as 192.0.2.1 or 2001:db8::1")


IpAddress = Annotated[str, Leaf(_ip_address, {"type": "string", "pattern": "^[0-9A-Fa-f:.]+$"})]


class Ip(Shape):
    """Untagged IP packets, known by their headers (IP stream identification, IEEE 802.1CB 6.7)."""

    source: IpAddress | None = Field(
        None, description="IP address of the talker; default: any, of those at the talker's port"
    )
    destination: IpAddress = Field(description="IP address of the listener")
    protocol: Annotated[NextProtocol, choice(NextProtocol)] = Field(
        "none",
        validate_default=True,
        description="protocol that the packets carry: udp, tcp or none, which is any",
    )
    source_port: TcpPort | None = Field(
        None, description="UDP or TCP port of the talker; default: any"
    )
    destination_port: TcpPort | None = Field(
        None, description="UDP or TCP port of the listener; default: any"
    )
    dscp: Dscp | None = Field(None, description="IP code point, 0 to 63; default: any")


class Identification(Shape):
    """By what the first switch knows the untagged frames of a stream: one of the three."""

    ip: Ip | None = Field(None, description="by their IP headers: they are IP packets")
    source_mac: Mac | None = Field(
        None,
        description="by the MAC address of the talker: all untagged frames that it sends (source "
        "MAC and VLAN stream identification, IEEE 802.1CB 6.5)",
    )
    destination_mac: Mac | None = Field(
        None,
        description="by the MAC address that the talker sends them to (null stream "
        "identification, IEEE 802.1CB 6.4)",
    )


class StreamKeys(Shape):
    """Of a stream."""

    identification: Annotated[Identification | None, After("pcp")] = Field(
        None,
        description="in a bridged network, of a stream whose talker sends plain untagged frames: "
        "by what the first switch knows them, to give them their address, VLAN and PCP, which the "
        "last switch takes away again; default: the talker tags its frames",
    )
