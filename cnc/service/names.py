"""What a stream of a CUC is called in the plan, where names of streams are those of an intent.

The cuc-id and the stream-id, with two underscores between: `plc__00-1B-21-00-00-01_00-2A` is the
stream 00-1B-21-00-00-01:00-2A of the CUC `plc`. No two streams have one name: a cuc-id has no two
underscores in a row, and ends with none (`calls.CUC_PATTERN`).
"""

from __future__ import annotations

import re

_BETWEEN = "__"
_OF_CUC = re.compile(
    rf".+{_BETWEEN}[0-9A-Fa-f]{{2}}(-[0-9A-Fa-f]{{2}}){{5}}_[0-9A-Fa-f]{{2}}-[0-9A-Fa-f]{{2}}"
)


def plan_name(cuc: str, stream_id: str) -> str:
    """The name in the plan of a stream by its ids, which are in their form already."""
    return f"{cuc}{_BETWEEN}{stream_id.replace(':', '_')}"


def is_of_cuc(name: str) -> bool:
    """Whether a stream of a plan is called as those of CUCs are."""
    return _OF_CUC.fullmatch(name) is not None
