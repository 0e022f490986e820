"""Times as YANG's date-and-time (RFC 6991), of the years 1 to 9999."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

# datetime takes more than the standard's date-and-time allows, which always has an offset.
_PATTERN = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_NS_PER_MICROSECOND = 1000


def written(time_ns: int) -> str:
    """A time in ns since 1970, from `EARLIEST_NS` to `LATEST_NS`, exact to the microsecond."""
    moment = _EPOCH + _MICROSECOND * (time_ns // _NS_PER_MICROSECOND)
    return f"{moment.replace(tzinfo=None).isoformat(timespec='microseconds')}Z"


def parsed(text: str) -> int:
    """The time in ns since 1970. Raises ValueError.

    Far from UTC, the first and the last hours of the calendar are in another year than it has:
    they become `EARLIEST_NS` and `LATEST_NS`.
    """
    if not _PATTERN.fullmatch(text):
        raise ValueError(f"{text!r} is no date-and-time")
    return max(EARLIEST_NS, min(_since_epoch_ns(datetime.fromisoformat(text)), LATEST_NS))


def _since_epoch_ns(moment: datetime) -> int:
    return (moment - _EPOCH) // _MICROSECOND * _NS_PER_MICROSECOND


# In ns since 1970: more than an integer of 64 bits holds.
EARLIEST_NS = _since_epoch_ns(datetime.min.replace(tzinfo=UTC))
LATEST_NS = _since_epoch_ns(datetime.max.replace(tzinfo=UTC))
