"""The modules of the UNI and of the protocol, for the server's libyang, and its capabilities."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from cnc.service.web import schema

_BASE = "urn:ietf:params:netconf"
_LIBRARY_REVISION = "2016-06-21"
# An edit is one decision of the core: done as a whole or not at all.
_FEATURES = ("writable-running", "rollback-on-error", "xpath")
# Those of the protocol, which lie beside this file.
_PROTOCOL: tuple[Mapping[str, Any], ...] = (
    {
        "name": "ietf-netconf",
        "revision": "2013-09-29",
        "namespace": "urn:ietf:params:xml:ns:netconf:base:1.0",
        "conformance-type": "implement",
        "feature": _FEATURES,
    },
    {
        "name": "ietf-yang-library",
        "revision": _LIBRARY_REVISION,
        "namespace": "urn:ietf:params:xml:ns:yang:ietf-yang-library",
        "conformance-type": "implement",
    },
)
_STATE = "ietf-yang-library:modules-state"
_ID = struct.Struct("!I")


@cache
def exported() -> bytes:
    """Their number (`content_id`), and after it what the server loads: JSON."""
    ours, others = files(__package__), files("cnc") / "yang" / "cnc"
    modules = [_module(each, ours) for each in _PROTOCOL]
    modules += [_module(each, others) for each in schema.library()[_STATE]["module"]]
    octets = json.dumps(modules, separators=(",", ":")).encode()
    return _ID.pack(zlib.crc32(octets)) + octets


def content_id() -> int:
    """The number of this set of modules."""
    (number,) = _ID.unpack_from(exported())
    return int(number)


def capabilities() -> list[str]:
    """Of the hello (RFC 6241 section 8; RFC 7950 section 5.6.4)."""
    set_id = library()[_STATE]["module-set-id"]
    return [
        f"{_BASE}:base:1.0",
        f"{_BASE}:base:1.1",
        *(f"{_BASE}:capability:{feature}:1.0" for feature in _FEATURES),
        f"{_BASE}:capability:yang-library:1.0?revision={_LIBRARY_REVISION}&module-set-id={set_id}",
    ]


def library() -> dict[str, Any]:
    """The data of ietf-yang-library."""
    state = schema.library()[_STATE]
    return {_STATE: {"module-set-id": str(content_id()), "module": [*_PROTOCOL, *state["module"]]}}


def _module(described: Mapping[str, Any], directory: Any) -> dict[str, Any]:
    return {
        "name": described["name"],
        "revision": described["revision"],
        "implemented": described["conformance-type"] == "implement",
        "features": described.get("feature", ()),
        "text": (directory / f"{described['name']}.yang").read_text(encoding="utf-8"),
        "submodules": [],
    }
