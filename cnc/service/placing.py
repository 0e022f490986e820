"""How a call gives streams a place, or says of each why it has none."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import Any

from cnc.model import Plan
from cnc.service.admission import Keys, Narrow
from cnc.service.deciding import Deciding
from cnc.service.failures import Failure
from cnc.service.keys import in_words_of, keys_of, narrowed
from cnc.service.refused import CallRefused
from cnc.service.store import Decision, StreamRecord


def placed(
    deciding: Deciding,
    subject: str,
    bodies: Mapping[str, Mapping[str, Any]],
    put: Callable[[Decision, Plan], dict[str, Any]],
) -> dict[str, Any]:
    """The plan with the streams that these bodies ask for, by name: all of them or none."""
    intent = deciding.admission.plan.intent
    wanted = {}
    for name, body in bodies.items():
        with _about(name, body):
            wanted[name] = keys_of(body, name, intent)
    (_, first), *_ = bodies.items()
    with _about(None, first):
        return decided(deciding, subject, wanted, (), put, narrow=partial(narrowed, bodies))


@contextmanager
def _about(name: str | None, body: Mapping[str, Any]) -> Iterator[None]:
    """Refusals in the words of who put the body, and by the name of its stream if it is one's."""
    try:
        yield
    except CallRefused as refused:
        if name is not None:
            refused.details.setdefault("reasons", {name: str(refused)})
        raise in_words_of(body, refused) from refused


def decided(
    deciding: Deciding,
    subject: str,
    wanted: Keys,
    gone: Collection[str],
    put: Callable[[Decision, Plan], dict[str, Any]],
    *,
    narrow: Narrow = lambda _plan, _tried: {},
) -> dict[str, Any]:
    """The plan with these streams and without those, on the disk with what `put` writes."""
    with (
        deciding.admission.changing(wanted, gone, deciding.asker.name, narrow) as change,
        deciding.decision(subject, "placed") as made,
    ):
        made.take_plan(change.before, change.plan, change.touched)
        deciding.has_plan = True
        answer = put(made, change.plan)
        deciding.answered(made, answer)
    return answer


def note_failed(deciding: Deciding, asked: list[StreamRecord], refused: CallRefused) -> None:
    """Of streams that were to be computed and have no place: why, for who asks for them. Those that
    have one but for the others wait for these."""
    reasons: Mapping[str, str] = refused.details.get("reasons", {})
    code = int(refused.details.get("failure_code", Failure.FEATURE))
    by_name: Mapping[str, int] = refused.details.get("failure_codes", {})
    of_cucs = by_cuc(asked)
    subject = " ".join(cuc for cuc, _ in of_cucs)
    with deciding.decision(subject, f"refused: {refused}") as made:
        for cuc, streams in of_cucs:
            failed = {each.stream_id: reasons.get(each.name, str(refused)) for each in streams}
            codes = {each.stream_id: by_name.get(each.name, code) for each in streams}
            for each in streams:
                its_id = each.stream_id
                made.put_stream(replace(each, reason=failed[its_id], failure_code=codes[its_id]))
            made.tell("computed", cuc, streams=[], failed=failed, failure_codes=codes)


def by_cuc(asked: Iterable[StreamRecord]) -> list[tuple[str, list[StreamRecord]]]:
    """Streams of one CUC after those of another."""
    return [(cuc, [*its]) for cuc, its in groupby(asked, lambda each: each.cuc)]
