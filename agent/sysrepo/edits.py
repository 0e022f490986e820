"""The nodes of an edit, as `Context.parse_data_mem` reads it for `SysrepoSession.edit_batch_ly`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import libyang
from libyang.data import ffi, lib


@dataclass(frozen=True)
class EditNode:
    """One node of an edit, but no key of a list. The memory stays its tree's."""

    _context: libyang.Context
    _cdata: Any

    @property
    def path(self) -> str:
        """Its instance-identifier as libyang prints it (`lyd_path`)."""
        text = lib.lyd_path(self._cdata, lib.LYD_PATH_STD, ffi.NULL, 0)
        try:
            return bytes(ffi.string(text)).decode()
        finally:
            lib.free(text)

    @property
    def operation(self) -> str | None:
        """Its own operation, if it has one. Only leaves that are deleted are opaque."""
        return self._meta("operation") if self._cdata.schema else "delete"

    @property
    def neighbour(self) -> str | None:
        """The keys, as predicates, of the list entry that it is to be next to."""
        return self._meta("key") if self._cdata.schema else None

    @property
    def is_mere_container(self) -> bool:
        """Whether it is a container without presence, which is there whenever its parent is."""
        schema = self._cdata.schema
        is_container = bool(schema) and schema.nodetype == lib.LYS_CONTAINER
        return is_container and not schema.flags & lib.LYS_PRESENCE

    def children(self) -> Iterator[EditNode]:
        """The nodes below it, without the keys of a list (`lyd_child_no_keys`)."""
        return _siblings(self._context, lib.lyd_child_no_keys(self._cdata))

    def _meta(self, name: str) -> str | None:
        value: str | None = libyang.DNode(self._context, self._cdata).get_meta(name)
        return value


def nodes_of(tree: libyang.DNode) -> Iterator[EditNode]:
    """The topmost nodes of an edit."""
    return _siblings(tree.context, lib.lyd_first_sibling(tree.cdata))


def _siblings(context: libyang.Context, first: Any) -> Iterator[EditNode]:
    while first:
        yield EditNode(context, first)
        first = first.next
