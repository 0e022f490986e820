"""The rollout that the configuration comes from, and whether it may still be applied.

A controller that gives up a change cannot take back what is on its way: a commit may be delivered
when all other switches have reverted, or after the base time. So a rollout names the instant until
which it may be applied (`apply-before`), and a later one is refused. And it may say who acts for
the network, of several controllers (`agent.datastore.terms`).

What this switch has applied before is neither late nor of somebody else: a revert, a copy from
startup and the configuration of a restart bring back the id of a rollout that it knows. An id
without such an instant is never late.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from agent import whole_file
from agent.datastore.rollout import Rollout
from agent.datastore.terms import TERMS_FILE, Terms
from agent.model import NS_PER_S

LOG = logging.getLogger(__name__)

KNOWN_MAX = 16
# As `apply-before` in tsn-linux.yang says: no controller lets a commit wait longer than until then
# for its confirmation.
UNCONFIRMED_MAX_NS = 60 * NS_PER_S
# Sixteen entries take 2 kB.
FILE_OCTETS_MAX = 16 * 2**10


class Remembered(NamedTuple):
    """What an agent remembers of rollouts, the id of each.

    `in_force` is None where the configuration is no rollout's. `is_new`: it had not been applied
    before it took the place of `former`. `known` has the instants until which those might be
    applied that were applied last, the newest last; 0 of those that named none.
    """

    in_force: str | None
    former: str | None
    is_new: bool
    known: Mapping[str, int]

    def after(self, rollout: Rollout, now_ns: int) -> Remembered:
        """What to remember once `rollout` is in force."""
        if rollout.id == self.in_force:
            return self
        # Agents before terms did not list what named no instant.
        listed = {self.in_force: 0} if self.in_force and self.in_force not in self.known else {}
        known = {
            name: before_ns
            for name, before_ns in {**self.known, **listed}.items()
            if name != self.in_force
            or not (self.is_new and rollout.id == self.former)
            or now_ns > before_ns + UNCONFIRMED_MAX_NS
        }
        is_new = rollout.id not in known
        if rollout.id is not None:
            known[rollout.id] = known.pop(rollout.id, rollout.apply_before_ns or 0)
        return Remembered(rollout.id, self.in_force, is_new, dict([*known.items()][-KNOWN_MAX:]))


NOTHING = Remembered(None, None, is_new=False, known={})


class AppliedRollouts:
    """The rollout in force, and those that were applied last, in a file that outlives a reboot."""

    def __init__(self, path: Path | None = None) -> None:
        """Without a `path` nothing outlives the process; the term is kept beside it."""
        self.terms = Terms(path and path.with_name(TERMS_FILE))
        self._path = path
        self._remembered = NOTHING
        # What a revert brings back may have been in a file that cannot be read, or is gone.
        self._is_lost = False
        if path:
            self._read(path)

    def found(self, rollout: Rollout) -> None:
        """An agent that starts has found this rollout in force."""
        if self._remembered == NOTHING and rollout.id is not None:
            self._is_lost = True
        self.terms.found(rollout)

    @property
    def in_force(self) -> str | None:
        """The id of the rollout in force; None where the configuration is of none."""
        return self._remembered.in_force

    def is_known(self, rollout: Rollout) -> bool:
        """Whether the rollout was applied before, as far as is known; or it is none."""
        return (
            rollout.id is None
            or self._is_lost
            or rollout.id == self._remembered.in_force
            or rollout.id in self._remembered.known
        )

    def is_late(self, rollout: Rollout, now_ns: int) -> bool:
        """Whether the rollout was not applied before, and is not to be applied any more."""
        return (
            rollout.apply_before_ns is not None
            and rollout.apply_before_ns < now_ns
            and not self.is_known(rollout)
        )

    def refused_term(self, rollout: Rollout) -> str | None:
        """Why the rollout is not of who acts for the network; None: it is, or was applied
        before."""
        return None if self.is_known(rollout) else self.terms.refusal(rollout)

    def applied(self, rollout: Rollout, now_ns: int) -> None:
        """The rollout is in force now, after a change or since before the agent has started.

        An id whose predecessor comes back before it can have been confirmed everywhere was taken
        back, and is not known any more.
        """
        before, self._remembered = self._remembered, self._remembered.after(rollout, now_ns)
        if self._remembered == before:
            return
        self._is_lost = self._is_lost and before.in_force is None
        self._write()

    def _read(self, path: Path) -> None:
        try:
            with path.open("rb") as file:
                octets = file.read(FILE_OCTETS_MAX + 1)
            self._remembered = _decoded(octets)
        except FileNotFoundError:
            return
        # RecursionError: brackets nested a thousand deep.
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            self._is_lost = True
            LOG.warning(
                "%s is ignored and will be replaced: %r. Until the next rollout no commit is "
                "refused as late",
                path,
                error,
            )

    def _write(self) -> None:
        if self._path is None:
            return
        content = json.dumps(self._remembered._asdict()).encode()
        try:
            self._path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            whole_file.replace(self._path, content)
        except OSError as error:
            LOG.warning("a restarted agent will not know of this rollout: %s", error)


def lateness(rollout: Rollout, now_ns: int, tai_offset_s: int, unsettled: str | None) -> str:
    """Why a late rollout is refused; `unsettled` is what the clock lacks to count as settled."""
    assert rollout.apply_before_ns is not None  # noqa: S101  others are not late
    late_s = (now_ns - rollout.apply_before_ns) / NS_PER_S
    return (
        f"the commit comes too late: rollout {rollout.id} of {rollout.controller or 'nobody'} was "
        f"to be applied by {_tai(rollout.apply_before_ns)}, and here it is {_tai(now_ns)}, "
        f"{late_s:.3f} s after that (TAI offset {tai_offset_s} s, clock "
        f"{unsettled or 'settled'}). Push again; if this clock is wrong, correct it first"
    )


def _tai(instant_ns: int) -> str:
    """The instant in words, to the millisecond."""
    seconds, rest_ns = divmod(instant_ns, NS_PER_S)
    moment = datetime.fromtimestamp(seconds, UTC)
    return f"{moment:%Y-%m-%d %H:%M:%S}.{rest_ns // 1_000_000:03} TAI"


def _decoded(octets: bytes) -> Remembered:
    """What a file has. Raises ValueError, KeyError, TypeError, AttributeError or RecursionError."""
    if len(octets) > FILE_OCTETS_MAX:
        raise ValueError(f"it has more than {FILE_OCTETS_MAX} octets")
    kept: Any = json.loads(octets)
    remembered = Remembered(**kept)
    if not (
        isinstance(remembered.in_force, str | None)
        and isinstance(remembered.former, str | None)
        and type(remembered.is_new) is bool
        and len(remembered.known) <= KNOWN_MAX
        and all(type(each) is int for each in remembered.known.values())
    ):
        raise ValueError(f"not what an agent writes: {kept}")
    return remembered
