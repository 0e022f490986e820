"""The record of a rollout: enough to complete it, to roll it back, and to show it later."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from cnc.mechanisms.composition import previous
from cnc.model import (
    Management,
    PortSettings,
    StoredPort,
    TalkerStreams,
)


class Phase(StrEnum):
    """Progress of a rollout. The values are stored in the history.

    Up to the decision no confirming commit has been sent: each switch reverts by itself. From then
    on some switches may be confirmed, and only a controller can bring all to the same state.
    """

    PREPARING = "preparing"
    CONFIRMING = "confirming"
    DONE = "done"
    ROLLED_BACK = "taken back"

    @property
    def has_ended(self) -> bool:
        return self in {Phase.DONE, Phase.ROLLED_BACK}


class Outcome(StrEnum):
    """Outcome of a rollout on one switch, as far as the controller knows. The values are stored."""

    UNKNOWN = "unknown"
    CONFIRMED = "confirmed"  # runs the new lists; a reboot would start the previous ones
    SAVED = "saved"  # runs the new lists, also after a reboot
    ROLLED_BACK = "taken back"


def address_of(management: Management) -> str:
    """The management address and port of a switch, which identify it across rollouts."""
    return f"{management.address} {management.port}"


@dataclass(frozen=True, slots=True)
class SwitchChange:
    """The change of one switch or end station in a rollout.

    The two mappings have the same keys, the ports that change: the stored configuration before
    (None: none) and what is asked after. A bridge is among the ports of its
    switch.
    """

    management: Management
    before: Mapping[str, StoredPort | None]
    after: Mapping[str, PortSettings]
    outcome: Outcome = Outcome.UNKNOWN
    detail: str = ""

    @property
    def address(self) -> str:
        return address_of(self.management)

    @property
    def is_end_station(self) -> bool:
        """Whether talkers are told something, instead of gates set."""
        return any(each.get(TalkerStreams) for each in self.after.values())

    def previous(self, port: str) -> PortSettings:
        """What the port was configured with before, of the kind that the rollout configures."""
        return previous(self.after[port], self.before[port])


@dataclass(frozen=True, slots=True)
class Rollout:
    """One change of a network.

    `number` counts within this history and identifies the rollout in commands; `id` (a UUID) is
    written to the switches. `what` is its purpose in a few words. `base_time_ns` is the base time
    (TAI). At `confirm_by` a switch without a confirming commit has reverted by itself.
    """

    number: int
    id: str
    network: str
    operator: str
    what: str
    started: datetime
    confirm_by: datetime
    base_time_ns: int
    switches: Mapping[str, SwitchChange]
    phase: Phase = Phase.PREPARING
    ended: datetime | None = None
    detail: str = ""
    under_way: bool = field(default=False, compare=False)  # its controller is alive
    # The clock of `started` and `confirm_by`, of that of the machine which has read them.
    clock_ahead: timedelta = field(default=timedelta(), compare=False)

    @property
    def refused(self) -> bool:
        """Whether the push was refused before anything was sent to a switch."""
        return self.phase is Phase.ROLLED_BACK and not self.switches

    def confirm_wait_s(self) -> float:
        """How much longer the switches may wait for the confirming commit; after that the base
        time has come as well.

        That clock may have been set since: the wait is at most their confirm time-out, counted
        from now if the rollout seems to start in the future.
        """
        now, at_most = datetime.now(UTC) + self.clock_ahead, self.confirm_by - self.started
        remaining = at_most if now < self.started else self.confirm_by - now
        return max(0.0, min(remaining, at_most).total_seconds())
