"""Queries all switches in parallel; a failure does not hide the answers of others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cnc.errors import CncError, RolloutError
from cnc.model import Management
from cnc.switch.device import ConnectOptions, Device, DeviceError, Managed
from cnc.switch.foreign.drafted import DraftProfile
from cnc.switch.parallel import answers, unanimous
from cnc.switch.topology import TopologyReport


@dataclass(frozen=True, slots=True)
class View:
    """What one switch answered, and where it was asked; `profile` is that of a switch that runs
    no agent."""

    management: Management
    report: TopologyReport
    profile: DraftProfile | None = None


@dataclass(frozen=True, slots=True)
class Answers:
    """The replies of the switches, in the order they were named; `failures` are by switch."""

    views: tuple[View, ...]
    failures: Mapping[str, DeviceError]

    def raise_if_incomplete(self) -> None:
        """Raises CncError with the words of every switch that did not answer, if there is one."""
        try:
            unanimous(self.failures)
        except RolloutError as error:
            missing = "it is missing in the draft" if self.views else "nothing was drafted"
            raise CncError(f"{error}\n{missing}", hint=error.hint) from error


def ask(switches: Sequence[Managed], connect: ConnectOptions) -> Answers:
    """The interfaces and neighbours of all switches that answer, and the failures of the others."""

    def view(switch: Managed) -> View | None:
        with Device(switch, connect) as device:
            report, profile = device.topology(), device.drafted_profile()
        # It has: `targets` gives one to each.
        return View(switch.management, report, profile) if switch.management else None

    found = answers(switches, view)
    views, failures = [], {}
    for switch in switches:
        answer = found[switch.name]
        if isinstance(answer, DeviceError):
            failures[switch.name] = answer
        elif answer:
            views.append(answer)
    return Answers(tuple(views), failures)
