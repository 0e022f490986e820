"""Words that every message of the agent and the NETCONF server makes alike."""

from __future__ import annotations

from collections.abc import Sequence

_NAMED = 3  # of many


def counted(count: int, one: str) -> str:
    """A number of things: 1 frame, 2 frames, 2 entries, 2 switches."""
    if count == 1:
        return f"1 {one}"
    if one.endswith("y"):
        return f"{count} {one[:-1]}ies"
    return f"{count} {one}{'es' if one.endswith(('s', 'ch')) else 's'}"


def first_few(things: Sequence[str], rest: str) -> str:
    """The first of many things, and the number of the `rest`: a, b, c, and 2 more frames."""
    more = len(things) - _NAMED
    named = ", ".join(things[:_NAMED])
    return f"{named}, and {counted(more, rest)}" if more > 0 else named
