"""The keys of an intent that mechanisms have (`cnc.mechanism.Keys`), beside those of `shape`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

from pydantic import create_model

from cnc.intent.mapping import Shape
from cnc.mechanism import Keys, Level
from cnc.mechanisms.registry import MECHANISMS

_Shape = TypeVar("_Shape", bound=Shape)

KEYS: tuple[Keys, ...] = tuple(each.keys() for each in MECHANISMS)


def with_keys(level: Level) -> Callable[[type[_Shape]], type[_Shape]]:
    """Give a shape the keys that mechanisms have there."""

    def extended(own: type[_Shape]) -> type[_Shape]:
        # Pydantic lists the fields of the last base first.
        found = [each.shapes[level] for each in reversed(KEYS) if level in each.shapes]
        bases: tuple[type[Shape], ...] = (*found, own)
        made = create_model(
            own.__name__, __base__=bases, __doc__=own.__doc__, __module__=own.__module__
        )
        return cast("type[_Shape]", made)

    return extended
