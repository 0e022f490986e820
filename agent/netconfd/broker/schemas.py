"""The schemas this server has, from sysrepo's YANG library (RFC 8525), and their text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from urllib.parse import unquote, urlsplit

from lxml import etree

from agent.netconfd.errors import RpcError
from agent.sysrepo import Context

LIBRARY_PATH = "/ietf-yang-library:yang-library"
FORMATS = ("yang", "yin")

_LIBRARY = "urn:ietf:params:xml:ns:yang:ietf-yang-library"
_CAPABILITY = "urn:ietf:params:netconf:capability:yang-library"
_YANG_1_1 = re.compile(r"""^\s*yang-version\s+["']?1\.1["']?\s*;""", re.MULTILINE)


@dataclass(frozen=True)
class Schema:
    """A module or submodule. `namespace` of a submodule is its module's; `file` may be unknown."""

    name: str
    revision: str
    namespace: str
    file: Path | None
    module: str

    @property
    def formats(self) -> tuple[str, ...]:
        """What it can be had in; libyang prints no submodule as YIN."""
        return FORMATS if self.name == self.module else ("yang",)


@dataclass(frozen=True)
class _Module:
    """A module that is implemented, not only imported."""

    schema: Schema
    features: tuple[str, ...]
    deviations: tuple[str, ...]


class Library:
    """One reading of the YANG library."""

    def __init__(self, library_xml: str) -> None:
        library = etree.fromstring(library_xml)
        self.content_id = _text(library, "content-id")
        self._implemented = [
            _Module(
                _schema(module, module),
                tuple(_texts(module, "feature")),
                tuple(_texts(module, "deviation")),
            )
            for module in library.iterfind(f"{{{_LIBRARY}}}module-set/{{{_LIBRARY}}}module")
        ]
        imported = library.iterfind(f"{{{_LIBRARY}}}module-set/{{{_LIBRARY}}}import-only-module")
        self.schemas = (
            *(module.schema for module in self._implemented),
            *(_schema(module, module) for module in imported),
            *(
                _schema(submodule, module)
                for module in library.iter(
                    f"{{{_LIBRARY}}}module", f"{{{_LIBRARY}}}import-only-module"
                )
                for submodule in module.iterfind(f"{{{_LIBRARY}}}submodule")
            ),
        )
        self._revision = next(each.revision for each in self.schemas if each.namespace == _LIBRARY)

    @property
    def capability(self) -> str:
        """The capability that changes whenever the set of modules does (RFC 8526 section 2)."""
        return f"{_CAPABILITY}:1.1?revision={self._revision}&content-id={self.content_id}"

    def capabilities(self) -> list[str]:
        """The capabilities of these modules for a hello. The first call reads their files.

        The YANG library by RFC 7950 section 5.6.4 and by RFC 8526 section 2, and each module of
        YANG 1 by RFC 6020 section 5.6.4; those of YANG 1.1 are found in the library alone.
        """
        return list(self._capabilities)

    @cached_property
    def _capabilities(self) -> tuple[str, ...]:
        return (
            f"{_CAPABILITY}:1.0?revision={self._revision}&module-set-id={self.content_id}",
            self.capability,
            *(
                _capability(module)
                for module in self._implemented
                if not _YANG_1_1.search(self.text(module.schema, "yang"))
            ),
        )

    def find(self, name: str, revision: str | None) -> Schema:
        """The one schema of this name and, unless None, revision. Raises RpcError (RFC 6022)."""
        matches = [
            each for each in self.schemas if each.name == name and revision in {None, each.revision}
        ]
        if not matches:
            label = name if revision is None else f"{name}@{revision}"
            raise RpcError("invalid-value", f"there is no schema {label}", "protocol")
        if len(matches) > 1:
            revisions = ", ".join(each.revision for each in matches)
            raise RpcError(
                "operation-failed",
                f"there are several revisions of {name}: {revisions}; give <version>",
                "protocol",
                app_tag="data-not-unique",
            )
        return matches[0]

    def text(self, schema: Schema, format_: str) -> str:
        """The schema in one of its formats. Raises OSError or LibyangError."""
        if format_ == "yang" and schema.file is not None:
            return schema.file.read_text(encoding="utf-8")
        # What is in no file is built into libyang, so a context of our own has it too; sysrepo's
        # may hold compiled schemas only.
        with Context(":".join(sorted(self._directories()))) as context:
            module = context.load_module(schema.name, schema.revision or None)
            return str(module.print_mem(format_))

    def _directories(self) -> Iterator[str]:
        yield from {str(each.file.parent) for each in self.schemas if each.file is not None}


def _schema(element: etree._Element, module: etree._Element) -> Schema:
    files = [_file(location) for location in _texts(element, "location")]
    return Schema(
        name=_text(element, "name"),
        revision=_text(element, "revision"),
        namespace=_text(module, "namespace"),
        file=next((file for file in files if file is not None), None),
        module=_text(module, "name"),
    )


def _file(location: str) -> Path | None:
    parts = urlsplit(location)
    path = Path(unquote(parts.path))
    return path if parts.scheme == "file" and not parts.netloc and path.is_file() else None


def _capability(module: _Module) -> str:
    schema = module.schema
    parameters = [f"module={schema.name}"]
    if schema.revision:
        parameters.append(f"revision={schema.revision}")
    if module.features:
        parameters.append(f"features={','.join(module.features)}")
    if module.deviations:
        parameters.append(f"deviations={','.join(module.deviations)}")
    return f"{schema.namespace}?{'&'.join(parameters)}"


def _texts(element: etree._Element, name: str) -> list[str]:
    return [each.text or "" for each in element.iterfind(f"{{{_LIBRARY}}}{name}")]


def _text(element: etree._Element, name: str) -> str:
    return element.findtext(f"{{{_LIBRARY}}}{name}") or ""
