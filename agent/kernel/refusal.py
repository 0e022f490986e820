"""The refusal of what the kernel was asked for: in words, and what is done then."""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from pyroute2.netlink.exceptions import NetlinkError

from agent.composition import Contribution
from agent.model import AgentError

ENOTSUPP = 524  # linux/errno.h: not meant for user space, but it gets there


class NotInHardware(Exception):
    """The hardware that forwards the frames of a port does not take a filter; why, in words."""


_REFUSALS = (NetlinkError, NotInHardware, OSError, AgentError)


def reason(refusal: NetlinkError | OSError | AgentError) -> str:
    """The kernel's message and the name of its error number."""
    if isinstance(refusal, OSError | AgentError):
        return str(refusal)
    name = "ENOTSUPP" if refusal.code == ENOTSUPP else errno.errorcode.get(refusal.code, "error")
    return f"{refusal.args[1]} ({name})"


def set_or_restore(
    set_to: Callable[[Any], None], before: Sequence[Contribution], after: Sequence[Contribution]
) -> None:
    """Set an object that one mechanism has alone to the content of `after`, None for none.

    If that is refused, the object is set to the content of `before`, as far as the kernel takes it,
    and the refusal is raised: NetlinkError, NotInHardware, OSError or AgentError.
    """
    old, new = (each[0].content if each else None for each in (before, after))
    try:
        set_to(new)
    except _REFUSALS:
        with suppress(*_REFUSALS):
            set_to(old)
        raise
