"""What a user may do with nodes of data, by their paths: NACM (RFC 8341), section 3.4.5.

sysrepo applies these rules to data that it reads, and to what an edit changes. Here they are
applied to paths, which name nodes without looking them up: in an edit, and in a
netconf-config-change.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, get_args

from agent.sysrepo import Context, LibyangError

# The access operations on data; the others of section 3.4.2 are for operations.
Right = Literal["read", "create", "update", "delete"]
RIGHTS: frozenset[Right] = frozenset(get_args(Right))
WRITE_RIGHTS: frozenset[Right] = RIGHTS - {"read"}
NO_RIGHTS: frozenset[Right] = frozenset()
# What a user without a rule may not do with a node whose schema has this extension (section 7).
_DENIED_BY: Mapping[str, frozenset[Right]] = {
    "default-deny-all": RIGHTS,
    "default-deny-write": WRITE_RIGHTS,
}

_ANY = "*"
_NAME = r"(?:([A-Za-z_][\w.-]*):)?([A-Za-z_][\w.-]*)"
_VALUE = r"""("[^"]*"|'[^']*'|\$USER)"""
_STEP = re.compile(rf"""/{_NAME}((?:\[[^]"']*(?:"[^"]*"|'[^']*')?\])*)""", re.ASCII)
_KEY = re.compile(rf"\[{_NAME}={_VALUE}\]", re.ASCII)


class Step(NamedTuple):
    """One step of an instance-identifier: a node's module, name, and keys if it has any.

    The value of a key is None where a rule has the variable `$USER`.
    """

    module: str
    name: str
    keys: Mapping[str, str | None]


def steps_of(path: str) -> tuple[Step, ...]:
    """The steps of an instance-identifier as libyang prints it: modules are inherited."""
    steps: list[Step] = []
    for module, name, predicates in _STEP.findall(path):
        inherited = module or (steps[-1].module if steps else "")
        keys = {
            key: None if value == "$USER" else value[1:-1]
            for _, key, value in _KEY.findall(predicates)
        }
        steps.append(Step(inherited, name, keys))
    return tuple(steps)


@dataclass(frozen=True)
class DataRule:
    """A rule about data. Without a path it is about all data of its module."""

    module: str
    path: tuple[Step, ...]
    rights: frozenset[Right]
    is_permit: bool

    def of(self, user: str) -> DataRule:
        """The rule as it is for this user."""
        path = (
            step._replace(
                keys={key: user if value is None else value for key, value in step.keys.items()}
            )
            for step in self.path
        )
        return replace(self, path=tuple(path))

    def matches(self, node: Sequence[Step]) -> bool:
        """Whether it is about the node, or about one that the node is below."""
        return (
            self.module in {_ANY, node[-1].module}
            and len(self.path) <= len(node)
            and self.is_along(node)
        )

    def is_along(self, node: Sequence[Step]) -> bool:
        """Whether its path leads to the node, to one above it, or to one below it."""
        for of_rule, step in zip(self.path, node, strict=False):
            if (of_rule.name, of_rule.module) != (step.name, step.module) or not (
                of_rule.keys.items() <= step.keys.items()
            ):
                return False
        return True

    @classmethod
    def all_of(cls, rules: Sequence[Mapping[str, Any]]) -> Sequence[DataRule]:
        """Those among the rules of a rule list, as RFC 7951 JSON, that are about data."""
        return [
            cls(
                rule["module-name"],
                steps_of(rule.get("path", "")),
                RIGHTS if _ANY in among else RIGHTS & among,
                rule["action"] == "permit",
            )
            for rule in rules
            if not {"rpc-name", "notification-name"} & rule.keys()
            and (among := set(rule["access-operations"].split())) & {_ANY, *RIGHTS}
        ]


@dataclass(frozen=True)
class DataRights:
    """What one user may do with data: the rules about that user, and what holds without a rule."""

    rules: Sequence[DataRule]
    defaults: frozenset[Right]

    def may(self, right: Right, node: Sequence[Step], denied: frozenset[Right]) -> bool:
        """Whether the user may do this to the node; `denied` is what its schema denies."""
        for rule in self._about(right):
            if rule.matches(node):
                return rule.is_permit
        return right in self.defaults - denied

    def may_all_below(self, right: Right, node: Sequence[Step]) -> bool:
        """Whether a rule permits it for the node and all below, and no rule before it denies it.

        It may be so without: this asks neither each node below nor the schema.
        """
        for rule in self._about(right):
            if not rule.is_permit and rule.is_along(node):
                return False
            if rule.is_permit and rule.module == _ANY and rule.matches(node):
                return True
        return False

    def paths_below(self, node: Sequence[Step], *, is_permit: bool) -> Iterator[tuple[Step, ...]]:
        """The paths below the node in rules that permit reading, or in those that deny it."""
        for rule in self._about("read"):
            is_below = len(rule.path) > len(node) and rule.is_along(node)
            if is_below and rule.is_permit == is_permit:
                yield rule.path

    def _about(self, right: Right) -> Iterator[DataRule]:
        return (rule for rule in self.rules if right in rule.rights)


# Of a user whom no access control restricts.
ALL_RIGHTS = DataRights((DataRule(_ANY, (), RIGHTS, is_permit=True),), RIGHTS)


class DataAccess:
    """What a user may do with nodes of these modules. Not thread-safe; for one request."""

    def __init__(self, context: Context, rights: DataRights) -> None:
        self._rights = rights
        self._context = context
        self._denied: dict[tuple[tuple[str, str], ...], frozenset[Right]] = {}

    def may_read(self, node: Sequence[Step]) -> bool:
        """Whether it is there for the user: a node is hidden with all that is below it.

        Above what a rule permits, nodes are there to name it.
        """
        return (
            bool(node)
            and self._may("read", node)
            and all(
                self._may("read", above) or any(self._rights.paths_below(above, is_permit=True))
                for above in (node[:depth] for depth in range(1, len(node)))
            )
        )

    def may_edit(self, node: Sequence[Step]) -> bool:
        """Whether it is there for the user, or the user has all rights to write it."""
        return self.may_read(node) or all(self._may(right, node) for right in WRITE_RIGHTS)

    def may_edit_all_below(self, node: Sequence[Step]) -> bool:
        """Whether rules alone say so of the node and all below it."""
        may = self._rights.may_all_below
        return may("read", node) or all(may(right, node) for right in WRITE_RIGHTS)

    def hidden_below(self, node: Sequence[Step]) -> Iterator[tuple[Step, ...]]:
        """The paths below the node in rules that deny reading."""
        return self._rights.paths_below(node, is_permit=False)

    def _may(self, right: Right, node: Sequence[Step]) -> bool:
        names = tuple((step.module, step.name) for step in node)
        if (denied := self._denied.get(names)) is None:
            denied = self._denied[names] = _denied_by_schema(self._context, names)
        return self._rights.may(right, node, denied)


def _denied_by_schema(context: Context, names: Sequence[tuple[str, str]]) -> frozenset[Right]:
    """What its schema, or that of a node above it, denies to whom no rule permits it."""
    path = "".join(f"/{module}:{name}" for module, name in names)
    try:
        schema = next(context.find_path(path))
    except LibyangError:
        # Its module has been uninstalled since.
        return RIGHTS
    denied = NO_RIGHTS
    while schema is not None:
        for each in schema.extensions():
            denied |= _DENIED_BY.get(each.name(), NO_RIGHTS)
        schema = schema.parent()
    return denied
