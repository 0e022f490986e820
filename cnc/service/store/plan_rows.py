"""A plan as rows, so that a decision writes what it changed, and no more.

The keys of an intent's streams are rows of the section `intent`; all other sections are those of
`cnc.plans.file`. What has no rows is the plan's `rest`: a plan file without them.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from typing import Any

from cnc.errors import CncError
from cnc.model import Plan
from cnc.plans import file as planfile

STREAMS = "intent"

Key = tuple[str, str]  # section, name
_NOTHING = object()
_OF_ALL = {"decisions", "loops"}  # their names are none of a stream or a port


def rest(plan: Plan) -> str:
    """What of a plan is no row, as text."""
    found = planfile.others(plan)
    found["intent"] = {**found["intent"], "streams": {}}
    return json.dumps(found, ensure_ascii=False)


def changed(
    before: Plan | None, after: Plan, touched: Collection[Hashable] | None = None
) -> Iterator[tuple[Key, str | None]]:
    """The rows that are others in `after`, or not there any more (None). `touched` are the streams
    and ports that may differ; None: all may, as may what follows from all of them. What plans share
    as one table is not looked at."""
    old, new = _tables(before) if before else {}, _tables(after)
    for section in old.keys() | new.keys():
        had, has = old.get(section, {}), new.get(section, {})
        if had is has:
            continue
        for name in {**has, **had} if touched is None or section in _OF_ALL else touched:
            its = has.get(name, _NOTHING)
            if its is _NOTHING:
                if name in had:
                    yield (section, str(name)), None
            elif had.get(name, _NOTHING) is not its:
                plain = its if section == STREAMS else planfile.row(section, its)
                yield (section, str(name)), json.dumps(plain, ensure_ascii=False)


def plan_of(rest: str, rows: Iterable[tuple[str, str, str]], source: str) -> Plan:
    """The plan of what was stored: `rows` are section, name and value. Raises CncError where they
    make none."""
    document: dict[str, Any] = json.loads(rest)
    texts: dict[str, list[str]] = {}
    for section, name, value in rows:
        texts.setdefault(section, []).append(f"{json.dumps(name)}:{value}")
    # One text, since to parse ten thousand short ones takes longer.
    found = {section: json.loads(f"{{{','.join(its)}}}") for section, its in texts.items()}
    document["intent"]["streams"] = found.pop(STREAMS, {})
    empty: dict[str, Any] = {"streams": {}, "refused": {}, "gates": {}}
    try:
        return planfile.of_document({**document, **empty, **found}, source)
    except CncError as error:
        raise CncError(
            f"the plan in {source} cannot be read: {error}",
            hint="restore a backup of the store; or move it away: the service then starts with "
            "the streams of the intent file alone",
        ) from error


def _tables(plan: Plan) -> dict[str, Mapping[Any, Any]]:
    return {**planfile.tables(plan), STREAMS: plan.intent.document["streams"]}
