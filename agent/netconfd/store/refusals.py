"""What libyang and sysrepo say when they refuse, as RFC 6241 errors with their own words kept.

Both give text and little else, so some of it is read here. Text that is not recognised still
reaches the client; only its tag is then the general one of the function that failed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import libyang
import sysrepo
from _sysrepo import ffi, lib

from agent.netconfd.errors import RpcError, RpcErrors, shortened
from agent.netconfd.store.libsysrepo import error_path

_TAG_OF_CODE = {
    lib.SR_ERR_INVAL_ARG: "invalid-value",
    lib.SR_ERR_LY: "invalid-value",
    lib.SR_ERR_NO_MEMORY: "resource-denied",
    lib.SR_ERR_NOT_FOUND: "data-missing",
    lib.SR_ERR_EXISTS: "data-exists",
    lib.SR_ERR_UNSUPPORTED: "operation-not-supported",
    lib.SR_ERR_UNAUTHORIZED: "access-denied",
    lib.SR_ERR_LOCKED: "in-use",
}

# Text, tag, and the element of error-info that takes the text's first group.
_TEXTS: Sequence[tuple[re.Pattern[str], str, str]] = [
    (re.compile(r'No module with namespace "(.*)"'), "unknown-namespace", "bad-namespace"),
    (re.compile(r'Node "(.*)" not found (?:as a child|in the)'), "unknown-element", "bad-element"),
    (re.compile(r'Unexpected data state node "(.*)" found'), "unknown-element", "bad-element"),
    (re.compile(r'Child element "(.*)" inside a terminal node'), "unknown-element", "bad-element"),
    (re.compile(r'List instance is missing its key "(.*)"'), "missing-element", "bad-element"),
    (re.compile(r'Mandatory node "(.*)" instance does not'), "missing-element", "bad-element"),
    (
        re.compile(r'attribute "(?:[^"]*:)?([^:"]*)" not found'),
        "unknown-attribute",
        "bad-attribute",
    ),
    (re.compile(r'Missing mandatory prefix .*"(.*)"'), "unknown-attribute", "bad-attribute"),
]
# RFC 7950 section 15 names these.
_APP_TAGS: Sequence[tuple[re.Pattern[str], str, str]] = [
    (re.compile(r"Unique data leaf\(s\)"), "operation-failed", "data-not-unique"),
    (re.compile(r"Too many .* instances"), "operation-failed", "too-many-elements"),
    (re.compile(r"Too few .* instances"), "operation-failed", "too-few-elements"),
    (re.compile(r"Must condition|must condition"), "operation-failed", "must-violation"),
    (re.compile(r"Invalid leafref"), "data-missing", "instance-required"),
    (re.compile(r"Mandatory choice"), "data-missing", "missing-choice"),
    (re.compile(r"instance to insert next to not found"), "bad-attribute", "missing-instance"),
]

_PATH_IN_TEXT = '(path "', '")'
_ATTRIBUTE_STEP = re.compile(r"/([^/]+)/@(?:[\w.-]+:)?([\w.-]+)$")
# One name step of a libyang path, or a string literal to be left alone.
_NAME = re.compile(r"""("[^"]*"|'[^']*')|(?<=[/\[])(?:([A-Za-z_][\w.-]*):)?([A-Za-z_][\w.-]*)""")


class Item(NamedTuple):
    """One error as libyang or sysrepo keeps it."""

    code: int
    text: str
    path: str | None


def items_of(
    session: sysrepo.SysrepoSession, error: sysrepo.SysrepoError | libyang.LibyangError
) -> list[Item]:
    """Every error behind an exception; for sysrepo's, before the session is used again."""
    if isinstance(error, libyang.LibyangError):
        items = [Item(lib.SR_ERR_LY, item.msg or "", item.data_path) for item in error.errors]
        return [item for item in items if item.text] or [Item(lib.SR_ERR_LY, str(error), None)]
    info = ffi.new("const sr_error_info_t **")
    lib.sr_session_get_error(session.cdata, info)
    count = info[0].err_count if info[0] else 0
    kept = [info[0].err[index] for index in range(count)]
    return [
        Item(each.err_code, _text(each.message), error_path(each)) for each in kept if each.message
    ] or [Item(error.rc, str(error), None)]


def to_rpc_errors(items: Sequence[Item], modules: Mapping[str, str]) -> RpcErrors:
    """The errors to report; `modules` maps a module's name to its namespace."""
    if items[0].code in {lib.SR_ERR_EXISTS, lib.SR_ERR_NOT_FOUND}:
        # sysrepo goes on to name what is below the node.
        items = items[:1]
    return RpcErrors([_error(item, modules) for item in items])


def _text(message: object) -> str:
    return bytes(ffi.string(message)).decode(errors="replace")


def _error(item: Item, modules: Mapping[str, str]) -> RpcError:
    code, whole, path = item
    # The time that the patterns take grows with the square of the text's length, and while one is
    # looked for, nothing else in this process goes on.
    text = shortened(whole)
    error = RpcError(_TAG_OF_CODE.get(code, "operation-failed"), text)
    path = path or _path_in(whole)
    attribute = _ATTRIBUTE_STEP.search(path or "")
    if path and attribute:
        path = path[: attribute.start(2)].rpartition("/@")[0]
    if path:
        error.path, error.path_namespaces = _qualified(path, modules)
    if attribute and "not found" not in text:
        error.tag = "bad-attribute"
        error.info = {"bad-attribute": attribute.group(2), "bad-element": attribute.group(1)}
        return error
    for pattern, tag, info in _TEXTS:
        if match := pattern.search(text):
            error.tag, error.info = tag, _info(tag, info, match.group(1), path)
            return error
    for pattern, tag, app_tag in _APP_TAGS:
        if pattern.search(text):
            error.tag, error.app_tag = tag, app_tag
    return error


def _path_in(text: str) -> str | None:
    begin, end = _PATH_IN_TEXT
    _, found, path = text.rpartition(begin)
    return path.removesuffix(end) if found and path.endswith(end) else None


def _info(tag: str, name: str, value: str, path: str | None) -> dict[str, str]:
    """Appendix A wants the element next to an attribute or namespace at fault, where known."""
    element = (path or "").rpartition("/")[2].partition("[")[0].rpartition(":")[2]
    if tag in {"unknown-attribute", "unknown-namespace"} and element:
        return {name: value, "bad-element": element}
    return {name: value}


def _qualified(path: str, modules: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """A libyang path as XPath: each step with its prefix, which libyang leaves to inheritance."""
    used: dict[str, str] = {}
    current = ""

    def qualify(match: re.Match[str]) -> str:
        nonlocal current
        literal, module, name = match.groups()
        if literal is not None:
            return str(literal)
        # Only a step changes what later steps inherit; a key predicate belongs to its list.
        if module and path[match.start() - 1] == "/":
            current = module
        prefix = module or current
        if prefix not in modules:
            return match.group(0)
        used[prefix] = modules[prefix]
        return f"{prefix}:{name}"

    return _NAME.sub(qualify, path), used
