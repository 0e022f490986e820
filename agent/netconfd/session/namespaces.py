"""Elements in a namespace that no module here has; most often their client declared none.

libyang finds them too, but names the element around them.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import takewhile
from typing import Any

from lxml import etree

from agent.netconfd.data_model import needed
from agent.netconfd.errors import RpcError
from agent.sysrepo.data import namespaces_with


def check_config(context: Any, config: etree._Element, modules: Mapping[str, str]) -> None:
    """Refuse elements in a <config> of no module here. Raises RpcError unknown-namespace.

    `modules` maps namespace to module name.
    """
    if (element := _unknown(config, modules)) is not None:
        steps = _steps(element, config, modules)
        raise _error(context, element, _path(steps))


def check_operation(context: Any, operation: etree._Element, modules: Mapping[str, str]) -> None:
    """The same of an operation's element, which has a known namespace, and its parameters.

    The path of the error begins at the operation.
    """
    if (element := _unknown(operation, modules)) is not None:
        steps = _steps(element, operation.getparent(), modules)
        error = _error(context, element, _path(steps))
        error.layer, error.path = "protocol", _path(steps)
        error.path_namespaces = {module: each.namespace or "" for module, each in steps}
        raise error


def _unknown(root: etree._Element, modules: Mapping[str, str]) -> etree._Element | None:
    """The first element below `root` of no module."""
    # A large edit repeats a few names.
    tags = {str(node.tag) for node in root.iterdescendants()}
    unknown = [tag for tag in tags if etree.QName(tag).namespace not in modules]
    return next(root.iterdescendants(unknown)) if unknown else None


def _steps(
    element: etree._Element, top: etree._Element | None, modules: Mapping[str, str]
) -> list[tuple[str, etree.QName]]:
    """The elements between, from the topmost, each with the name of its module."""
    within = takewhile(lambda each: each is not top, element.iterancestors())
    names = [etree.QName(each) for each in within]
    return [(modules[each.namespace or ""], each) for each in reversed(names)]


def _path(steps: list[tuple[str, etree.QName]]) -> str:
    return "".join(f"/{module}:{each.localname}" for module, each in steps)


def _error(context: Any, element: etree._Element, parent: str) -> RpcError:
    name = etree.QName(element)
    if name.namespace is None:
        what = f"<{name.localname}> has no namespace"
    else:
        what = f"<{name.localname}>: no module here has the namespace {name.namespace}"
    return RpcError(
        "unknown-namespace",
        what + needed(namespaces_with(context, name.localname, parent)),
        info={"bad-element": name.localname, "bad-namespace": name.namespace or ""},
    )
