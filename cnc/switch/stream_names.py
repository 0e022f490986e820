"""Entries of `/stream-identity` that name streams, and change nothing of their frames.

A passive one at `out-facing/input-port` knows the frames that come in with the address of their
stream (802.1CB 6.4: null stream identification). Other tables refer to it by its handle.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lxml.builder import ElementMaker

from cnc.model import StreamAddress
from cnc.switch import reply
from cnc.switch.reply import Element
from cnc.switch.tree import STREAM_IDENTIFICATION

_SID = ElementMaker(namespace=STREAM_IDENTIFICATION, nsmap={None: STREAM_IDENTIFICATION})
_NAMESPACES = {"s": STREAM_IDENTIFICATION}
_NULL = "null-stream-identification"
_TAGGED = "tagged"


def name_parameters(address: StreamAddress, ports: Iterable[str]) -> Iterator[Element]:
    """What an entry has besides index and handle to name the stream of an address at ports."""
    yield _SID("out-facing", *(_SID("input-port", port) for port in ports))
    yield _SID(
        _NULL,
        _SID("destination-mac", address.destination_mac.replace(":", "-").upper()),
        _SID("tagged", _TAGGED),
        _SID("vlan", str(address.vlan_id)),
    )


def named_stream(entry: Element) -> tuple[StreamAddress, tuple[str, ...]] | None:
    """The stream that an entry names, and the ports, sorted; None where it does something else."""
    known_by = entry.find(f"s:{_NULL}", _NAMESPACES)
    if known_by is None or reply.text(known_by, "s:tagged", _NAMESPACES) != _TAGGED:
        return None
    mac = reply.text(known_by, "s:destination-mac", _NAMESPACES)
    vlan = reply.text(known_by, "s:vlan", _NAMESPACES)
    found = reply.entries(entry, "s:out-facing/s:input-port", _NAMESPACES)
    ports = sorted(reply.short(port.text or "", "port") for port in found)
    if mac is None or vlan is None or not ports:
        return None
    address = StreamAddress(mac.replace("-", ":").lower(), reply.number(vlan, "vlan"))
    return address, tuple(ports)
