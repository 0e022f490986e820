"""What a port has and is asked to have of PTP instances, compared. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from agent.composition import Change, Contribution, KernelObject, SoleContent, Stage
from agent.mechanism import Contributions
from agent.model import Clock, PortConfig, PortState
from agent.ptp_daemons.model import (
    ClockConfig,
    ClockState,
    Instance,
    InstancePort,
    Membership,
    TimeStamping,
)

NAME = "clock"

Instances = Mapping[int, Mapping[str, InstancePort]]


@dataclass(frozen=True, slots=True)
class PtpDaemons(KernelObject):
    """The PTP daemons of the switch, with the ports of each. Contents are `ClockConfig`.

    They are not the kernel's, but they steer its clock: before anything that counts on it.
    """

    removed_in: ClassVar[Stage] = Stage.SYNCHRONISE
    set_in: ClassVar[Stage] = Stage.SYNCHRONISE

    def problems(self, contributions: Sequence[Contribution]) -> Iterator[str]:
        """Ports of an instance are configured as one, and one instance steers the clock."""
        instances = by_instance(contributions)
        for index, ports in instances.items():
            if len({each.instance for each in ports.values()}) > 1:
                names = ", ".join(sorted(ports))
                yield f"PTP instance {index}: the ports {names} are to change together"
        steering = [str(index) for index, ports in instances.items() if _steers(ports)]
        if len(steering) > 1:
            yield (
                f"PTP instances {' and '.join(steering)} would both set the clock of the system: "
                "set free-running of all but one"
            )


DAEMONS = PtpDaemons()


def by_instance(contributions: Sequence[Contribution]) -> Instances:
    """The ports of each instance by their names, in the order of their numbers."""
    found: dict[int, list[tuple[str, InstancePort]]] = {}
    for contribution in contributions:
        for each in contribution.content.instances:
            found.setdefault(each.instance.index, []).append((contribution.port, each))
    return {
        index: dict(sorted(ports, key=lambda port: (port[1].number, port[0])))
        for index, ports in sorted(found.items())
    }


def _steers(ports: Mapping[str, InstancePort]) -> bool:
    return not all(each.instance.free_running for each in ports.values())


def as_is(state: PortState) -> ClockConfig:
    return ClockConfig(tuple(each.configured for each in state[ClockState].memberships))


def contributions(state: PortState) -> Contributions:
    return _sole_content(state).contributions(_or_nothing(as_is(state)))


def diff(config: PortConfig, state: PortState) -> Iterator[Change]:
    before, after = as_is(state), config[ClockConfig]
    if before != after:
        yield _sole_content(state).change(
            _or_nothing(before),
            _or_nothing(after),
            description=f"PTP instances: {_words(after)}",
            difference=f"PTP instances are {_words(before)}, configured are {_words(after)}",
        )


def problems(config: PortConfig, _state: PortState) -> Iterator[str]:
    """Two instances of one domain would take each other's messages for their own."""
    seen: dict[tuple[int, int], Instance] = {}
    for each in config[ClockConfig].instances:
        instance = each.instance
        other = seen.setdefault((instance.sdo_id, instance.domain), instance)
        if other is not instance:
            yield (
                f"PTP instances {other.index} and {instance.index} are both in domain "
                f"{instance.domain} at this port: give one of them another domain-number"
            )


def applied(
    state: PortState, contents: Sequence[ClockConfig], _now_ns: Callable[[Clock], int]
) -> PortState:
    """The port in memory with these instances; nothing steers a clock there."""
    memberships = (
        Membership(each, each.number, each.instance.time_stamping or TimeStamping.SOFTWARE)
        for content in contents
        for each in content.instances
    )
    return state.with_part(ClockState(tuple(memberships)))


def _sole_content(state: PortState) -> SoleContent:
    return SoleContent(NAME, state.name, DAEMONS)


def _or_nothing(config: ClockConfig) -> ClockConfig | None:
    return config if config.instances else None


def _words(config: ClockConfig) -> str:
    return "; ".join(map(_port_words, config.instances)) or "none"


def _port_words(port: InstancePort) -> str:
    instance = port.instance
    words = [
        f"port {port.number} of {instance.index} in domain {instance.domain}",
        f"priorities {instance.priority1} and {instance.priority2}",
        *(f"{name} {value}" for name, value in port.options),
    ]
    if instance.time_receiver_only:
        words.append("never transmits time")
    if instance.free_running:
        words.append("leaves the clock alone")
    return ", ".join(words)
