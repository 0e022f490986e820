"""What a call reads, and how one decides: checked, once, audited."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from cnc.model import Plan
from cnc.service.access import Access
from cnc.service.admission import Admission
from cnc.service.calls import Arguments, StreamPut
from cnc.service.failures import Failure
from cnc.service.refused import CallRefused, Code
from cnc.service.store import Asker, Decision, KeyedRequest, Store

# Refusals that say something of the network: the audit log has them. Others say something of the
# request alone, and come at the rate of whoever sends them.
_AUDITED = {Code.CONFLICT}
# No end of a request: it may be asked again, with the same key.
_NOT_YET = {Code.UNAVAILABLE, Code.TOO_MANY}
_REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Reading:
    """What a call that reads looks at: the plan that is decided, and the store."""

    store: Store
    plan: Plan
    asker: Asker


@dataclass(slots=True)
class Deciding:
    """One call that changes something, in the thread of the writer. `number` is that of its
    decision, once it is on the disk; `has_plan`: the plan is another one."""

    store: Store
    admission: Admission
    access: Access
    asker: Asker
    call: str
    number: int | None = None
    has_plan: bool = False
    _keyed: KeyedRequest | None = field(default=None)

    @property
    def reading(self) -> Reading:
        return Reading(self.store, self.admission.plan, self.asker)

    def once(self, arguments: Arguments, work: Callable[[], Any]) -> Any:
        """The answer of `work`, or what was answered to the same request with the same key: also
        that it was refused, or that there was nothing to do, since a copy of it that comes later
        than the answer is not to do what that denies. An answer of None is none yet. Raises
        CallRefused, as `work`, and CONFLICT for a key that another request had."""
        if key := getattr(arguments, "idempotency_key", None):
            text = json.dumps([self.call, arguments.asked()], sort_keys=True)
            digest = hashlib.sha256(text.encode()).hexdigest()
            if found := self.store.answered(self.asker.name, key):
                return _again(found, digest)
            self._keyed = KeyedRequest(self.asker.name, key, digest)
        try:
            answer = work()
        except CallRefused as refused:
            try:
                self._note_refused(refused, arguments)
            except CallRefused:  # of the store
                if self._keyed:
                    raise  # the asker is to ask again
            raise
        if self._keyed and self.number is None and answer is not None:
            self.store.remember(self._keyed, answer)
        return answer

    @contextmanager
    def decision(self, subject: str, outcome: str = "done") -> Iterator[Decision]:
        """One decision: on the disk when the block ends."""
        with self.store.deciding(self.asker, self.call, subject, outcome) as decision:
            yield decision
        self.number = decision.number

    def answered(self, decision: Decision, answer: dict[str, Any]) -> dict[str, Any]:
        """The answer, which a repeated request gets as well."""
        if self._keyed:
            decision.remember(self._keyed, answer)
        return answer

    def _note_refused(self, refused: CallRefused, arguments: Arguments) -> None:
        """In the audit log, and for who repeats it."""
        answer = {_REFUSED: refused.to_object()}
        if refused.code not in _AUDITED:
            if self._keyed and refused.code not in _NOT_YET:
                self.store.remember(self._keyed, answer)
            return
        outcome = f"refused: {refused}"
        with self.store.deciding(self.asker, self.call, _subject(arguments), outcome) as made:
            self.answered(made, answer)
            if isinstance(arguments, StreamPut):
                made.tell(
                    "stream-refused",
                    arguments.cuc,
                    stream_id=arguments.stream_id,
                    reason=str(refused),
                    failure_code=refused.details.get("failure_code", int(Failure.FEATURE)),
                )


def _again(found: tuple[str, Any], digest: str) -> Any:
    """The answer that was found for a key, if its request was the same. Raises CallRefused."""
    of_digest, answer = found
    if of_digest != digest:
        raise CallRefused(
            Code.CONFLICT,
            "another request had this Idempotency-Key within the last day",
            hint="take another key for another request",
        )
    if _REFUSED in answer:
        raise CallRefused.from_object(answer[_REFUSED])
    return answer


def _subject(arguments: Arguments) -> str:
    """What a call is about, in the audit log."""
    named = (getattr(arguments, key, None) for key in ("stream_id", "name"))
    return " ".join([*arguments.of_cucs, *(str(each) for each in named if each is not None)])
