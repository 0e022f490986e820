"""The keys of a device profile: what a switch can do that does not run our agent."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from cnc.keys.mapping import Shape
from cnc.keys.units import DURATION
from cnc.keys.values import Boolean, Duration, Leaf, choice, integer, quantity, text
from cnc.model import CommitStyle, GateTree, Profile

PROFILE_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}"
_Lead = Annotated[int, quantity(DURATION, 7_000_000_000)]
_GateTree = Annotated[GateTree, choice(GateTree)]
_CommitStyle = Annotated[CommitStyle, choice(CommitStyle)]
_Text = Annotated[str, Leaf(str, {"type": "string"})]


class ProfileKeys(Shape):
    """What a switch of one family can do."""

    name: Annotated[str, text(PROFILE_NAME, "a name, such as lan9668")] = Field(
        description="what messages call it"
    )
    description: _Text = Field("", description="of which devices it is; for people")
    gates_tree: _GateTree = Field(
        description="the YANG module of the gates of its ports: that of IEEE 802.1Qcw-2023, or the "
        "one of 2018 and 2020, with gate-parameters below the interface"
    )
    commit: _CommitStyle = Field(
        description="how it takes a change: a confirmed commit (:confirmed-commit:1.1), a commit "
        "of candidate that stays, or edits of running alone"
    )
    reads_back: Boolean = Field(
        False,
        description="it reports the list that runs and the one that is pending; default: its "
        "configuration alone is compared",
    )
    reports_clock: Boolean = Field(
        False, description="it reports the current time of its ports (current-time), in TAI"
    )
    has_startup: Boolean = Field(
        False, description="what runs is copied to startup (:startup) to outlive a reboot"
    )
    validates: Boolean = Field(
        True,
        description="candidate is validated before the commit (:validate); false where a server "
        "does not commit what it has validated",
    )
    writes_limits: Boolean = Field(
        False,
        description="write supported-list-max, supported-cycle-max and supported-interval-max with "
        "each list; a server that has the published module and no such values refuses lists "
        "without them",
    )
    sets_classes: Boolean = Field(
        False,
        description="the traffic class of each priority can be set (traffic-class-table); default: "
        "it is that of IEEE 802.1Q-2022 table 8-5 for eight classes",
    )
    forwards: Boolean = Field(
        False,
        description="it takes static filtering entries and VLAN registrations of "
        "ieee802-dot1q-bridge, as a network with `forwarding: bridged` needs them",
    )
    lead_ns: _Lead = Field(
        "15s",
        validate_default=True,
        description="how far ahead base times are at least, a duration of 7s or more: a commit "
        "that it takes later acts late",
    )
    gate_entries_max: Annotated[int, integer(0, 65535)] = Field(
        0, description="longest gate control list, in entries; 0: no limit known"
    )
    gate_interval_min_ns: Duration = Field(
        "0ns", validate_default=True, description="shortest interval of a gate control list"
    )
    gate_interval_max_ns: Duration = Field(
        "0ns",
        validate_default=True,
        description="longest interval of a gate control list; 0ns: no limit known",
    )
    gate_cycle_max_ns: Duration = Field(
        "0ns",
        validate_default=True,
        description="longest cycle of a gate control list; 0ns: no limit known",
    )
    gate_tick_ns: Annotated[int, quantity(DURATION, 1)] = Field(
        "1ns", validate_default=True, description="gates change only at multiples of it"
    )

    def value(self) -> Profile:
        """The profile that these keys state."""
        return Profile(
            name=self.name,
            gates=self.gates_tree,
            commit=self.commit,
            reads_back=self.reads_back,
            reports_clock=self.reports_clock,
            has_startup=self.has_startup,
            validates=self.validates,
            writes_limits=self.writes_limits,
            sets_classes=self.sets_classes,
            forwards=self.forwards,
            lead_ns=self.lead_ns,
            entries_max=self.gate_entries_max,
            interval_min_ns=self.gate_interval_min_ns,
            interval_max_ns=self.gate_interval_max_ns,
            cycle_max_ns=self.gate_cycle_max_ns,
            tick_ns=self.gate_tick_ns,
        )
