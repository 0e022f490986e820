"""What is kept of a rollout: enough to finish it, to take it back, and to tell of it later."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from cnc.model import Management, PortConfiguration, StoredPort


class Phase(StrEnum):
    """How far a rollout came.

    Up to the decision no switch has been told to keep what it was given: each goes back by itself.
    From then on some may keep it, and only a controller can bring all to one side.
    """

    PREPARING = "preparing"
    CONFIRMING = "confirming"
    DONE = "done"
    TAKEN_BACK = "taken back"

    @property
    def has_ended(self) -> bool:
        return self in {Phase.DONE, Phase.TAKEN_BACK}


class Outcome(StrEnum):
    """What became of a rollout on one switch, as far as the controller knows."""

    UNKNOWN = "unknown"
    CONFIRMED = "confirmed"  # it runs it; a reboot would bring back what it had before
    SAVED = "saved"  # it runs it, and will after a reboot
    TAKEN_BACK = "taken back"


def address_of(management: Management) -> str:
    """Where a switch is managed: what two rollouts of one switch have in common."""
    return f"{management.address} {management.port}"


@dataclass(frozen=True, slots=True)
class SwitchChange:
    """What a rollout changes on one switch.

    The two mappings have the same keys, the ports that change: what each had (None: nothing was
    configured) and what it is to have (None: no gates).
    """

    management: Management
    before: Mapping[str, StoredPort | None]
    after: Mapping[str, PortConfiguration | None]
    outcome: Outcome = Outcome.UNKNOWN
    detail: str = ""

    @property
    def address(self) -> str:
        return address_of(self.management)


@dataclass(frozen=True, slots=True)
class Rollout:
    """One change of a network.

    `number` counts within this history and is what operators call it by; `id` (a UUID) is written
    to the switches. `what` says in a few words why it was made. `base_time_ns` is when it starts
    (TAI). `confirm_by` is when a switch that heard nothing more has gone back by itself.
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
