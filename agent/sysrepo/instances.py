"""The instances of lists that an XPath names by their keys, to read no others.

`selection.needed_paths` gives paths of schema nodes, which stand for all their instances. Here the
steps of such a path get the keys that the expression compares with a constant: what it selects
depends on no other instance of that list.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from libyang import Context, SList

from agent.sysrepo.selection import CONDITIONS, LITERAL, NAME, needed_paths, union_of_paths

# Of the paths in a union, and of all keys together. Beyond them, all instances are read: paths are
# sent to whoever reads, and this much fits into a message whatever the keys are written in.
MAX_PATHS = 64
MAX_KEY_CHARACTERS = 10_000
# Of paths into one entry of a list, from which on it is read whole: sysrepo looks the user's groups
# up, twice, for each node that it finds.
WHOLE_ENTRY_PATHS = 4

_STEP = re.compile(rf"\s*+/(?:{NAME}:)?({NAME})(?!\s*+[(:])({CONDITIONS})", re.ASCII)
_KEY = re.compile(rf"\[\s*+(?:{NAME}:)?({NAME})\s*+=\s*+({LITERAL})\s*+\]", re.ASCII)


class Step(NamedTuple):
    """One step of a path, with the keys of a list that are asked for.

    `name` has that of a module where it is not the parent's.
    """

    name: str
    keys: tuple[tuple[str, str], ...] = ()


Instances = tuple[Step, ...]


def needed_instances(context: Context, xpath: str) -> tuple[Instances, ...]:
    """What decides on what `xpath` selects: paths as `needed_paths` has them, with keys.

    Of a list entry with many of them, the path of the entry alone. Raises LibyangError.
    """
    paths = union_of_paths(xpath)
    if 0 < len(paths) <= MAX_PATHS:
        with_keys = dict.fromkeys(
            _with_keys(context, path, tuple(_steps(each)))
            for each in paths
            for path in needed_paths(context, each)
        )
        keys = (value for path in with_keys for step in path for _, value in step.keys)
        if sum(map(len, keys)) <= MAX_KEY_CHARACTERS:
            return _with_whole_entries(tuple(with_keys))
    return tuple(_with_keys(context, path, ()) for path in needed_paths(context, xpath))


def _with_whole_entries(paths: tuple[Instances, ...]) -> tuple[Instances, ...]:
    """The same paths, but that of the entry instead of many into it."""
    entries = [_entry(path) for path in paths]
    whole = {entry for entry, count in Counter(entries).items() if count >= WHOLE_ENTRY_PATHS}
    whole.discard(())
    replaced = (
        entry if entry in whole else path for path, entry in zip(paths, entries, strict=True)
    )
    return tuple(dict.fromkeys(replaced))


def _entry(path: Instances) -> Instances:
    """The part of a path up to the last list entry that it names; empty if it names none."""
    named = [depth for depth, step in enumerate(path) if step.keys]
    return path[: named[-1] + 1] if named else ()


def _steps(path: str) -> Iterator[tuple[str, str]]:
    """Local name and conditions of each step, as far as all are named."""
    position = 0
    while match := _STEP.match(path, position):
        yield match.group(1), match.group(2)
        position = match.end()


def _with_keys(context: Context, path: str, steps: tuple[tuple[str, str], ...]) -> Instances:
    result = []
    names = path.split("/")[1:]
    is_same = True
    for depth, name in enumerate(names):
        keys: dict[str, str] = {}
        is_same = is_same and depth < len(steps) and steps[depth][0] == name.rpartition(":")[2]
        if is_same and steps[depth][1]:
            schema = next(context.find_path("/" + "/".join(names[: depth + 1])))
            if isinstance(schema, SList):
                among = {key.name() for key in schema.keys()}  # noqa: SIM118  not a mapping
                conditions = _KEY.findall(steps[depth][1])
                keys = {key: value[1:-1] for key, value in conditions if key in among}
        result.append(Step(name, tuple(sorted(keys.items()))))
    return tuple(result)
