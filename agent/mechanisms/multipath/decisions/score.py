"""The order in which further paths are opened: the one that should carry most comes first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def ranked(paths: Iterable[str], rates_bps: Mapping[str, int | None]) -> list[str]:
    """The names in order; those of which no rate is known come last, by name."""
    return sorted(paths, key=lambda name: (-(rates_bps.get(name) or 0), name))
