"""The published schema of an IEEE module, from `data/yang-facts/`, and the same read off ours.

`<module>.json` has what the module file states, statement by statement; a grouping's contents count
once, where it is defined. `<module>.tree` has what a compiler makes of it (RFC 8340): the same with
every grouping in its places. Between them every property is said; neither holds any prose.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import libyang
from lxml import etree

FACTS = Path(__file__).parent / "data" / "yang-facts"
Facts = dict[str, Any]

YIN = "{urn:ietf:params:xml:ns:yang:yin:1}"
DATA_NODES = {"container", "list", "leaf", "leaf-list", "choice", "case", "action"}
OPERATIONS = {"rpc", "input", "output", "notification"}
# Statements whose argument has to be in the path to tell them from data nodes.
NAMED = {"augment", "uses", "refine", "typedef", "grouping", "identity", "feature"}
ONE_VALUE = {
    "key", "default", "units", "config", "mandatory", "presence", "status", "when", "min-elements",
    "max-elements", "ordered-by",
}  # fmt: skip
MANY_VALUES = {"must", "if-feature", "base", "unique"}
RESTRICTIONS = {"range", "length", "pattern", "path", "base", "fraction-digits"}


def published(module: str) -> Facts:
    """What the module's publisher states, as `stated` has it."""
    facts: Facts = json.loads((FACTS / f"{module}.json").read_text())
    return facts


def stated(module: libyang.Module) -> Facts:
    """What our module file states: header, then path of a statement to its properties."""
    root = etree.fromstring(module.print_mem("yin").encode())
    return {
        "module": root.get("name"),
        "namespace": root.find(f"{YIN}namespace").get("uri"),
        "prefix": root.find(f"{YIN}prefix").get("value"),
        "revision": root.find(f"{YIN}revision").get("date"),
        "imports": [
            {"module": i.get("module"), "prefix": i.find(f"{YIN}prefix").get("value")}
            for i in root.iterfind(f"{YIN}import")
        ],
        "statements": dict(_statements(root, "")),
    }


def _statements(parent: etree._Element, path: str) -> Iterator[tuple[str, Facts]]:
    for node in parent.iterchildren(tag=etree.Element):
        kind = node.tag.removeprefix(YIN)
        if kind not in DATA_NODES | OPERATIONS | NAMED:
            continue
        argument = node.get("name") or node.get("target-node") or kind
        here = f"{path}/{kind}:{argument}" if kind in NAMED else f"{path}/{argument}"
        yield here, _properties(node, kind)
        yield from _statements(node, here)


def _properties(node: etree._Element, kind: str) -> Facts:
    facts: Facts = {"kind": kind}
    if kind == "identity":
        facts["base"] = []
    for child in node:
        name = child.tag.removeprefix(YIN)
        if name == "type":
            facts["type"] = _type(child)
        elif name in MANY_VALUES:
            facts.setdefault(name, []).append(_argument(child))
        elif name in ONE_VALUE:
            facts[name] = _argument(child)
    return facts


def _type(node: etree._Element) -> Facts:
    facts: Facts = {"name": node.get("name")}
    for child in node:
        name = child.tag.removeprefix(YIN)
        if name == "type":
            facts.setdefault("union", []).append(_type(child))
        elif name in ("enum", "bit"):
            number = child.find(f"{YIN}{'value' if name == 'enum' else 'position'}")
            given = "" if number is None else f"={number.get('value')}"
            facts.setdefault(name, []).append(child.get("name") + given)
        elif name in RESTRICTIONS:
            facts.setdefault(name, []).append(_argument(child))
    return facts


def _argument(node: etree._Element) -> str:
    """The argument of a statement, which YIN names after what it is; white space counts once."""
    return " ".join(str(next(iter(node.attrib.values()))).split())


TREE_LINE = re.compile(
    r"(?P<indent>[ |]*)(?P<status>[+xo])--(?:(?P<access>rw|ro|-x|-w) | |(?=:))"
    r"(?P<name>[\w.-]+|:?\([\w.-]+\))(?P<option>[?*!]?)"
    r"(?: +\[(?P<key>[^]]*)\])?(?: +(?P<type>->|[^\s{[]+)[^{]*)?(?: *\{(?P<feature>[^}]+)\}\?)?$"
)
TREE_OPERATIONS = re.compile(r"  (?:rpcs|notifications):$")  # their statements say all of them
TREE_SECTION = re.compile(r"  (?:augment|grouping) (?P<target>\S+):$")
PREFIX = re.compile(r"[\w.-]+:")


def published_tree(module: str) -> dict[str, Facts]:
    """Path to properties of the nodes that the publisher's module compiles to.

    Paths are without prefixes, choices and cases. A grouping, which only compiles where it is used,
    counts as a container of its name. The feature of a whole augment, which a tree shows at its
    nodes and a compiler does not, is that of the augment statement alone.
    """
    conditional = _conditional_augments(module)
    nodes: dict[str, Facts] = {}
    section = ""
    above: list[re.Match[str]] = []  # the lines that lead to this one
    for line in (FACTS / f"{module}.tree").read_text().splitlines()[1:]:
        if TREE_OPERATIONS.match(line):
            break
        if heading := TREE_SECTION.match(line):
            section = "/" + PREFIX.sub("", heading["target"]).lstrip("/")
            above = []
        elif line.strip():
            node = TREE_LINE.match(line)
            assert node, f"{module}.tree: cannot read: {line}"
            above = [*(a for a in above if len(a["indent"]) < len(node["indent"])), node]
            if not _is_choice(node) and not any(a["access"] == "-x" for a in above[:-1]):
                names = [a["name"] for a in above if not _is_choice(a)]
                retired = any(a["status"] == "x" for a in above)
                facts = _tree_facts(node, retired=retired)
                if section in conditional and len(names) == 1:
                    facts["if-feature"] = ""
                nodes["/".join([section, *names])] = facts
    # A tree of groupings shows a key as optional that comes to its list by another grouping.
    for path, facts in [*nodes.items()]:
        for key in facts.get("key", "").split():
            nodes[f"{path}/{key}"]["required"] = True
    return nodes


def _conditional_augments(module: str) -> set[str]:
    """The targets of augments that need a feature, as paths of nodes."""
    return {
        PREFIX.sub("", path.partition(":")[2])
        for path, facts in published(module)["statements"].items()
        if facts["kind"] == "augment" and "if-feature" in facts
    }


def _is_choice(node: re.Match[str]) -> bool:
    return "(" in node["name"]


def _tree_facts(node: re.Match[str], *, retired: bool) -> Facts:
    many = node["option"] == "*"
    kinds = ("leaf", "leaf-list") if node["type"] else ("container", "list")
    facts: Facts = {
        "kind": "action" if node["access"] == "-x" else kinds[many],
        "config": node["access"] != "ro",
        "status": "deprecated" if retired else "current",
        "if-feature": node["feature"] or "",
    }
    if facts["kind"] == "leaf":
        facts["required"] = not node["option"]
    if facts["kind"] == "container":
        facts["presence"] = node["option"] == "!"
    if node["key"] is not None:
        facts["key"] = node["key"]
    if node["type"]:
        facts["type"] = "leafref" if node["type"] == "->" else node["type"]
    return facts


def compiled_tree(context: libyang.Context, module: str) -> dict[str, Facts]:
    """The nodes that `module` brought into `context`, as `published_tree` has them."""
    roots = [root for loaded in context for root in loaded.children()]
    return dict(_compiled(roots, "", module))


def _compiled(nodes: list[libyang.SNode], path: str, module: str) -> Iterator[tuple[str, Facts]]:
    for node in nodes:
        here = f"{path}/{node.name()}"
        if node.module().name() == module and node.keyword() not in ("rpc", "notification"):
            yield here, _node_facts(node)
        if node.keyword() in ("container", "list"):
            yield from _compiled(list(node.children()), here, module)


def _node_facts(node: libyang.SNode) -> Facts:
    facts: Facts = {
        "kind": node.keyword(),
        "config": not node.config_false(),
        "status": node.status(),
        "if-feature": ",".join(str(feature) for feature in node.if_features()),
    }
    if facts["kind"] == "leaf":
        facts["required"] = node.mandatory() or node.is_key()
    if facts["kind"] == "container":
        facts["presence"] = node.presence() is not None
    if facts["kind"] == "list":
        facts["key"] = " ".join(key.name() for key in node.keys())  # noqa: SIM118  not a dict
    if facts["kind"] in ("leaf", "leaf-list"):
        facts["type"] = node.type().name()
    return facts


def differences(ours: dict[str, Facts], theirs: dict[str, Facts]) -> str:
    """One line for each path that is missing, extra or different, and what differs."""
    lines = [f"{path}: missing" for path in theirs.keys() - ours.keys()]
    lines += [f"{path}: extra" for path in ours.keys() - theirs.keys()]
    for path in ours.keys() & theirs.keys():
        mine, their = ours[path], theirs[path]
        lines += [
            f"{path}: {name} is {mine.get(name)!r}, published as {their.get(name)!r}"
            for name in sorted(mine.keys() | their.keys())
            if mine.get(name) != their.get(name)
        ]
    return "\n".join(sorted(lines))
