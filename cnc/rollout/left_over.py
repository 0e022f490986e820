"""What a rollout that gave streams other ways has left of the plan before it.

Filtering entries for the former ways stay until no frame comes by them any more. A second rollout
removes them then; where that failed, or its controller ended before, they are left over.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from cnc.data_tree.tree import BridgeReport, PortReport
from cnc.mechanisms.composition import bridge_forwardings
from cnc.model import NO_FORWARDING, NS_PER_S, BridgeForwarding, Forwarding, Parts, StreamAddress
from cnc.plans.transition import joined, transition
from cnc.rollout.goal import forgetting
from cnc.rollout.history import History, Phase, Rollout
from cnc.switch.payload import Settings

NEXT_PUSH = "the next push removes them; they carry no frame"


@dataclass(frozen=True, slots=True)
class LeftOver:
    """What a rollout left of the plan before it: by switch what its bridge has beside the plan.

    Frames may come by it until `wait_s` from now.
    """

    rollout: int
    by_switch: Mapping[str, BridgeForwarding]
    wait_s: float

    def names(self, switch: str) -> dict[StreamAddress, str]:
        """What to call the addresses that have entries on a switch."""
        its = self.by_switch.get(switch, NO_FORWARDING)
        return {
            address: f"the previous path of {its.names.get(address, 'a stream')}, left by rollout "
            f"{self.rollout}"
            for address in its.entries
        }

    def hint(self, switch: str, report: PortReport | None) -> str | None:
        """What to do about a bridge that has some of it; None if it has none."""
        bridge = report.get(BridgeReport) if report else None
        its = self.by_switch.get(switch, NO_FORWARDING)
        if bridge is None or not its.entries.keys() & bridge.forwarding.entries.keys():
            return None
        return f"push again: that removes what rollout {self.rollout} left; it carries no frame"

    def noted(self, nodes: Mapping[str, Settings]) -> dict[str, Settings]:
        """What nodes are to have, where a comparison also looks for what is left, and names it."""
        found = {}
        for name, its in nodes.items():
            settings = forgetting(its, self.by_switch.get(name))
            for port, desired in settings.items():
                if (bridge := desired.get(BridgeForwarding)) is not None:
                    names = {**bridge.names, **self.names(name)}
                    settings = {**settings, port: desired.having(replace(bridge, names=names))}
            found[name] = settings
        return found


def left_over(history: History, network: str) -> LeftOver | None:
    """What the newest completed rollout of a plan left of the plan before it, as the history has
    it; None if nothing."""
    planned = history.rollouts(network, phase=Phase.DONE, limit=2, with_plan=True)
    plan = history.plan_of(planned[0].number) if planned else None
    if plan is None or plan.intent.network.forwarding is Forwarding.ROUTED:
        return None
    former = history.plan_of(planned[1].number) if planned[1:] else None
    between = transition(former, plan)
    since = history.rollouts(network, phase=Phase.DONE, since=planned[0].number)
    own = bridge_forwardings(plan)
    # A bridge that only had to keep what it had is in no record of the rollout.
    kept = {switch: joined(own[switch], its) for switch, its in between.former.items()}
    left = {
        switch: _beyond(its, own[switch])
        for switch, its in {**kept, **_told(since)}.items()
        if switch in own and its.entries.keys() - own[switch].entries.keys()
    }
    if not left:
        return None
    under_way_s = between.under_way_ns / NS_PER_S
    wait_s = max(each.confirm_wait_s() for each in since) + under_way_s
    return LeftOver(planned[0].number, left, wait_s)


def _told(rollouts: list[Rollout]) -> dict[str, BridgeForwarding]:
    """What each bridge was told last, by switch; the rollouts are newest first."""
    return {
        switch: told
        for each in reversed(rollouts)
        for switch, change in each.switches.items()
        for settings in change.after.values()
        if (told := settings.get(BridgeForwarding)) is not None
    }


def _beyond(told: BridgeForwarding, own: BridgeForwarding) -> BridgeForwarding:
    entries = {each: ports for each, ports in told.entries.items() if each not in own.entries}
    vlan_ids = {address.vlan_id for address in entries}
    return replace(
        told,
        entries=entries,
        vlans={vlan_id: its for vlan_id, its in told.vlans.items() if vlan_id in vlan_ids},
        parts=Parts(),
    )
