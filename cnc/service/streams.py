"""The calls about the domain, CUCs and their streams."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from cnc.model import Plan
from cnc.service.calls import (
    Arguments,
    CucDelete,
    DomainSet,
    OfCuc,
    OfStream,
    Role,
    StreamDelete,
    StreamPut,
    StreamsCompute,
    StreamsDelete,
)
from cnc.service.deciding import Deciding, Reading
from cnc.service.keys import OWN_WORDS, status_of
from cnc.service.names import plan_name
from cnc.service.placing import by_cuc, decided, note_failed, placed
from cnc.service.refused import CallRefused, Code
from cnc.service.store import Decision, State, StreamRecord

Read = Callable[[Reading, Any], Any]
_AUTO, _DOMAIN, _OFF = "auto-compute", "domain", "off"
_BODY_MAX = 65_536
_POLICING = "policing"


def _domain_get(reading: Reading, _: Arguments) -> dict[str, Any]:
    cuc = reading.asker.cuc
    return {
        "name": reading.plan.intent.name,
        "auto_compute": _computes(reading),
        "etag": reading.store.noted(_DOMAIN) or "0",
        "cucs": [each for each in reading.store.cucs() if cuc in {None, each}],
    }


def _cuc_get(reading: Reading, arguments: OfCuc) -> dict[str, Any]:
    found = reading.store.streams(arguments.cuc)
    if not found:
        raise CallRefused(Code.ABSENT, f"the CUC {arguments.cuc} has no streams")
    streams = [shown(each, reading) for each in found]
    return {"cuc": arguments.cuc, "etag": _etag(found), "streams": streams}


def _stream_get(reading: Reading, arguments: OfStream) -> dict[str, Any]:
    return shown(_there(reading, arguments), reading)


def shown(its: StreamRecord, reading: Reading) -> dict[str, Any]:
    """A stream as it is answered (`calls`)."""
    return {
        "cuc": its.cuc,
        "stream_id": its.stream_id,
        "name": its.name,
        "body": its.body,
        "etag": its.etag,
        "state": str(its.state),
        "placed": its.placed,
        "reason": its.reason,
        "failure_code": its.failure_code,
        "rollout": its.rollout,
        "status": status_of(reading.plan, its.name, its.body) if its.placed else None,
    }


# --- decisions -----------------------------------------------------------------------------------


def _domain_set(deciding: Deciding, arguments: DomainSet) -> dict[str, Any]:
    _match(arguments.if_match, deciding.store.noted(_DOMAIN) or "0", "the domain")
    with deciding.decision("auto-compute" if arguments.auto_compute else "no auto-compute") as made:
        made.note(_AUTO, "on" if arguments.auto_compute else _OFF)
        made.note(_DOMAIN, str(made.number))
        its = {"auto_compute": arguments.auto_compute, "etag": str(made.number)}
        return deciding.answered(made, {**_domain_get(deciding.reading, arguments), **its})


def _stream_put(deciding: Deciding, arguments: StreamPut) -> dict[str, Any]:
    cuc, stream_id, body = arguments.cuc, arguments.stream_id, arguments.body
    _refuse_body(deciding, body)
    record = deciding.store.stream(cuc, stream_id)
    before = record if record and record.state is not State.REMOVING else None
    if arguments.if_none_match is not None and before:
        raise CallRefused(Code.STALE, f"the CUC {cuc} has a stream {stream_id} already")
    _match(
        arguments.if_match, before.etag if before else None, f"stream {stream_id} of the CUC {cuc}"
    )
    if before and before.body == body and (before.placed or not _computes(deciding.reading)):
        return {**shown(before, deciding.reading), "created": False}
    name = plan_name(cuc, stream_id)
    _refuse_beyond(deciding, cuc, name, before)
    on_switches = record is not None and record.state is not State.PLANNED
    state = State.MODIFIED if on_switches else State.PLANNED

    def put(made: Decision, plan: Plan, *, placed: bool = True) -> dict[str, Any]:
        rollout = record.rollout if record else None
        its = StreamRecord(cuc, stream_id, name, body, state, placed, made.number, rollout=rollout)
        made.put_stream(its)
        reading = replace(deciding.reading, plan=plan)
        answer = {**shown(its, reading), "created": before is None}
        if placed:
            made.tell("stream-placed", cuc, stream_id=stream_id, reason=None)
        return answer

    subject = f"{cuc} {stream_id}"
    if not _computes(deciding.reading):
        with deciding.decision(subject) as made:
            return deciding.answered(made, put(made, deciding.admission.plan, placed=False))
    return placed(deciding, subject, {name: body}, put)


def _stream_delete(deciding: Deciding, arguments: StreamDelete) -> dict[str, Any]:
    its = _there(deciding.reading, arguments)
    _match(arguments.if_match, its.etag, f"stream {its.stream_id} of the CUC {its.cuc}")
    return _removed(deciding, f"{its.cuc} {its.stream_id}", [its])


def _cuc_delete(deciding: Deciding, arguments: CucDelete) -> dict[str, Any]:
    found = deciding.store.streams(arguments.cuc)
    if not found:
        raise CallRefused(Code.ABSENT, f"the CUC {arguments.cuc} has no streams")
    _match(arguments.if_match, _etag(found), f"the CUC {arguments.cuc}")
    return _removed(deciding, arguments.cuc, found)


def _streams_delete(deciding: Deciding, arguments: StreamsDelete) -> dict[str, Any]:
    found = _all_there(deciding.reading, arguments.cuc, arguments.stream_ids)
    ids = " ".join(each.stream_id for each in found)
    return _removed(deciding, f"{arguments.cuc} {ids}", found)


def _streams_compute(deciding: Deciding, arguments: StreamsCompute) -> dict[str, Any]:
    asked: list[StreamRecord] = []
    for cuc, which in arguments.cucs.items():
        found = (
            _all_there(deciding.reading, cuc, which)
            if isinstance(which, list)
            else deciding.store.streams(cuc)
        )
        asked += [each for each in found if not each.placed]
    if not asked:
        return {"placed": {}}
    ids_asked = {cuc: [each.stream_id for each in its] for cuc, its in by_cuc(asked)}

    def put(made: Decision, _: Plan) -> dict[str, Any]:
        for each in asked:
            made.put_stream(
                replace(each, placed=True, decision=made.number, reason=None, failure_code=0)
            )
        for cuc, ids in ids_asked.items():
            made.tell("computed", cuc, streams=ids, failed={}, failure_codes={})
        return {"placed": ids_asked}

    bodies = {each.name: each.body for each in asked}
    subject = " ".join(f"{cuc} {' '.join(ids)}" for cuc, ids in ids_asked.items())
    try:
        return placed(deciding, subject, bodies, put)
    except CallRefused as refused:
        if refused.code in {Code.CONFLICT, Code.INVALID}:
            note_failed(deciding, asked, refused)
        raise


READS: Mapping[str, Read] = {
    "domain.get": _domain_get,
    "cuc.get": _cuc_get,
    "stream.get": _stream_get,
}
DECISIONS: Mapping[str, Callable[[Deciding, Any], Any]] = {
    "domain.set": _domain_set,
    "cuc.delete": _cuc_delete,
    "stream.put": _stream_put,
    "stream.delete": _stream_delete,
    "streams.delete": _streams_delete,
    "streams.compute": _streams_compute,
}


# --- parts ---------------------------------------------------------------------------------------


def _removed(deciding: Deciding, subject: str, found: list[StreamRecord]) -> dict[str, Any]:
    ids = [each.stream_id for each in found]
    planned = [each.name for each in found if each.name in deciding.admission.plan.intent.streams]

    def put(made: Decision, _: Plan) -> dict[str, Any]:
        for each in found:
            if each.name in planned:
                gone = replace(each, state=State.REMOVING, placed=False, decision=made.number)
                made.put_stream(gone)
            else:
                made.forget_stream(each)
                made.tell("stream-removed", each.cuc, stream_id=each.stream_id, rollout=None)
        return {"removed": ids}

    if planned:
        return decided(deciding, subject, {}, planned, put)
    with deciding.decision(subject) as made:
        return deciding.answered(made, put(made, deciding.admission.plan))


def _refuse_body(deciding: Deciding, body: Mapping[str, Any]) -> None:
    """Raises CallRefused for a body that is longer than any stream's, and for what the network
    decides about a CUC and not the CUC."""
    if len(json.dumps(body)) > _BODY_MAX:
        raise CallRefused(
            Code.TOO_LARGE, f"the stream is longer than {_BODY_MAX} characters of JSON"
        )
    keys = body.get(OWN_WORDS)
    if deciding.asker.role is Role.CUC and isinstance(keys, Mapping) and _POLICING in keys:
        raise CallRefused(
            Code.FORBIDDEN,
            f"{_POLICING}: what holds for its frames is not for a CUC to say",
            hint="an operator puts the stream, or states it of the class in the intent file",
        )


def _refuse_beyond(deciding: Deciding, cuc: str, name: str, before: StreamRecord | None) -> None:
    """Raises CallRefused for a stream too many, and for a name that the intent file has."""
    if before:
        return
    most = deciding.access.quota(cuc).streams
    if deciding.store.count(cuc) >= most:
        raise CallRefused(
            Code.TOO_MANY,
            f"the CUC {cuc} has {most} streams, which is its quota",
            hint="remove one, or an admin sets the quota: `quota.set`",
        )
    if name in deciding.admission.plan.intent.streams:
        raise CallRefused(
            Code.CONFLICT,
            f"the intent file has a stream {name} already",
            hint="give the stream there another name",
        )


def _there(reading: Reading, arguments: OfStream) -> StreamRecord:
    its = reading.store.stream(arguments.cuc, arguments.stream_id)
    if its is None or its.state is State.REMOVING:
        raise CallRefused(
            Code.ABSENT, f"the CUC {arguments.cuc} has no stream {arguments.stream_id}"
        )
    return its


def _all_there(reading: Reading, cuc: str, ids: Iterable[str]) -> list[StreamRecord]:
    """The streams with these ids, each once. Raises CallRefused (ABSENT)."""
    return [_there(reading, OfStream(cuc=cuc, stream_id=each)) for each in dict.fromkeys(ids)]


def _computes(reading: Reading) -> bool:
    return reading.store.noted(_AUTO) != _OFF


def _etag(streams: list[StreamRecord]) -> str:
    """Of all streams of a CUC: another one with each that comes, goes or changes."""
    return f"{max(each.decision for each in streams)}-{len(streams)}"


def _match(if_match: str | None, etag: str | None, what: str) -> None:
    if if_match is None or (if_match == "*" and etag is not None) or if_match == etag:
        return
    raise CallRefused(
        Code.STALE,
        f"{what} has changed since" if etag else f"{what} is not there",
        hint="get it again, and decide by what it is now",
    )
