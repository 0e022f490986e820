"""What a switch can do that does not run our agent: a device profile (foreign-switches.md)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

DEFAULT_LEAD_NS = 15_000_000_000
# IEEE Std 802.1Q-2022, table 8-5: the classes of priorities 0..7 where there are eight.
FIXED_CLASSES = (1, 0, 2, 3, 4, 5, 6, 7)


class GateTree(StrEnum):
    """The YANG module in which a switch has the gates of its ports."""

    BRIDGE_PORT = "ieee802-dot1q-sched-bridge"  # IEEE Std 802.1Qcw-2023: below the bridge port
    INTERFACE = "ieee802-dot1q-sched"  # revisions of 2018 and 2020: below the interface


class CommitStyle(StrEnum):
    """How a switch takes a change (RFC 6241 8.2 to 8.4)."""

    CONFIRMED = "confirmed"  # candidate, and a confirmed commit that outlives its session
    CANDIDATE = "candidate"  # candidate, and a commit that stays
    RUNNING = "running"  # edits of running, which act at once


@dataclass(frozen=True, slots=True)
class Profile:
    """What a switch does, and how it is told; `name` is for messages.

    `reads_back`: it reports the lists that run and that are pending (802.1Q 12.29.1), else only its
    configuration is compared. `reports_clock`: and the current time of its ports. `has_startup`:
    what runs has to be copied to startup (RFC 6241 8.7). `validates`: candidate is validated before
    the commit. `writes_limits`: with a list goes what the published module compares it with
    (`supported-list-max` and others), which a server without these leaves needs. `sets_classes`:
    the traffic class of each priority can be set, else it is that of 802.1Q-2022 table 8-5.
    `forwards`: it takes static filtering entries and VLAN registrations. Base times are `lead_ns`
    ahead at least: what a switch takes later acts late. `entries_max` to `tick_ns` are limits of
    each port, as those of a link: 0 where none is known. `port_numbers` are those of its ports by
    name, where the switch does not report them.
    """

    name: str
    gates: GateTree
    commit: CommitStyle
    reads_back: bool = False
    reports_clock: bool = False
    has_startup: bool = False
    validates: bool = True
    writes_limits: bool = False
    sets_classes: bool = False
    forwards: bool = False
    lead_ns: int = DEFAULT_LEAD_NS
    entries_max: int = 0
    interval_min_ns: int = 0
    interval_max_ns: int = 0
    cycle_max_ns: int = 0
    tick_ns: int = 1
    port_numbers: tuple[tuple[str, int], ...] = ()

    @property
    def reverts(self) -> bool:
        """Whether the switch by itself goes back from a commit that is not confirmed."""
        return self.commit is CommitStyle.CONFIRMED
