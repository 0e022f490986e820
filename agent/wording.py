"""Words that every message of the agent and the NETCONF server makes alike."""

from __future__ import annotations


def counted(count: int, one: str) -> str:
    """A number of things: 1 frame, 2 frames, 2 entries, 2 switches."""
    if count == 1:
        return f"1 {one}"
    if one.endswith("y"):
        return f"{count} {one[:-1]}ies"
    return f"{count} {one}{'es' if one.endswith(('s', 'ch')) else 's'}"
