"""Which nodes of data a user may read, by their paths: NACM (RFC 8341), section 3.4.5.

sysrepo applies these rules to data that it reads. Here they are applied to the paths in a
netconf-config-change, which name nodes without reading them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from agent.sysrepo import Context, LibyangError

_ANY = "*"
_NAME = r"(?:([A-Za-z_][\w.-]*):)?([A-Za-z_][\w.-]*)"
_VALUE = r"""("[^"]*"|'[^']*')"""
_STEP = re.compile(rf"""/{_NAME}((?:\[[^]"']*(?:"[^"]*"|'[^']*')?\])*)""", re.ASCII)
_KEY = re.compile(rf"\[{_NAME}={_VALUE}\]", re.ASCII)


class Step(NamedTuple):
    """One step of an instance-identifier: a node's module, name, and keys if it has any."""

    module: str
    name: str
    keys: Mapping[str, str]


def steps_of(path: str) -> tuple[Step, ...]:
    """The steps of an instance-identifier as libyang prints it: modules are inherited."""
    steps: list[Step] = []
    for module, name, predicates in _STEP.findall(path):
        inherited = module or (steps[-1].module if steps else "")
        keys = {key: value[1:-1] for _, key, value in _KEY.findall(predicates)}
        steps.append(Step(inherited, name, keys))
    return tuple(steps)


@dataclass(frozen=True)
class ReadRule:
    """A rule about reading. Without a path it is about all data of its module."""

    module: str
    path: tuple[Step, ...]
    is_permit: bool

    def matches(self, node: Sequence[Step]) -> bool:
        """Whether it is about the node, or about one that the node is below."""
        if self.module not in {_ANY, node[-1].module} or len(self.path) > len(node):
            return False
        return all(
            (of_rule.module, of_rule.name) == (step.module, step.name)
            and of_rule.keys.items() <= step.keys.items()
            for of_rule, step in zip(self.path, node, strict=False)
        )

    @classmethod
    def all_of(cls, rules: Sequence[Mapping[str, Any]]) -> Sequence[ReadRule]:
        """Those among the rules of a rule list, as RFC 7951 JSON, that are about reading data."""
        return [
            cls(rule["module-name"], steps_of(rule.get("path", "")), rule["action"] == "permit")
            for rule in rules
            if not {"rpc-name", "notification-name"} & rule.keys()
            and {"read", _ANY} & set(rule["access-operations"].split())
        ]


def is_hidden_by_default(context: Context, node: Sequence[Step]) -> bool:
    """Whether its schema, or that of a node above it, says `nacm:default-deny-all`."""
    path = "".join(f"/{step.module}:{step.name}" for step in node)
    try:
        schema = next(context.find_path(path))
    except LibyangError:
        # Its module has been uninstalled since.
        return True
    while schema is not None:
        if any(each.name() == "default-deny-all" for each in schema.extensions()):
            return True
        schema = schema.parent()
    return False
