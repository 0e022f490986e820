"""PTP instances (IEEE Std 1588-2019, with the profile of IEEE Std 802.1AS) by linuxptp's ptp4l."""

from __future__ import annotations

from pathlib import Path

from agent.mechanism import PTP, Mechanism, MemoryAdapter
from agent.mechanisms.clock import report, rules
from agent.mechanisms.clock.kernel import PtpDaemonAdapter
from agent.mechanisms.clock.tree import configured


def clock(directory: Path, *, shared_clock: bool = False) -> Mechanism:
    """The mechanism; the files of its daemons are in this directory. `shared_clock`: all switches
    of the network have the clock of this machine."""
    return Mechanism(
        name=rules.NAME,
        subtrees=(PTP,),
        configured=configured,
        as_is=rules.as_is,
        contributions=rules.contributions,
        diff=rules.diff,
        problems=rules.problems,
        operational=lambda _state, _context: {},
        memory=MemoryAdapter(rules.applied),
        kernel=lambda _ipr: PtpDaemonAdapter(directory, shared_clock=shared_clock),
        operational_of_switch=report.instances,
    )
