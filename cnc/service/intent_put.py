"""The call that puts another intent in the place of the one that the service began with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from cnc.errors import CncError, InputError
from cnc.intent import intent_of, source
from cnc.service import owner
from cnc.service.calls import IntentPut
from cnc.service.deciding import Deciding
from cnc.service.refused import CallRefused, Code


def _intent_put(deciding: Deciding, arguments: IntentPut) -> dict[str, Any]:
    """Streams of the file come, go and change as those of CUCs do; none of these is touched."""
    file, admission = arguments.file, deciding.admission
    try:
        intent = intent_of(source.parse(arguments.content().encode(), file))
        if intent.name != admission.plan.intent.name:
            raise InputError(
                f"{file}: the network {intent.name}, and the service owns "
                f"{admission.plan.intent.name}",
                hint="each network has a service of its own",
            )
        after = deciding.store.newest_event()
        change = owner.change_to(intent, deciding.store)
        if change:
            with owner.taking(
                file,
                intent,
                change,
                admission=admission,
                store=deciding.store,
                asker=deciding.asker,
                call=deciding.call,
            ) as made:
                deciding.has_plan = True
            deciding.number = made.number
    except CallRefused:
        raise
    except InputError as error:
        raise CallRefused(Code.INVALID, str(error), hint=error.hint) from error
    except CncError as error:
        raise CallRefused(Code.CONFLICT, str(error), hint=error.hint) from error
    return {"change": str(change), "after": after}


DECISIONS: Mapping[str, Callable[[Deciding, Any], Any]] = {"intent.put": _intent_put}
