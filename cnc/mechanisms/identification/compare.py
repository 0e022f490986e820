"""Compares what a switch is to make of frames that talkers send untagged with what it does."""

from __future__ import annotations

from collections.abc import Iterator

from cnc.mechanism import Names, Whose, described
from cnc.mechanisms.identification.model import Inward, Outward, Translation, Translations

_NONE = Translation()


def differences(
    desired: Translations, actual: Translations, whose: Whose, names: Names
) -> Iterator[str]:
    """What differs, in words. Of the configuration they say what a rollout would change, of the
    kernel what it does."""
    for address in sorted(desired.by_stream.keys() | actual.by_stream.keys(), key=str):
        before = actual.by_stream.get(address, _NONE)
        after = desired.by_stream.get(address, _NONE)
        frames = f"frames of {described(address, names)}"
        if before.inward != after.inward:
            yield f"{frames} {_inward(before.inward, after.inward, whose)}"
        if before.outward != after.outward:
            yield f"{frames} {_outward(before.outward, after.outward, whose)}"


def _inward(before: Inward | None, after: Inward | None, whose: Whose) -> str:
    if after is None:
        return _gone("translated", before, whose)
    if whose == "configuration":
        again = " otherwise than before" if before else ""
        return f"are translated at {after.port}{again}: {_known(after)}"
    if before is None:
        return f"are not translated at {after.port}: the kernel does not know them"
    return f"are translated, not as planned, at {before.port}: {_known(before)}"


def _outward(before: Outward | None, after: Outward | None, whose: Whose) -> str:
    if after is None:
        return _gone("translated back", before, whose)
    if whose == "configuration":
        return f"are translated back at {after.port}, for {after.listener_mac}"
    if before is None:
        return f"are not translated back at {after.port}: they leave with their tag"
    return f"are translated back, not as planned, at {before.port}, for {before.listener_mac}"


def _gone(what: str, before: Inward | Outward | None, whose: Whose) -> str:
    at = f"at {before.port}" if before else "there"
    is_kernel = whose == "kernel"
    return f"are {what} {at}, which is not planned" if is_kernel else f"are no longer {what} {at}"


def _known(inward: Inward) -> str:
    return f"{inward.identification}, as PCP {inward.pcp}"
