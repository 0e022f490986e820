"""Errors of libyang and sysrepo as RFC 6241 errors, with their original text.

Both report little more than text, so tags are derived from it. Text that is not recognised still
reaches the client, with the general tag of the failed function.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from agent.netconfd.errors import RpcError, RpcErrors, shortened
from agent.sysrepo import errors
from agent.sysrepo.errors import Item

_TAG_OF_CODE = {
    errors.INVALID_ARGUMENT: "invalid-value",
    errors.LIBYANG: "invalid-value",
    errors.NO_MEMORY: "resource-denied",
    errors.NOT_FOUND: "data-missing",
    errors.EXISTS: "data-exists",
    errors.UNSUPPORTED: "operation-not-supported",
    errors.UNAUTHORIZED: "access-denied",
    errors.LOCKED: "in-use",
}

# Text, tag, and the element of error-info that takes the text's first group.
_TEXTS: Sequence[tuple[re.Pattern[str], str, str]] = [
    (re.compile(r'No module with namespace "(.*)"'), "unknown-namespace", "bad-namespace"),
    (re.compile(r'Node "(.*)" not found (?:as a child|in the)'), "unknown-element", "bad-element"),
    (re.compile(r'Unexpected data state node "(.*)" found'), "unknown-element", "bad-element"),
    (re.compile(r'Child element "(.*)" inside a terminal node'), "unknown-element", "bad-element"),
    (re.compile(r'List instance is missing its key "(.*)"'), "missing-element", "bad-element"),
    (re.compile(r'Mandatory node "(.*)" instance does not'), "missing-element", "bad-element"),
    (re.compile(r'Duplicate instance of "([^"]*)"'), "bad-element", "bad-element"),
    (re.compile(r'Data for both cases ".*" and "(.*)"'), "bad-element", "bad-element"),
    (re.compile(r'inside an inner node "(.*)"'), "invalid-value", "bad-element"),
    (
        re.compile(r'attribute "(?:[^"]*:)?([^:"]*)" not found'),
        "unknown-attribute",
        "bad-attribute",
    ),
    (re.compile(r'Missing mandatory prefix .*"(.*)"'), "unknown-attribute", "bad-attribute"),
]
# RFC 7950 section 15 names these.
_APP_TAGS: Sequence[tuple[re.Pattern[str], str, str | None]] = [
    (re.compile(r"Unique data leaf\(s\)"), "operation-failed", "data-not-unique"),
    (re.compile(r"Too many .* instances"), "operation-failed", "too-many-elements"),
    (re.compile(r"Too few .* instances"), "operation-failed", "too-few-elements"),
    (re.compile(r"Must condition|must condition"), "operation-failed", "must-violation"),
    (re.compile(r"Invalid leafref"), "data-missing", "instance-required"),
    (re.compile(r"Mandatory choice"), "data-missing", "missing-choice"),
    (re.compile(r"instance to insert next to not found"), "bad-attribute", "missing-instance"),
    (re.compile(r"Nested operation .* data parent does not exist"), "data-missing", None),
]
# sysrepo's own, after those of libyang that say what is wrong.
_SUMMARY = re.compile(r"(?:RPC|Action) (?:input|output) validation failed\.")

_PATH_IN_TEXT = '(path "', '")'
_ATTRIBUTE_STEP = re.compile(r"/([^/]+)/@(?:[\w.-]+:)?([\w.-]+)$")
# One name step of a libyang path, or a string literal to be left alone.
_NAME = re.compile(r"""("[^"]*"|'[^']*')|(?<=[/\[])(?:([A-Za-z_][\w.-]*):)?([A-Za-z_][\w.-]*)""")


def to_rpc_errors(items: Sequence[Item], modules: Mapping[str, str]) -> RpcErrors:
    """The errors to report; `modules` maps a module's name to its namespace."""
    if items[0].code in {errors.EXISTS, errors.NOT_FOUND}:
        # sysrepo goes on to name what is below the node.
        items = items[:1]
    if len(items) > 1 and _SUMMARY.fullmatch(items[-1].text):
        items = items[:-1]
    return RpcErrors([_error(item, modules) for item in items])


def _error(item: Item, modules: Mapping[str, str]) -> RpcError:
    code, whole, path, tag = item
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
    if tag:
        # A subscriber's, which knows; its words are its own.
        error.tag = tag
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
    _, separator, path = text.rpartition(begin)
    return path.removesuffix(end) if separator and path.endswith(end) else None


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
