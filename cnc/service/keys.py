"""From what a CUC puts to the keys of a stream of the intent, and back to what it is told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from cnc.model import Intent, Plan
from cnc.service.refused import CallRefused, Code

# A body with this member alone has the keys themselves: for programs that know the intent.
OWN_WORDS = "intent"


def keys_of(body: Mapping[str, Any], name: str, intent: Intent) -> Mapping[str, Any]:
    """The keys of the stream `name` that a body asks for. Raises CallRefused with the failure-code
    where the network does not offer what it asks for."""
    if body.keys() == {OWN_WORDS}:
        keys = body[OWN_WORDS]
        if not isinstance(keys, Mapping):
            raise CallRefused(Code.INVALID, f"{OWN_WORDS} is no mapping of a stream's keys")
        return keys
    with _refusals() as uni:
        wanted: Mapping[str, Any] = uni.wanted(body, name, intent)
    return wanted


def narrowed(
    bodies: Mapping[str, Mapping[str, Any]], plan: Plan, tried: int
) -> dict[str, Mapping[str, Any]]:
    """Of these streams, by name with what was put, those whose place is not in time as a CUC counts
    it, with the keys to try next. Raises CallRefused where none would be."""
    found: dict[str, Mapping[str, Any]] = {}
    for name, body in bodies.items():
        if body.keys() != {OWN_WORDS}:
            with _refusals() as uni:
                keys = uni.narrowed(plan, name, body, tried)
            if keys is not None:
                found[name] = keys
    return found


def in_words_of(body: Mapping[str, Any], refused: CallRefused) -> CallRefused:
    """What a CUC is refused with whose body was right by the module of the standard: the network
    does not carry the stream, in the words of the intent."""
    if refused.code is not Code.INVALID or body.keys() == {OWN_WORDS}:
        return refused
    return CallRefused(Code.CONFLICT, str(refused), hint=refused.hint, details=refused.details)


def status_of(plan: Plan, name: str, body: Mapping[str, Any]) -> dict[str, Any] | None:
    """What a CUC is told of the place of a stream; None while it has none."""
    if name not in plan.streams:
        return None
    if body.keys() == {OWN_WORDS}:
        its = plan.streams[name]
        return {
            "offsets_ns": [*its.talker_offsets_ns],
            "latency_bound_ns": its.latency_bound_ns,
            "address": str(plan.addresses[name]) if name in plan.addresses else None,
        }
    answer: dict[str, Any] = _uni().answer(plan, name, body)
    return answer


def _uni() -> Any:
    """What 802.1Qdj says of streams, in the words of the intent."""
    return import_module("cnc.service.uni")


@contextmanager
def _refusals() -> Iterator[Any]:
    """The same, whose refusals are raised as CallRefused."""
    uni = _uni()
    try:
        yield uni
    except uni.Refused as refused:
        details = {"failure_code": refused.failure_code}
        raise CallRefused(Code.CONFLICT, str(refused), hint=refused.hint, details=details) from None
