"""The keys that mechanisms, control loops and a lab have in an intent, beside those of `shape`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

from pydantic import create_model

from cnc.intent import lab_semantics
from cnc.intent.mapping import Shape
from cnc.loops import semantics as loops
from cnc.mechanism import Keys, Level
from cnc.mechanisms.registry import MECHANISMS
from cnc.mechanisms.talker_offsets import semantics as talkers

_Shape = TypeVar("_Shape", bound=Shape)

KEYS: tuple[Keys, ...] = (
    *(each.keys() for each in MECHANISMS),
    talkers.KEYS,
    loops.KEYS,
    lab_semantics.KEYS,
)


def with_keys(level: Level) -> Callable[[type[_Shape]], type[_Shape]]:
    """Give a shape the keys of others there."""

    def extended(own: type[_Shape]) -> type[_Shape]:
        # Pydantic lists the fields of the last base first.
        found = [each.shapes[level] for each in reversed(KEYS) if level in each.shapes]
        bases: tuple[type[Shape], ...] = (*found, own)
        made = create_model(
            own.__name__, __base__=bases, __doc__=own.__doc__, __module__=own.__module__
        )
        return cast("type[_Shape]", made)

    return extended
