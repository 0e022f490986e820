"""Parts in files that outlive a program: rows by key, each kind with a version of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import GenericAlias
from typing import Any

from pydantic import TypeAdapter

from cnc.mechanism import Kept


@dataclass(frozen=True, slots=True)
class Versioned:
    """The rows of a part, as JSON has them, and what version of its kind they are."""

    version: int
    rows: list[Any]


class UnknownPartError(ValueError):
    """A part of a mechanism, or a version of one, that is not installed here."""


def rows_of(kept: Kept[Any]) -> Any:
    """The type of all rows of a part."""
    return GenericAlias(tuple, (kept.row, ...))


def written(kept: Kept[Any], part: object) -> Versioned:
    """A part as its rows."""
    rows = TypeAdapter(rows_of(kept)).dump_python(tuple(kept.rows(part)), mode="json")
    return Versioned(kept.version, rows)


def read(kept: Kept[Any], its: Versioned) -> Any:
    """The part of these rows. Raises ValueError where they are no such rows."""
    if its.version in kept.former:
        return kept.former[its.version](its.rows)
    return kept.part(TypeAdapter(rows_of(kept)).validate_python(its.rows))


def refuse_unknown(versions: Mapping[str, int], known: Mapping[str, Kept[Any]]) -> None:
    """Raises UnknownPartError unless all of these kinds, in these versions, are known."""
    for key, version in versions.items():
        if key not in known:
            raise UnknownPartError(f"it has {key!r} of a mechanism that is not installed here")
        if version != known[key].version and version not in known[key].former:
            raise UnknownPartError(
                f"it has {key!r} in version {version}, and version {known[key].version} is "
                "installed here"
            )
