"""The schemas of sysrepo's libyang context, for a process that has no sysrepo.

Such a process evaluates filters and parses configuration; of sysrepo it needs the schemas alone.
`export` gives them where there is a connection, `build` makes an equal context of them.
"""

from __future__ import annotations

import ctypes
import json
from typing import Any

import sysrepo
from libyang import Context, LibyangError
from libyang.context import ffi, lib
from libyang.util import c2str

from agent.sysrepo.library import LIBRARY, address

LIBRARY.ly_ctx_get_submodule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p]
LIBRARY.ly_ctx_get_submodule.restype = ctypes.c_void_p
LIBRARY.lys_print_submodule.argtypes = [
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_int,
    ctypes.c_size_t,
    ctypes.c_uint32,
]


def export(connection: sysrepo.SysrepoConnection) -> bytes:
    """The modules and submodules of the connection's context, as JSON for `build`.

    libyang's own YANG library (RFC 8525, `ly_ctx_get_yanglib_data`) says which there are, whether
    they are implemented, and which features are enabled. The texts are printed from what the
    context has parsed, so a file that was changed since does not count.
    Raises SysrepoError or LibyangError.
    """
    with connection.get_ly_ctx() as context:
        library = context.get_yanglib_data()
        try:
            described = json.loads(library.print_mem("json", with_siblings=True, pretty=False))
        finally:
            library.free()
        (modules,) = described["ietf-yang-library:yang-library"]["module-set"]
        # A module that is only imported may be there in several revisions.
        known = {(each.name(), c2str(each.cdata.revision) or ""): each for each in context}
        exported = [
            _module(context, known, described, implemented)
            for kind, implemented in (("module", True), ("import-only-module", False))
            for described in modules.get(kind, ())
        ]
    return json.dumps(exported, separators=(",", ":")).encode()


def build(exported: bytes) -> Context:
    """A context with the schemas that `export` gave; opens no file. Raises LibyangError.

    From here on libyang keeps all errors for exceptions, in the whole process; it prints none, and
    keeps no warnings, which nobody would take from it.
    """
    modules = json.loads(exported)
    texts = {
        (each["name"], each["revision"]): each["text"]
        for module in modules
        for each in (module, *module["submodules"])
    }
    latest = {name: text for (name, _), text in sorted(texts.items())}

    def find(
        module: str | None, revision: str | None, submodule: str | None, revision_of_it: str | None
    ) -> tuple[str, str] | None:
        name, date = (submodule, revision_of_it) if submodule else (module, revision)
        text = texts.get((name, date)) if date else latest.get(name)
        return None if text is None else ("yang", text)

    lib.ly_log_options(lib.LY_LOSTORE)
    lib.ly_log_level(lib.LY_LLERR)
    # Compiled once, in the end: else each module that augments another would compile it again.
    context = Context(disable_searchdirs=True, explicit_compile=True)
    context.external_module_loader.set_module_data_clb(find)
    for each in modules:
        if each["implemented"]:
            context.load_module(each["name"], each["revision"] or None, each["features"])
    context.compile_schema()
    return context


def _module(
    context: Any, known: dict[tuple[str, str], Any], described: dict[str, Any], implemented: bool
) -> dict[str, Any]:
    name, revision = described["name"], described.get("revision", "")
    return {
        "name": name,
        "revision": revision,
        "implemented": implemented,
        "features": described.get("feature", []),
        "text": known[name, revision].print_mem("yang"),
        "submodules": [
            {
                "name": each["name"],
                "revision": each.get("revision", ""),
                "text": _submodule_text(context, each["name"], each.get("revision")),
            }
            for each in described.get("submodule", ())
        ],
    }


def _submodule_text(context: Any, name: str, revision: str | None) -> str:
    """A submodule as YANG (`lys_print_submodule`); the memory printed to is freed here."""
    submodule = LIBRARY.ly_ctx_get_submodule(
        address(context.cdata), name.encode(), revision.encode() if revision else None
    )
    text, out = ffi.new("char **"), ffi.new("struct ly_out **")
    if lib.ly_out_new_memory(text, 0, out):
        raise LibyangError("no memory for a schema")
    try:
        if LIBRARY.lys_print_submodule(address(out[0]), submodule, lib.LYS_OUT_YANG, 0, 0):
            raise context.error("cannot print the submodule %s", name)
        return bytes(ffi.string(text[0])).decode()
    finally:
        lib.ly_out_free(out[0], ffi.NULL, False)
        lib.free(text[0])
