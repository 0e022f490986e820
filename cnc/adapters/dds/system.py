"""A DDS system with its deployments: the streams that it needs, and the file with their answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from lxml import etree

from cnc.adapters.dds.elements import (
    Element,
    attribute,
    children,
    put,
    put_text,
    required,
    text_of,
    where,
)
from cnc.adapters.dds.requested import body, stream_id
from cnc.errors import InputError

_FILE_MAX_OCTETS = 4 << 20
_MAC = "mac_address"
# By header of the UNI: the element of data_frame_specification, and its children by leaf.
_HEADERS = {
    "ieee802-mac-addresses": "mac_addresses",
    "ieee802-vlan-tag": "vlan_tag",
    "ipv4-tuple": "ipv4_tuple",
    "ipv6-tuple": "ipv6_tuple",
}


@dataclass(frozen=True, slots=True)
class DdsStream:
    """A stream of a system: its `body` by RFC 7951, as a CUC puts it."""

    name: str
    talker: Element
    body: Mapping[str, Any]

    @property
    def stream_id(self) -> str:
        return str(self.body["stream-id"])


class System:
    """What a file of DDS-XML has, with the root `dds` or `system`."""

    def __init__(self, root: Element) -> None:
        """Raises InputError for a system whose streams cannot be asked for."""
        self._root = root
        self._macs = {
            f"{attribute(library, 'name')}::{attribute(node, 'name')}": (node, text_of(node, _MAC))
            for library in children(root, "node_library")
            for node in children(library, "node")
        }
        self.streams = tuple(self._streams())

    @classmethod
    def read(cls, file: Path) -> Self:
        """Raises InputError for what is no such file. A DTD is refused, and nothing is fetched."""
        parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False)
        try:
            with file.open("rb") as opened:
                octets = opened.read(_FILE_MAX_OCTETS + 1)
            if len(octets) > _FILE_MAX_OCTETS:
                raise InputError(f"{file}: has more than {_FILE_MAX_OCTETS} octets")
            root = etree.fromstring(octets, parser, base_url=str(file))
        except OSError as error:
            raise InputError(f"{file}: cannot be read: {error.strerror}") from error
        except etree.XMLSyntaxError as error:
            raise InputError(f"{file}: {error}") from error
        if root.getroottree().docinfo.doctype:
            raise InputError(f"{file}: has a document type declaration, and DDS-XML has none")
        if (found := etree.QName(root).localname) not in {"dds", "system"}:
            raise InputError(
                f"{file}: found the root element {found}, expected dds",
                hint="a file of DDS-XML with node_library and deployment_library",
            )
        return cls(root)

    def fill(self, stream: DdsStream, placed: Mapping[str, Any]) -> None:
        """Write down what the service answered: what frames have to have, and when the talker sends
        the first one of each period."""
        (its,) = placed["talker"]["interface-configuration"]["interface-list"]
        for entry in its["config-list"]:
            for header, element in _HEADERS.items():
                if header in entry:
                    frame = put(put(stream.talker, "data_frame_specification"), element)
                    for leaf, value in entry[header].items():
                        put_text(frame, leaf.replace("-", "_"), _text(leaf, value))
            if (offset_ns := entry.get("time-aware-offset")) is not None:
                aware = put(required(stream.talker, "traffic_specification"), "time_aware")
                put_text(aware, "earliest_transmit_offset", offset_ns)
                put_text(aware, "latest_transmit_offset", offset_ns)

    def text(self) -> str:
        etree.indent(self._root)
        return etree.tostring(self._root, encoding="unicode", pretty_print=True)

    def _streams(self) -> Iterator[DdsStream]:
        talkers = [*self._configured("tsn_talker")]
        listeners = [*self._configured("tsn_listener")]
        names = {attribute(talker, "stream_name") for talker, _ in talkers}
        for listener, _ in listeners:
            if (name := attribute(listener, "stream_name")) not in names:
                raise InputError(f"{where(listener)}: no tsn_talker has the stream {name}")
        seen: dict[str, str] = {}
        for talker, mac in talkers:
            name = attribute(talker, "stream_name")
            its = [(each, to) for each, to in listeners if each.get("stream_name") == name]
            if not its:
                raise InputError(f"{where(talker)}: no tsn_listener has the stream {name}")
            its_id = stream_id(mac, name)
            if its_id in seen:
                raise InputError(
                    f"{where(talker)}: the stream {name} has the stream-id of {seen[its_id]}",
                    hint="a stream has one talker; another name makes another id",
                )
            seen[its_id] = name
            yield DdsStream(name, talker, body(talker, mac, its, name))

    def _configured(self, kind: str) -> Iterator[tuple[Element, str]]:
        """Each talker or listener, and the MAC address of the node that it is deployed on."""
        for library in children(self._root, "deployment_library"):
            for deployment in children(library, "deployment"):
                for configuration in children(deployment, "configuration"):
                    for tsn in children(configuration, "tsn"):
                        for each in children(tsn, kind):
                            yield each, self._mac_of(deployment)

    def _mac_of(self, deployment: Element) -> str:
        its = required(deployment, "node")
        reference = attribute(its, "node_ref").removeprefix("::")
        node, mac = self._macs.get(reference, (None, None))
        if node is None:
            raise InputError(
                f"{where(its)}: there is no node {reference}", hint="node_ref is LIBRARY::NODE"
            )
        if not mac:
            raise InputError(
                f"{where(node)}: found no mac_address, by which a CNC knows end stations"
            )
        return mac


def _text(leaf: str, value: object) -> str:
    """A value as DDS-XML writes it."""
    return str(value).replace("-", ":").lower() if leaf.endswith("mac-address") else str(value)
