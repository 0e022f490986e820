"""What all mappings of a document have in common: known keys, written as operators write them."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


def _key(name: str) -> str:
    """A field's key in the document: the unit is in the value there, not in the name."""
    for suffix in ("_ns", "_bps", "_octets", "_ppb", "_ppt"):
        name = name.removesuffix(suffix)
    return name.strip("_").replace("_", "-")


class Shape(BaseModel):
    """A mapping with known keys only."""

    model_config = ConfigDict(alias_generator=_key, extra="forbid", frozen=True)
