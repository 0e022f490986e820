"""The buffer tuner: what a socket may buffer whose connection uses several paths."""

from __future__ import annotations

from collections.abc import Iterable


def total_octets(of_paths: Iterable[int], maximum_octets: int) -> int:
    """final_buff = min(sum of B_i, max_buff)."""
    return min(sum(of_paths), maximum_octets)
