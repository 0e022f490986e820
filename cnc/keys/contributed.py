"""The keys that mechanisms, control loops and a lab have in an intent, beside those of `shape`."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TypeVar, cast

from pydantic import create_model

from cnc.errors import CncError
from cnc.keys.keys import Keys, Level
from cnc.keys.mapping import Shape
from cnc.laboratory import registration
from cnc.mechanisms.loading import loaded

_Shape = TypeVar("_Shape", bound=Shape)

_LABORATORY = registration()

KEYS: tuple[Keys, ...] = (
    *(each.keys() for each in loaded() if each.keys),
    import_module("cnc.loops.semantics").KEYS,  # by name: that room stands above this one
    *([_LABORATORY.keys()] if _LABORATORY else []),
)


def with_keys(level: Level) -> Callable[[type[_Shape]], type[_Shape]]:
    """Give a shape the keys of others there. Raises CncError where two have one key."""

    def extended(own: type[_Shape]) -> type[_Shape]:
        # Pydantic lists the fields of the last base first.
        found = [each.shapes[level] for each in reversed(KEYS) if level in each.shapes]
        bases: tuple[type[Shape], ...] = (*found, own)
        whose: dict[str, str] = {}
        for each in bases:
            for key in each.model_fields:
                if (first := whose.setdefault(key, each.__module__)) != each.__module__:
                    raise CncError(
                        f"intents: {first} and {each.__module__} both define the key {key!r} of "
                        f"{own.__name__}",
                        hint="remove the package of one of them",
                    )
        made = create_model(
            own.__name__, __base__=bases, __doc__=own.__doc__, __module__=own.__module__
        )
        return cast("type[_Shape]", made)

    return extended
