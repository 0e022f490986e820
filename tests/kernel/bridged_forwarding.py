"""Sets what a bridged plan asks of the Linux bridges of a lab, by the commands of iproute2."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

from cnc.forwarding import bridge_forwarding
from cnc.lab import Lab
from cnc.model import BridgeForwarding, Plan


def set_forwarding(running: Lab, plan: Plan) -> None:
    """Filtering entries, VLAN members and priorities of all switches."""
    for switch in plan.intent.network.bridges.values():
        forwarding = bridge_forwarding(plan, switch.name)
        priorities = {plan.class_of(name).priority for name in plan.streams}
        batches = {
            "bridge": [*_entries(forwarding, switch.bridge_device)],
            "tc": [*_priorities(forwarding, priorities)],
        }
        for program, lines in batches.items():
            command = running.command(switch.name, [program, "-batch", "-"])
            subprocess.run(command, input="\n".join(lines), text=True, check=True)


def _entries(forwarding: BridgeForwarding, device: str) -> Iterator[str]:
    for vlan_id, ports in forwarding.vlans.items():
        yield from (f"vlan add dev {port} vid {vlan_id}" for port in ports)
    for address, ports in forwarding.entries.items():
        mac, vlan_id = address.destination_mac, address.vlan_id
        for port in ports:
            if address.is_group:
                yield f"mdb add dev {device} port {port} grp {mac} permanent vid {vlan_id}"
            else:
                yield f"fdb add {mac} dev {port} master static vlan {vlan_id}"


def _priorities(forwarding: BridgeForwarding, priorities: set[int]) -> Iterator[str]:
    for port in forwarding.trusting:
        yield f"qdisc add dev {port} clsact"
        for number in sorted(priorities):
            yield (
                f"filter add dev {port} ingress prio {10 + number} protocol 802.1q flower "
                f"vlan_prio {number} action skbedit priority {number}"
            )
