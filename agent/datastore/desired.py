"""The configured tree → what every port is asked to do. Pure: neither sysrepo nor a kernel.

The tree is the RFC 7951 encoding of `ietf-interfaces` with its augmentations, of the bridges of
`ieee802-dot1q-bridge`, of the Stream identity table of `ieee802-dot1cb-stream-identification`, of
the tables of `ieee802-dot1cb-frer`, of the instances of `ieee1588-ptp-tt`, and of the paths of
`tsn-multipath`, as libyang prints it without implied defaults. (With them every interface would
have a `bridge-port`: it is a non-presence container.) Each mechanism reads its own part of it: a
bridge is the interface that has its name, and an entry of a table belongs to each interface that it
names. Entries of the Stream identity table belong to every bridge as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from agent.datastore.frer_tables import tables_by_port
from agent.datastore.ptp_instances import instances_by_port
from agent.mechanism import (
    BRIDGE,
    BRIDGES,
    FRER,
    MULTIPATH,
    PATHS,
    PTP,
    STREAM_IDENTITIES,
    STREAM_IDENTITY,
    Refused,
    Tree,
)
from agent.mechanisms import MECHANISMS
from agent.model import AgentError, PortConfig, PortState, Refusal, refused


class Impossible(NamedTuple):
    """Why a mechanism cannot do what is asked of an interface, and what that is."""

    reason: str
    interface: Tree


def desired_ports(tree: Tree, states: Mapping[str, PortState]) -> dict[str, PortConfig]:
    """As `possible_ports`. Raises `AgentError` where a port asks what a mechanism cannot do."""
    desired, impossible = possible_ports(tree, states)
    if impossible:
        raise refusal(impossible)
    return desired


def refusal(impossible: Mapping[str, Impossible]) -> AgentError:
    """One line for each port."""
    return refused(
        Refusal(f"port {name}: {each.reason}", name, "invalid-value")
        for name, each in impossible.items()
    )


def _interfaces(tree: Tree) -> Iterable[Tree]:
    """Each configured interface, with the bridge of its name and the entries that name it."""
    interfaces = {
        interface["name"]: interface
        for interface in tree.get("ietf-interfaces:interfaces", {}).get("interface", [])
    }
    for bridge in tree.get(BRIDGES, {}).get("bridge", []):
        name = bridge["name"]
        streams = {STREAM_IDENTITIES: tree.get(STREAM_IDENTITY, [])}
        interfaces[name] = {"name": name, **interfaces.get(name, {}), BRIDGE: bridge, **streams}
    for name, entries in _entries_by_port(tree).items():
        interfaces[name] = {"name": name, **interfaces.get(name, {}), STREAM_IDENTITY: entries}
    for name, tables in tables_by_port(tree).items():
        interfaces[name] = {"name": name, **interfaces.get(name, {}), FRER: tables}
    for name, instances in instances_by_port(tree).items():
        interfaces[name] = {"name": name, **interfaces.get(name, {}), PTP: instances}
    multipath = tree.get(MULTIPATH, {})
    for path in multipath.get("path", []):
        name = path["interface"]
        its = {MULTIPATH: {**multipath, "path": path, PATHS: multipath["path"]}}
        interfaces[name] = {"name": name, **interfaces.get(name, {}), **its}
    return interfaces.values()


def _entries_by_port(tree: Tree) -> dict[str, list[Tree]]:
    """The entries of the Stream identity table, by each port that they name."""
    entries: dict[str, list[Tree]] = {}
    for entry in tree.get(STREAM_IDENTITY, []):
        named = {
            port
            for facing in ("in-facing", "out-facing")
            for ports in entry.get(facing, {}).values()
            for port in ports
        }
        for port in named:
            entries.setdefault(port, []).append(entry)
    return entries


def possible_ports(
    tree: Tree, states: Mapping[str, PortState]
) -> tuple[dict[str, PortConfig], dict[str, Impossible]]:
    """Every interface on which a mechanism is configured, and what it is asked to do; and those
    that ask what a mechanism cannot do.

    `states` matters only for drafts, which leave a port as it is.
    """
    desired: dict[str, PortConfig] = {}
    impossible: dict[str, Impossible] = {}
    for interface in _interfaces(tree):
        if not any(node in interface for each in MECHANISMS for node in each.subtrees):
            continue
        name = interface["name"]
        try:
            parts = [each.configured(interface, states.get(name)) for each in MECHANISMS]
        except Refused as reason:
            impossible[name] = Impossible(str(reason), interface)
        else:
            desired[name] = PortConfig(name, tuple(parts))
    return desired, impossible
