"""The YANG modules of the backend, for processes that have no sysrepo."""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agent.netconfd.errors import RpcErrors
from agent.netconfd.sysrepo_errors import to_rpc_errors
from agent.sysrepo import Context, LibyangError, schema_context
from agent.sysrepo.data import enabled_features, module_names, namespaces_with
from agent.sysrepo.errors import libyang_items
from agent.sysrepo.operations import rpc_tags

# Of a path of libyang's; a value with brackets in it leaves what is no schema path.
_PREDICATE = re.compile(r"\[[^\]]*\]")
_EDITABLE_BY = {"candidate": "candidate", "running": "writable-running"}
_CONTENT_ID = struct.Struct("!I")


@dataclass(frozen=True)
class DataModel:
    """A libyang context; `modules` maps the namespace of each module to its name.

    `content_id` is the backend's number for this set of modules and features, `rpcs` has the
    `{namespace}name` of each RPC. The features of ietf-netconf say which datastores there are, and
    which an edit may change (RFC 6241, section 8).
    """

    content_id: int
    context: Context
    modules: Mapping[str, str]
    rpcs: frozenset[str]
    datastores: tuple[str, ...]
    editable: tuple[str, ...]

    @classmethod
    def build(cls, exported: bytes) -> DataModel:
        """From what `export` returned. Raises LibyangError."""
        (content_id,) = _CONTENT_ID.unpack_from(exported)
        context = schema_context.build(exported[_CONTENT_ID.size :])
        features = enabled_features(context, "ietf-netconf")
        return cls(
            content_id,
            context,
            module_names(context),
            rpc_tags(context),
            ("running", *(each for each in ("candidate", "startup") if each in features)),
            tuple(name for name, feature in _EDITABLE_BY.items() if feature in features),
        )

    def rpc_errors(self, error: LibyangError) -> RpcErrors:
        """What the client is told of an error of libyang's."""
        names = {name: namespace for namespace, name in self.modules.items()}
        found = to_rpc_errors(libyang_items(error), names)
        for each in found.errors:
            if each.tag == "unknown-element" and "not found" in each.message:
                parent = _PREDICATE.sub("", each.path or "")
                known = namespaces_with(self.context, each.info["bad-element"], parent)
                each.message = each.message.removesuffix(".") + needed(known) + "."
        return found


def needed(namespaces: Sequence[str]) -> str:
    """The end of a message on an element that is known in these namespaces; "" for none."""
    if not namespaces:
        return ""
    return "; expected " + " or ".join(f'xmlns="{each}"' for each in namespaces)


def export(content_id: int, modules: bytes) -> bytes:
    """The modules of `schema_context.export`, for `DataModel.build`."""
    return _CONTENT_ID.pack(content_id) + modules
