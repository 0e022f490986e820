"""The instances of ieee1588-ptp-tt, by the interfaces of their ports. Pure."""

from __future__ import annotations

from agent.mechanism import PTP, Tree


def instances_by_port(tree: Tree) -> dict[str, list[Tree]]:
    """For each interface the instances that it is in, each with the port that it is there.

    An instance that is not enabled has no ports.
    """
    found: dict[str, list[Tree]] = {}
    for instance in tree.get(PTP, {}).get("instances", {}).get("instance", ()):
        if instance.get("default-ds", {}).get("instance-enable", True):
            for port in instance.get("ports", {}).get("port", ()):
                entry = {"instance": instance, "port": port}
                found.setdefault(port["underlying-interface"], []).append(entry)
    return found
