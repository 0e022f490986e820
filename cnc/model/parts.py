"""What several mechanisms ask for in one place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self, TypeVar

_Part = TypeVar("_Part")


@dataclass(frozen=True, slots=True)
class Parts:
    """What is asked at one place, or of a network: at most one part of each type, which is a
    mechanism's own.

    `parts[Type]` is `Type()`, which asks for nothing, where there is none. Equal whatever the order
    in which parts were added.
    """

    parts: tuple[Any, ...] = ()

    @classmethod
    def of(cls, *parts: object) -> Self:
        """These parts, without those that ask for nothing."""
        asking = (each for each in parts if each != type(each)())
        return cls(tuple(sorted(asking, key=lambda each: type(each).__name__)))

    def __getitem__(self, kind: type[_Part]) -> _Part:
        return next((each for each in self.parts if isinstance(each, kind)), None) or kind()

    def having(self, *parts: object) -> Self:
        """The same with these in place of those of their types."""
        kinds = {type(each) for each in parts}
        return type(self).of(*(each for each in self.parts if type(each) not in kinds), *parts)


NO_PARTS = Parts()


@dataclass(frozen=True, slots=True)
class PlaceParts(Parts):
    """What there is at a port or at a bridge: also a part that asks for nothing, which is another
    thing than no part."""

    @classmethod
    def of(cls, *parts: object) -> Self:
        """These parts."""
        return cls(tuple(sorted(parts, key=lambda each: type(each).__name__)))

    def get(self, kind: type[_Part]) -> _Part | None:
        """The part of this type; None where there is none."""
        return next((each for each in self.parts if isinstance(each, kind)), None)
