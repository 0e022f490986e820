"""The change of a switch, and the plan, as octets and back.

    {"format": "cnc-change/1", "management": Management,
     "before": {port: StoredPort or null, ...},
     "after": {port: PortConfiguration, TalkerConfiguration or null, ...}}

The keys are the names of the fields; a new one needs a default, or a new format.
Both are deflated: gate control lists are repetitive.
"""

from __future__ import annotations

import zlib
from functools import cache
from typing import Any, Literal

from pydantic import create_model

from cnc import planfile
from cnc.model import Management, Plan, PortSettings, StoredPort
from cnc.rollout.history.record import Outcome, SwitchChange

_FORMAT = "cnc-change/1"


def change_to_octets(change: SwitchChange) -> bytes:
    """The change without its outcome, which is not known yet."""
    document = _document()(
        format=_FORMAT, management=change.management, before=change.before, after=change.after
    )
    return zlib.compress(document.model_dump_json().encode())


def change_from_octets(octets: bytes, outcome: Outcome, detail: str) -> SwitchChange:
    """The change with its outcome. Raises ValueError if `octets` hold no change."""
    document = _document().model_validate_json(_inflated(octets), strict=True)
    return SwitchChange(document.management, document.before, document.after, outcome, detail)


def plan_to_octets(plan: Plan) -> bytes:
    return zlib.compress(planfile.dump(plan).encode())


def plan_from_octets(octets: bytes, source: str) -> Plan:
    """The plan; `source` names it in an `InputError`."""
    return planfile.parse(_inflated(octets).decode(), source)


def _inflated(octets: bytes) -> bytes:
    try:
        return zlib.decompress(octets)
    except zlib.error as error:
        raise ValueError(str(error)) from error


@cache
def _document() -> Any:
    return create_model(
        "Document",
        format=Literal["cnc-change/1"],
        management=Management,
        before=dict[str, StoredPort | None],
        after=dict[str, PortSettings | None],
    )
