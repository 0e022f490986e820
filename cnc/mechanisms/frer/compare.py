"""Compares what a switch is to do with the copies of frames with what it does."""

from __future__ import annotations

from collections.abc import Iterator

from cnc.mechanism import Names, Whose, described
from cnc.mechanisms.frer.model import Generation, SequenceFunction, SequenceFunctions
from cnc.support.wording import named


def differences(
    desired: SequenceFunctions, actual: SequenceFunctions, whose: Whose, names: Names
) -> Iterator[str]:
    """What differs, in words. Of the configuration they say what a rollout would change, of the
    kernel what it does."""
    for address in sorted(desired.by_stream.keys() | actual.by_stream.keys(), key=str):
        before, after = actual.by_stream.get(address), desired.by_stream.get(address)
        if before == after:
            continue
        frames = f"frames of {described(address, names)}"
        words = _configured if whose == "configuration" else _running
        yield f"{frames} are {words(before, after)}"


def _configured(before: SequenceFunction | None, after: SequenceFunction | None) -> str:
    if after:
        return f"{done(after)}{' otherwise than before' if before else ''}"
    return f"no longer {done(before)}" if before else "as before"


def _running(before: SequenceFunction | None, after: SequenceFunction | None) -> str:
    if before and after:
        return f"{done(before)}; planned: {done(after)}"
    if before:
        return f"{done(before)}, which is not planned"
    return f"not {done(after)}: the kernel has no such function" if after else "as planned"


def done(function: SequenceFunction) -> str:
    """What is done with frames, as a participle."""
    if isinstance(function, Generation):
        return f"numbered at {function.port}"
    facts = [f"history {function.history_length}", f"reset after {function.reset_timeout_ms} ms"]
    if watched := function.latent_errors:
        facts.append(
            f"{watched.paths} ways compared each {watched.period_ms} ms, at most "
            f"{watched.difference} copies apart in {watched.reset_period_ms} ms"
        )
    return f"passed once from {named(function.ports)} ({', '.join(facts)})"
