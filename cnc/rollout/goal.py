"""What a rollout is to bring about on switches and end stations."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from cnc.data_tree.state import SwitchState
from cnc.mechanisms.composition import asked_at, is_bridge
from cnc.model import (
    NO_GATES,
    BridgeForwarding,
    Plan,
    PortGates,
    PortSettings,
)
from cnc.plans.transition import Transition, joined, on_ports, transition
from cnc.switch.device import Managed
from cnc.switch.payload import (
    Settings,
    desired_nodes,
    with_former,
)


@dataclass(frozen=True, slots=True)
class Goal:
    """The desired configuration of switches and end stations: of a plan, or of an earlier rollout.

    `ports` has what is asked at every port and bridge that the goal covers. `clock_error_ns` is the
    allowed difference of two clocks, `stored_clock_error_ns` what the switches are to store of it:
    None in a network of one. `what` is the purpose for the history, which also stores
    `plan`. With `force_margin` the goal is not held to what the switches have measured of their
    gates.

    `between` is what stays of the plan that runs until frames under way have arrived, beside what
    `ports` has; `former_gates` are the settings by which ports of former ways are gated that
    `ports` has no gates for. `clocks` are further ports of nodes, to read clocks from: a bridge has
    none. `follows` is the number of the rollout that has configured all other nodes, where the goal
    covers those alone that differ from its plan. `at_once`: the change keeps what is promised in
    every mixture of nodes that have made it and nodes that have not.
    """

    network: str
    switches: tuple[Managed, ...]
    ports: Mapping[str, Mapping[str, PortSettings]]
    clock_error_ns: int
    what: str
    plan: Plan | None = None
    force_margin: bool = False
    between: Transition = field(default_factory=Transition)
    former_gates: Mapping[str, Settings] = field(default_factory=dict)
    clocks: Mapping[str, Collection[str]] = field(default_factory=dict)
    stored_clock_error_ns: int | None = None
    follows: int | None = None
    at_once: bool = False

    @classmethod
    def of(
        cls,
        plan: Plan,
        what: str = "push",
        *,
        force_margin: bool = False,
        at_once: bool = False,
        former: Plan | None = None,
        left: Mapping[str, BridgeForwarding] | None = None,
    ) -> Goal:
        """The goal to run `plan`, in whose place the plan `former` runs.

        Filtering entries of `former` for streams that move stay beside those of `plan`, for
        `without_former_ways` to remove; of other streams that only `former` has nothing stays, nor
        of their VLANs, nor of what is `left` of earlier plans, by switch.
        """
        network, between = plan.intent.network, transition(former, plan)
        ports = {
            name: forgetting(settings, (left or {}).get(name))
            for name, settings in with_former(desired_nodes(plan), former).items()
        }
        return cls(
            network=plan.intent.name,
            switches=tuple(Managed.of(node, ports[name]) for name, node in network.managed.items()),
            ports=ports,
            clock_error_ns=network.clock_error_ns,
            what=what,
            plan=plan,
            force_margin=force_margin,
            between=between,
            former_gates=_gates_that_go(former, ports) if former and between.moved else {},
            stored_clock_error_ns=stored_clock_error_ns(plan),
            at_once=at_once,
        )

    def of_what_differs(self, former: Plan, follows: int) -> Goal:
        """The goal on those nodes alone that `former`, the plan of the rollout `follows`, which
        runs, asks for something else."""
        asked = desired_nodes(former)
        left = self.former.keys() | self.former_gates.keys()
        ports = {
            name: its for name, its in self.ports.items() if its != asked.get(name) or name in left
        }
        switches = tuple(each for each in self.switches if each.name in ports)
        return replace(self, switches=switches, ports=ports, follows=follows)

    def without_former_ways(self, what: str) -> Goal:
        """The goal to leave no former way on the switches that have one; all the rest stays.

        It has no plan: it deploys none that is not deployed yet.
        """
        of_switches = {
            name: {port: self.ports[name][port] for port in self._of_former_ways(name)}
            for name in self.former.keys() | self.former_gates.keys()
        }
        return replace(
            self,
            switches=tuple(each for each in self.switches if each.name in of_switches),
            ports=of_switches,
            what=what,
            plan=None,
            between=Transition(),
            former_gates={},
            clocks={name: [*self.ports[name]] for name in of_switches},
            follows=None,
        )

    def _of_former_ways(self, switch: str) -> list[str]:
        """The bridge and the ports of a switch that former ways need otherwise than the plan."""
        bridge = [self._bridge(switch)] if switch in self.former else []
        return [*bridge, *self.former_gates.get(switch, ())]

    def read(self, node: str) -> set[str]:
        """The ports of a node whose state says whether it can change, and by which clock."""
        return {*self.ports[node], *self.clocks.get(node, ())}

    def beside_former_ways(self, states: Mapping[str, SwitchState]) -> Goal:
        """The goal with all that bridges are told until the base time: the former ways as well, on
        those ports that each bridge still has, by the `states` of the switches.

        No switch has to wait for another with it: no talker sends to the new addresses yet, and the
        entries of the former ones stay as they are.
        """
        ports = {
            name: {**settings, **self.former_gates.get(name, {})}
            for name, settings in self.ports.items()
        }
        for name, former in self.former.items():
            device = self._bridge(name)
            own = ports[name][device]
            if bridge := states[name].bridge(device):
                possible = on_ports(former, frozenset(bridge.ports))
                ports[name][device] = own.having(joined(own[BridgeForwarding], possible))
        return replace(self, ports=ports)

    def _bridge(self, switch: str) -> str:
        """The name of the bridge that `ports` has for a switch."""
        return next(port for port, its in self.ports[switch].items() if is_bridge(its))

    @property
    def former(self) -> Mapping[str, BridgeForwarding]:
        """By switch what its bridge is told for the previous paths of streams."""
        return self.between.former

    @property
    def has_forwarding(self) -> bool:
        """Whether bridges are to forward streams."""
        return any(switch.bridges for switch in self.switches)

    def cycles_ns(self) -> set[int]:
        """The cycles of all lists, including those that run already, and the periods of talkers."""
        return {
            cycle_ns
            for ports in self.ports.values()
            for settings in ports.values()
            for cycle_ns in _cycles_ns(settings)
        }


def _gates_that_go(former: Plan, ports: Mapping[str, Settings]) -> dict[str, Settings]:
    """The settings of ports that only `former` has gates for: until the base time frames of streams
    that move leave by these gates, and best effort must not be in their way."""
    found: dict[str, Settings] = {
        name: {
            port: before
            for port, before in settings.items()
            if before[PortGates].configuration and ports[name].get(port) == NO_GATES
        }
        for name, settings in desired_nodes(former).items()
        if name in ports
    }
    return {name: settings for name, settings in found.items() if settings}


def forgetting(of_node: Settings, left: BridgeForwarding | None) -> Settings:
    """The settings of a node, whose bridge forgets the VLANs of what is `left` there."""
    if left is None:
        return of_node
    forgotten: dict[int, tuple[str, ...]] = dict.fromkeys(left.vlans, ())
    return {
        port: settings.having(replace(its, vlans={**forgotten, **its.vlans}))
        if (its := settings.get(BridgeForwarding)) is not None
        else settings
        for port, settings in of_node.items()
    }


def _cycles_ns(settings: PortSettings) -> Iterator[int]:
    for place, part in asked_at(settings):
        yield from place.cycles_ns(part)


def stored_clock_error_ns(plan: Plan) -> int | None:
    """How far from others a clock may be when a switch that boots sets the gates of a plan; None
    where there is no other to agree with."""
    network = plan.intent.network
    return network.clock_error_ns if len(network.managed) > 1 else None
