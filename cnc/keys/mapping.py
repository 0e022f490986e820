"""What all mappings of a document have in common: known keys, written as operators write them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict
from pydantic.fields import FieldInfo

_Keys = TypeVar("_Keys", bound=BaseModel)


class After(NamedTuple):
    """Of a field of `cnc.mechanism.Keys`: the key that its own stands behind where keys are listed;
    else behind all others."""

    key: str


def fields_of(model: type[BaseModel]) -> list[FieldInfo]:
    """The fields of a mapping in the order in which keys are listed."""
    found: list[FieldInfo] = []
    for its in model.model_fields.values():
        behind = next((each.key for each in its.metadata if isinstance(each, After)), None)
        places = (place for place, other in enumerate(found, 1) if other.alias == behind)
        found.insert(next(places, len(found)), its)
    return found


def _in_order(schema: dict[str, Any], model: type[BaseModel]) -> None:
    properties = schema.get("properties", {})
    for its in fields_of(model):
        properties[its.alias] = properties.pop(its.alias)


def _key(name: str) -> str:
    """A field's key in the document: the unit is in the value there, not in the name."""
    for suffix in ("_ns", "_bps", "_octets", "_ppb", "_ppt"):
        name = name.removesuffix(suffix)
    return name.strip("_").replace("_", "-")


class Shape(BaseModel):
    """A mapping with known keys only."""

    model_config = ConfigDict(
        alias_generator=_key, extra="forbid", frozen=True, json_schema_extra=_in_order
    )

    def __getitem__(self, kind: type[_Keys]) -> _Keys:
        """The same mapping, as one that has these keys (`cnc.mechanism.Keys`)."""
        if not isinstance(self, kind):
            raise TypeError(f"{type(self).__name__} has no keys of {kind.__qualname__}")
        return self


def wrapped(key: str, short: type) -> Callable[[object], object]:
    """Accept a bare value of type `short` for a mapping with only that `key`."""
    return lambda value: {key: value} if isinstance(value, short) else value
