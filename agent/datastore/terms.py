"""Who acts for the network that this switch belongs to, of several controllers.

A controller that was stopped for a while, or that has lost its network, does not know that another
has taken over: what it sends then must do nothing. So a rollout may name its network and a term,
which grows with each that takes over. The switch keeps the highest that it has met, and refuses
what is of a lower one, of none, or of another network.

The term is no configuration: a revert does not take it back. It is on the disk before the commit
that brings it is answered. A switch whose file is gone, as one that was replaced, takes the first
that comes, but none lower than that of the configuration it has booted with.
"""

from __future__ import annotations

import json
import logging
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agent import whole_file
from agent.datastore.rollout import Rollout
from agent.model import AgentError

LOG = logging.getLogger(__name__)

TERMS_FILE = "terms.json"
# An entry takes 200 octets, of 255 characters for each of two texts.
FILE_OCTETS_MAX = 4 * 2**10


@dataclass(frozen=True, slots=True)
class KeptTerm:
    """The highest `term` that a rollout of `network` has named; the first that did so was of
    `controller`, and came at `taken` (ISO 8601, UTC)."""

    network: str
    term: int
    controller: str
    taken: str


class Terms:
    """The term that the switch keeps, in a file that outlives a reboot."""

    def __init__(self, path: Path | None = None) -> None:
        """Without a `path` nothing outlives the process."""
        self._path = path
        self.kept = _read(path) if path else None

    def found(self, rollout: Rollout) -> None:
        """An agent that starts has found this rollout in force: a higher term counts.

        A lower one, or one of another network, came while no agent ran, or before the file did.
        """
        named = _named(rollout, rollout.time)
        if named is None:
            return
        if self.kept and (self.kept.network != named.network or self.kept.term > named.term):
            LOG.warning("the configuration is not of who acts for the network: %s", self._kept())
        elif self.kept is None or self.kept.term < named.term:
            self.kept = named
            try:
                self._write()
            except OSError as error:
                LOG.warning("a restarted agent will not know of term %d: %s", named.term, error)

    def refusal(self, rollout: Rollout) -> str | None:
        """Why a rollout that was not applied before is refused; None: it is not."""
        kept = self.kept
        if kept is None:
            return None
        whose = f"rollout {rollout.id} of {rollout.controller or 'nobody'}"
        if rollout.term is None:
            return (
                f"{whose} names no term, and {self._kept()}. Ask that controller for the change, "
                "or take the network over from it: `cnc push --take-over`"
            )
        if rollout.network != kept.network:
            if rollout.former_network == kept.network and rollout.term > kept.term:
                return None
            return (
                f"{whose} is of network {rollout.network}, and {self._kept()}. Correct the "
                "address in the intent; or have the switch change networks: `cnc push --take-over`"
            )
        if rollout.term < kept.term:
            return (
                f"{whose} comes with term {rollout.term}, and {self._kept()}: another has taken "
                "over. Stop the controller that sent it; or have it take over again, with a higher "
                "term"
            )
        return None

    def take(self, rollout: Rollout) -> None:
        """Keep the term of a rollout if it is higher; it is on the disk when this returns.

        Not of one that would be refused had it not been applied before. Raises AgentError.
        """
        named = _named(rollout, None)
        before = self.kept
        if named is None or self.refusal(rollout):
            return
        if before and (before.network, before.term) == (named.network, named.term):
            return
        self.kept = named
        try:
            self._write()
        except OSError as error:
            self.kept = before
            raise AgentError(
                f"term {named.term} of network {named.network} cannot be kept: {error.strerror}; "
                "nothing is applied that another controller could not be fenced off from"
            ) from error
        LOG.info("%s", self._kept())

    def _kept(self) -> str:
        kept = self.kept
        assert kept is not None  # noqa: S101  said of one that there is
        return (
            f"this switch belongs to network {kept.network}, for which {kept.controller} acts "
            f"since {kept.taken} (term {kept.term})"
        )

    def _write(self) -> None:
        if self._path is None or self.kept is None:
            return
        self._path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        whole_file.replace(self._path, json.dumps(asdict(self.kept)).encode())


def _named(rollout: Rollout, taken: str | None) -> KeptTerm | None:
    """What a rollout names; None: nothing."""
    if rollout.network is None or rollout.term is None:
        return None
    return KeptTerm(
        rollout.network,
        rollout.term,
        rollout.controller or "nobody",
        taken or datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _read(path: Path) -> KeptTerm | None:
    try:
        with path.open("rb") as file:
            return _decoded(file.read(FILE_OCTETS_MAX + 1))
    except FileNotFoundError:
        return None
    # RecursionError: brackets nested a thousand deep.
    except (OSError, ValueError, TypeError, RecursionError) as error:
        LOG.warning(
            "%s is ignored and will be replaced: %r. The term of the configuration counts, or the "
            "first that comes",
            path,
            error,
        )
        return None


def _decoded(octets: bytes) -> KeptTerm:
    """What a file has. Raises ValueError, TypeError or RecursionError."""
    if len(octets) > FILE_OCTETS_MAX:
        raise ValueError(f"it has more than {FILE_OCTETS_MAX} octets")
    kept: Any = json.loads(octets)
    if not isinstance(kept, dict):
        raise ValueError(f"not what an agent writes: {kept}")
    term = KeptTerm(**kept)
    texts = (term.network, term.controller, term.taken)
    if type(term.term) is not int or not all(isinstance(each, str) for each in texts):
        raise ValueError(f"not what an agent writes: {kept}")
    return term
