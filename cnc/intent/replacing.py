"""Documents with other values for some of their keys, named as messages name them: `links[0].rate`.

What loaders find wrong with such a document they tell as of any other; of a value that was put in
no line is told, since no line of the file has it.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from typing import Any

from cnc.keys.problems import KeyPath, Problems, one_of, shown

_STEP = r"(?:[^.\[\]\s]+)"
_PATH = re.compile(rf"{_STEP}(?:\.{_STEP}|\[[0-9]{{1,6}}\])*")


def path_of(dotted: str) -> KeyPath:
    """Inverse of `problems.dotted`. ValueError says what was expected."""
    if not _PATH.fullmatch(dotted):
        raise ValueError("names with dots between them, and places of lists as [0]")
    steps = re.findall(r"\[([0-9]+)\]|([^.\[\]]+)", dotted)
    return tuple(int(place) if place else name for place, name in steps)


def with_value(problems: Problems, path: KeyPath, value: object) -> Problems:
    """A document that was read, with `value` at `path`; the one given is left as it is.

    Only the last step of `path` may be missing: optional keys need not be in the file.

    Raises:
        InputError: the document has no place for it, or had problems before.
    """
    problems.raise_if_any()
    document = copy.deepcopy(problems.document)
    replaced = Problems(
        problems.source,
        {its: line for its, line in problems.lines.items() if its[: len(path)] != path},
        document,
        text=problems.text,
    )
    replaced.lines = {**replaced.lines, path: 0}
    place = document
    for depth, step in enumerate(path):
        is_last = depth == len(path) - 1
        _check(place, path[: depth + 1], replaced, may_be_new=is_last)
        if is_last:
            place[step] = value
        else:
            place = place[step]
    return replaced


def _check(place: Any, path: KeyPath, problems: Problems, *, may_be_new: bool) -> None:
    """Raise InputError unless `place` has the last step of `path`, or may have it as a new key."""
    step = path[-1]
    if isinstance(step, int):
        if not isinstance(place, list):
            problems.add(path[:-1], shown(place), "a list")
        elif step >= len(place):
            problems.add(path[:-1], f"{len(place)} values", f"one at [{step}], counted from 0")
    elif not isinstance(place, Mapping):
        problems.add(path[:-1], shown(place), f"a mapping with the key {step}")
    elif step not in place and not may_be_new:
        problems.add(path[:-1], f"the unknown key {shown(step)}", one_of(place, step))
    problems.raise_if_any()
