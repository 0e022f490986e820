"""Every call of the channel: its name, who may make it, its arguments and its result.

An argument with `?` may be left out or null. A call with one that is not here is refused (INVALID).

    who                                     name, role, cuc (null but for the role cuc), expires
    domain.get                              name, auto_compute, etag, cucs: [cuc-id]
    domain.set   auto_compute: bool, if_match?, idempotency_key?        as domain.get
    cuc.get      cuc                                    cuc, etag, streams: [STREAM]
    cuc.delete   cuc, if_match?, idempotency_key?       removed: [stream-id]
    stream.get   cuc, stream_id                         STREAM
    stream.put   cuc, stream_id, body: {}, if_match?, if_none_match?, idempotency_key?, patch?: {}
                                                        STREAM and created: bool
    stream.delete  cuc, stream_id, if_match?, idempotency_key?      removed: [stream-id]
    streams.delete  cuc, stream_ids: [stream-id], idempotency_key?      removed: [stream-id]
    streams.compute  cucs: {cuc: [stream-id] or "planned-and-modified" or "all"}, idempotency_key?
                                                        placed: {cuc: [stream-id]}
    document.get  name, stream?, number?, after?        the document
    events.follow  after?                               follows: EVENT
    command.run  words: [text], file?, text?, packed?, columns?       follows: {"out": text} or
                                            {"err": text} as a command prints it, at last {"exit":
                                            code}
    intent.put   file, text or packed: an intent for the same network, idempotency_key?
                                                        change: text, after
    push                                                accepted: true, after: the outcome is the
                                            first event of a rollout with a higher number
    rollback     number?, idempotency_key?              as intent.put
    token.add    name, role, cuc?, days?, ssh_key?      token (told this once), name, role, cuc,
                                                        expires
    token.list                              tokens: [name, role, cuc, created, expires, revoked,
                                            ssh_key: its fingerprint]
    token.rotate  name, days?               as token.add; the former is good for minutes more
    token.key    name, ssh_key (null: none any more)    as one of token.list
    token.revoke  name                      name
    forward      method, path, headers: {name: text}, body      status, headers, body: a request of
                                            HTTP that the controller which leads has answered
    quota.set    cuc, streams?, requests_per_minute?    cuc, streams, requests_per_minute

STREAM: `cuc`, `stream_id`, `name` (in the plan), `body` (as it was put), `etag`, `state`
(`planned`: no switch has it yet, `configured`, `modified`: the switches have what it was before),
`placed` (whether it has a place in the plan), `reason` (why not, or why it is not configured yet,
or null), `failure_code` (802.1Q table 46-15, 0: none), `rollout` (the number of the one that
configured it, or null), `status` (what `cnc.service.uni.answer` makes of the plan and the body;
null while it has no place).

EVENT: `number` (from 1, by which `after` counts), `time` (ISO 8601, UTC), `kind`, and more by kind:

| kind | more |
|---|---|
| stream-placed | cuc, stream_id, reason: null |
| stream-refused | cuc, stream_id, reason, failure_code |
| stream-configured, stream-removed | cuc, stream_id, rollout |
| rollout-done | rollout, streams: count, running_since: by what was read back, or null |
| rollout-failed | reason, hint, next_try_s |
| plan-unsound | reason, hint: what the judge finds in the whole plan, beside everything else |
| computed | cuc, streams: [stream-id], failed: {stream-id: reason}, failure_codes: {id: code} |

A NETCONF server has a socket of its own (`Core.answer_named`), and beside these

    ssh-key.get  name               key: what logs in as the token `name`, and its fingerprint; or
                                    null, null

`streams.delete` and `streams.compute` do all that they are asked, or nothing. `etag` is text
without quotes. `if_none_match: "*"` refuses (STALE) what is there already.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cnc.service.packed import unpacked
from cnc.service.refused import CallRefused, Code

# What a CUC may be called, so that the names of its streams are names of an intent (`names`).
CUC_PATTERN = r"^[A-Za-z](_?[A-Za-z0-9-]){0,18}$"
# 802.1Qcc 46.2.3.1, as the typedef stream-id-type of ieee802-dot1q-tsn-types has it.
STREAM_ID_PATTERN = r"^[0-9a-fA-F]{2}(-[0-9a-fA-F]{2}){5}:[0-9a-fA-F]{2}-[0-9a-fA-F]{2}$"
_HEADER_PATTERN = r"^[ -~]{0,1024}$"
_WORD_MAX, _WORDS_MAX, _PATH_MAX = 256, 32, 4096
_SSH_KEY_MAX = 4096  # RSA of 16384 bits has less
_TAG_MAX, _KEY_MAX, _STREAMS_MAX, _DAYS_MAX, _QUOTA_MAX = 64, 128, 10_000, 3650, 1_000_000


class Role(StrEnum):
    """What a token is for."""

    VIEWER = "viewer"  # reads everything but tokens and the audit log
    CUC = "cuc"  # its own streams, and nothing else
    OPERATOR = "operator"  # streams of all, rollouts
    ADMIN = "admin"  # everything


ALL = frozenset(Role)
READERS = frozenset({Role.VIEWER, Role.OPERATOR, Role.ADMIN})
STREAMS = frozenset({Role.CUC, Role.OPERATOR, Role.ADMIN})
OPERATORS = frozenset({Role.OPERATOR, Role.ADMIN})
ADMINS = frozenset({Role.ADMIN})

_Cuc = Annotated[str, Field(pattern=CUC_PATTERN)]
_StreamId = Annotated[str, Field(pattern=STREAM_ID_PATTERN)]
_StreamIds = Annotated[list[_StreamId], Field(min_length=1, max_length=_STREAMS_MAX)]
_Tag = Annotated[str, Field(max_length=_TAG_MAX)]
_Key = Annotated[str, Field(min_length=1, max_length=_KEY_MAX)]
_Word = Annotated[str, Field(max_length=_WORD_MAX)]
_Days = Annotated[int, Field(ge=1, le=_DAYS_MAX)]
_Quota = Annotated[int, Field(ge=0, le=_QUOTA_MAX)]
_SshKey = Annotated[str, Field(max_length=_SSH_KEY_MAX)]
_TokenName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")]
VIA = "1.1 tsn-cnc"  # of a request that was forwarded (RFC 9110 7.6.3)
# Of a request that a standby forwards: no other header changes what it asks for.
ForwardedHeader = Literal["accept", "content-type", "idempotency-key", "if-match", "if-none-match"]
# What commands print with --json, and what the live page asks for beside that.
PrintedName = Literal[
    "topology",
    "plan",
    "streams",
    "rollouts",
    "diff",
    "status",
    "clocks",
    "events",
    "audit",
    "metrics",
]
DocumentName = Literal[PrintedName, "page", "live", "counters"]


class Arguments(BaseModel):
    """Of a call without arguments."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    def asked(self) -> dict[str, Any]:
        """What a repeated request has in common with the first, whatever has happened between."""
        return self.model_dump()

    @property
    def of_cucs(self) -> Collection[str]:
        """The CUCs whose streams a call is about."""
        return ()


class DomainSet(Arguments):
    auto_compute: bool
    if_match: _Tag | None = None
    idempotency_key: _Key | None = None


class OfCuc(Arguments):
    cuc: _Cuc

    @property
    def of_cucs(self) -> Collection[str]:
        return (self.cuc,)


class CucDelete(OfCuc):
    if_match: _Tag | None = None
    idempotency_key: _Key | None = None


class OfStream(OfCuc):
    stream_id: _StreamId


class StreamPut(OfStream):
    """`patch` is what was sent, where the body was made of it and of the stream that was there."""

    body: dict[str, Any]
    if_match: _Tag | None = None
    if_none_match: _Tag | None = None
    idempotency_key: _Key | None = None
    patch: dict[str, Any] | None = None

    def asked(self) -> dict[str, Any]:
        is_patch = self.patch is not None
        return self.model_dump(exclude={"body", "if_match"} if is_patch else {"patch"})


class StreamDelete(OfStream):
    if_match: _Tag | None = None
    idempotency_key: _Key | None = None


class StreamsDelete(OfCuc):
    stream_ids: _StreamIds
    idempotency_key: _Key | None = None


class StreamsCompute(Arguments):
    cucs: dict[_Cuc, _StreamIds | Literal["planned-and-modified", "all"]]
    idempotency_key: _Key | None = None

    @property
    def of_cucs(self) -> Collection[str]:
        return self.cucs


class DocumentGet(Arguments):
    name: DocumentName
    stream: Annotated[str, Field(max_length=_TAG_MAX)] | None = None
    number: Annotated[int, Field(ge=1)] | None = None
    after: Annotated[int, Field(ge=0)] | None = None


class EventsFollow(Arguments):
    after: Annotated[int, Field(ge=0)] | None = None


class WithDocument(Arguments):
    """With a document of the asker's, as `text`, or `packed` (`cnc.service.packed`)."""

    text: str | None = None
    packed: str | None = None

    def content(self) -> str:
        """The text. Raises CallRefused (INVALID, TOO_LARGE)."""
        return unpacked(self.packed) if self.packed is not None else self.text or ""


class CommandRun(WithDocument):
    """A command line of `cnc`; `file` is the name in it of the document, `columns` the width of
    the asker's terminal."""

    words: Annotated[list[_Word], Field(min_length=1, max_length=_WORDS_MAX)]
    file: _Word | None = None
    columns: Annotated[int, Field(ge=20, le=1000)] | None = None


class IntentPut(WithDocument):
    """An intent as YAML; `file` is its name, for the messages."""

    file: _Word
    idempotency_key: _Key | None = None


class Rollback(Arguments):
    """To the intent of a rollout, without a number to the one before the last that was taken; the
    streams of CUCs stay."""

    number: Annotated[int, Field(ge=1)] | None = None
    idempotency_key: _Key | None = None


class TokenAdd(Arguments):
    name: _TokenName
    role: Literal["viewer", "cuc", "operator", "admin"]
    cuc: _Cuc | None = None
    days: _Days | None = None
    ssh_key: _SshKey | None = None


class OfToken(Arguments):
    name: _TokenName


class TokenRotate(OfToken):
    days: _Days | None = None


class TokenKey(OfToken):
    ssh_key: _SshKey | None


class QuotaSet(OfCuc):
    streams: _Quota | None = None
    requests_per_minute: _Quota | None = None


class Forward(Arguments):
    """A request for the controller that leads, as it came; `path` with its query."""

    method: Literal["PUT", "POST", "PATCH", "DELETE"]
    path: Annotated[str, Field(pattern=r"^/[!-~]*$", max_length=_PATH_MAX)]
    headers: dict[ForwardedHeader, Annotated[str, Field(pattern=_HEADER_PATTERN)]]
    body: str


@dataclass(frozen=True, slots=True)
class Call:
    """Who may make a call, what its arguments are, whether it changes something, which the audit
    log then has, and whether a worker makes it first, to know the token, so that another call of
    the same request follows."""

    roles: frozenset[Role]
    arguments: type[Arguments]
    changes: bool = False
    comes_first: bool = False


CALLS: Mapping[str, Call] = {
    "who": Call(ALL, Arguments, comes_first=True),
    "domain.get": Call(ALL, Arguments, comes_first=True),
    "domain.set": Call(OPERATORS, DomainSet, changes=True),
    "cuc.get": Call(ALL, OfCuc),
    "cuc.delete": Call(STREAMS, CucDelete, changes=True),
    "stream.get": Call(ALL, OfStream),
    "stream.put": Call(STREAMS, StreamPut, changes=True),
    "stream.delete": Call(STREAMS, StreamDelete, changes=True),
    "streams.delete": Call(STREAMS, StreamsDelete, changes=True),
    "streams.compute": Call(STREAMS, StreamsCompute, changes=True),
    "document.get": Call(READERS, DocumentGet),
    "events.follow": Call(ALL, EventsFollow),
    "command.run": Call(READERS, CommandRun),
    "intent.put": Call(OPERATORS, IntentPut, changes=True),
    "push": Call(OPERATORS, Arguments, changes=True),
    "rollback": Call(OPERATORS, Rollback, changes=True),
    "forward": Call(ALL, Forward),
    "token.add": Call(ADMINS, TokenAdd, changes=True),
    "token.list": Call(ADMINS, Arguments),
    "token.rotate": Call(ADMINS, TokenRotate, changes=True),
    "token.key": Call(ADMINS, TokenKey, changes=True),
    "token.revoke": Call(ADMINS, OfToken, changes=True),
    "quota.set": Call(ADMINS, QuotaSet, changes=True),
}


def arguments_of(call: str, found: Mapping[str, Any]) -> Arguments:
    """The arguments of a call as its shape. Raises CallRefused: INVALID, ABSENT for no call."""
    if call not in CALLS:
        raise CallRefused(Code.ABSENT, f"there is no call {call[:_TAG_MAX]!r}")
    try:
        return CALLS[call].arguments.model_validate(found)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "(arguments)"
        raise CallRefused(Code.INVALID, f"{call}: {where}: {first['msg']}") from None
