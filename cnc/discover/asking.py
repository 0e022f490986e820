"""Queries all switches in parallel; a failure does not hide the answers of others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cnc.errors import CncError, RolloutError
from cnc.model import Management
from cnc.switch.device import ConnectOptions, Device, DeviceError, Managed
from cnc.switch.parallel import answers, unanimous
from cnc.switch.topology import TopologyReport


@dataclass(frozen=True, slots=True)
class View:
    """What one switch answered, and where it was asked."""

    management: Management
    report: TopologyReport


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

    def topology(switch: Managed) -> TopologyReport:
        with Device(switch, connect) as device:
            return device.topology()

    found = answers(switches, topology)
    views, failures = [], {}
    for switch in switches:
        answer = found[switch.name]
        if isinstance(answer, DeviceError):
            failures[switch.name] = answer
        elif switch.management:  # it has: `targets` gives one to each
            views.append(View(switch.management, answer))
    return Answers(tuple(views), failures)
