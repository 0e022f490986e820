"""What differs between two plans of one network.

`cnc.plans.difference` says it to people, with both values, in order.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from itertools import compress, filterfalse
from operator import is_not
from typing import NamedTuple, TypeVar

from cnc.check.mechanisms import are_decided_alike
from cnc.model import Intent, Plan, PortRef

K = TypeVar("K")
V = TypeVar("V")


class Differences(NamedTuple):
    """The streams of which anything differs, those of them that are wanted otherwise, and the ports
    with other lists."""

    streams: frozenset[str]
    wanted: frozenset[str]
    lists: frozenset[PortRef]


class Named(NamedTuple):
    """The streams and the ports with lists that may differ: no others do."""

    streams: Collection[str]
    lists: Collection[PortRef]


def differences(before: Plan, after: Plan, named: Named | None = None) -> Differences:
    """Those of two plans on the same ground, among those that are named."""
    names = named.streams if named else None
    wanted = _differing(before.intent.streams, after.intent.streams, names)
    streams = wanted.union(
        _differing(before.streams, after.streams, names),
        _differing(before.refused, after.refused, names),
        _differing(before.addresses, after.addresses, names),
        _differing(before.jitter_ns, after.jitter_ns, names),
        _differing(before.recovery_ns, after.recovery_ns, names),
    )
    lists = _differing(before.gates, after.gates, named.lists if named else None)
    return Differences(streams, wanted, lists)


def is_same_ground(before: Plan, after: Plan) -> bool:
    """Whether two plans differ in no more than streams, their loops, and lists, and each stream is
    judged for itself: those without instants are judged together."""
    if any(its.shaper for its in after.intent.classes.values()):
        return False
    return before.parts == after.parts and may_be_mixed(before, after)


def may_be_mixed(before: Plan, after: Plan) -> bool:
    """Whether two plans differ in no more than streams, lists, and what mechanisms judge while some
    nodes go by the one and others by the other."""
    if any(its.cyclic for its in after.intent.classes.values()):
        return False
    is_alike = are_decided_alike(before, after)
    return is_alike and _ground(before.intent) == _ground(after.intent)


def _ground(intent: Intent) -> Intent:
    """Without what is judged by stream."""
    return replace(intent, streams={})


def _differing(
    before: Mapping[K, V], after: Mapping[K, V], named: Collection[K] | None
) -> frozenset[K]:
    """The keys with other values, or a value in one of both alone."""
    if before is after:
        return frozenset()
    if named is not None:
        found = {key for key in named if before.get(key) != after.get(key)}
        more = sum((key in after) - (key in before) for key in found)
        if len(before) + more == len(after):
            return frozenset(found)
    # There are very many, nearly all with the same object for a value.
    others = compress(after, map(is_not, map(before.get, after), after.values()))
    found = {key for key in others if before.get(key) != after[key]}
    come = sum(key not in before for key in found)
    if len(before) + come > len(after):
        found.update(filterfalse(after.__contains__, before))
    return frozenset(found)
