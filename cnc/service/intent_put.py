"""The calls that put another intent in the place of the one that the service began with: of a file,
or a former one.

To read thousands of streams takes seconds, and to place them minutes: so both are done in a thread
beside the writer, the latter in a copy of the plan, and others are answered meanwhile. The writer
takes the copy if nothing was decided since; else another one is made.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from cnc import app
from cnc.errors import CncError, InputError
from cnc.intent import intent_of, source
from cnc.model import Intent
from cnc.rollout import History
from cnc.service import owner
from cnc.service.admission import Admission
from cnc.service.calls import Arguments, IntentPut, Rollback
from cnc.service.deciding import Deciding
from cnc.service.names import is_of_cuc
from cnc.service.refused import CallRefused, Code
from cnc.service.store import Store

# So few streams are placed by the writer itself: a copy of the plan takes longer to make.
_FEW = 20
# Where each copy was overtaken, the writer places the streams, and others wait for it.
COPIES_MAX = 3


@dataclass(frozen=True, slots=True)
class Prepared:
    """An intent, where it is from, how it differs from the one that was taken last, and what was
    tried of it. What `refused` it is for the writer to say, as the audit log has it."""

    file: str
    intent: Intent
    change: owner.FileChange
    tried: owner.Tried | None
    refused: CallRefused | None = None

    def is_overtaken(self, admission: Admission) -> bool:
        """Whether something else was decided since."""
        return self.tried is not None and self.tried.before is not admission.plan


def former(arguments: Rollback, store: Store, history: History) -> IntentPut:
    """The intent of a rollout, without the streams that CUCs had then, or the one before the last
    that was taken. From any thread. Raises CallRefused."""
    number = arguments.number
    if number is None:
        if (text := owner.former_intent(store)) is None:
            raise CallRefused(
                Code.ABSENT,
                "the service has taken no other intent before this one",
                hint="name a rollout of `cnc history`: cnc rollback NUMBER",
            )
        return IntentPut(file="the previous intent", text=text)
    try:
        document = app.plan_of_rollout(history, number).intent.document
    except InputError as error:
        raise CallRefused(Code.INVALID, str(error), hint=error.hint) from error
    of_file = {name: its for name, its in document["streams"].items() if not is_of_cuc(name)}
    text = json.dumps({**document, "streams": of_file})
    return IntentPut(file=f"rollout {number}", text=text)


def read(arguments: IntentPut, name: str) -> Intent:
    """The intent, of the network with this name. From any thread. Raises CallRefused."""
    file = arguments.file
    try:
        intent = intent_of(source.parse(arguments.content().encode(), file))
        if intent.name != name:
            raise InputError(
                f"{file}: the network {intent.name}, and the service owns {name}",
                hint="each network has a service of its own",
            )
    except CncError as error:
        raise _refused(error) from error
    return intent


def prepared(file: str, intent: Intent, store: Store, admission: Admission) -> Prepared:
    """With what is best tried in a copy of the plan. From any thread. Raises CallRefused."""
    before, change = admission.plan, owner.change_to(intent, store)
    if not change.sections and len(change.wanted) + len(change.gone) <= _FEW:
        return Prepared(file, intent, change, None)
    try:
        tried = owner.tried(file, intent, change, before=before, admission=admission)
    except CncError as error:
        return Prepared(file, intent, change, None, _refused(error))
    return Prepared(file, intent, change, tried)


def put(its: Prepared, deciding: Deciding, _: Arguments) -> dict[str, Any] | None:
    """Streams of the file come, go and change as those of CUCs do; none of these is touched. None:
    something else was decided since it was prepared. In the thread of the writer. Raises
    CallRefused."""
    if its.is_overtaken(deciding.admission):
        return None
    if its.refused:
        raise its.refused
    after = deciding.store.newest_event()
    # Another operator's may have been taken since, which leaves what was tried overtaken.
    change = its.change if its.tried else owner.change_to(its.intent, deciding.store)
    answer = {"change": str(change), "after": after}
    if change:
        try:
            with owner.taking(
                its.file,
                its.intent,
                change,
                admission=deciding.admission,
                store=deciding.store,
                asker=deciding.asker,
                call=deciding.call,
                has_tried=its.tried,
            ) as made:
                deciding.has_plan = True
                deciding.answered(made, answer)
            deciding.number = made.number
        except CncError as error:
            raise _refused(error) from error
    return answer


def _refused(error: CncError) -> CallRefused:
    if isinstance(error, CallRefused):
        return error
    code = Code.INVALID if isinstance(error, InputError) else Code.CONFLICT
    return CallRefused(code, str(error), hint=error.hint)
