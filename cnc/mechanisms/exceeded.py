"""Figures on which a plan rests that switches and talkers have exceeded while it ran.

An intent that does not state its gate margin, the lateness of its talkers or its clock error
leaves them to measurement, and the latest wake-up of a plan's life may come at any time. The
switches run what they were given all the same: that is not a difference of their configuration.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from cnc.mechanism import Exceeded
from cnc.model import Intent
from cnc.support.lazy import lazy_import

if TYPE_CHECKING:
    from cnc.data_tree.stated import StatedPorts
    from cnc.mechanisms import registry
else:
    registry = lazy_import("cnc.mechanisms.registry")


def exceeded(running: Intent, now: Intent, stated: StatedPorts) -> Iterator[Exceeded]:
    """The figures of the intent that runs which are exceeded by what nodes have `stated`; `now` is
    the same intent as a push would plan it."""
    for each in registry.MEASURED:
        yield from each.exceeded(running, now, stated)
