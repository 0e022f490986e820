"""The paths and settings of `tsn-multipath`: read for each port, and reported. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from agent.mechanism import MULTIPATH, Node, Tree
from agent.mechanisms.multipath import connections_tree
from agent.mechanisms.multipath.connections import PathUse
from agent.mechanisms.multipath.model import (
    Mode,
    MultipathConfig,
    MultipathState,
    NodeState,
    RoutedPath,
    Values,
)
from agent.model import PortState

LIMIT = 8  # of both limits, where nothing is configured: all that the kernel takes

# The leaf of each setting that has one, by its name.
LEAVES = {
    "scheduler": ("scheduler",),
    "congestion-control": ("tuning", "congestion-control"),
    "no-metrics-save": ("tuning", "no-metrics-save"),
}
BUFFERS = ("maximum-receive-buffer", "maximum-send-buffer")
# Who opens the subflows of new connections, as the kernel says it.
PATH_MANAGER, MANAGERS = "path-manager", {"0": "kernel", "1": "program"}
FLAGS = {"enabled", "no-metrics-save"}  # of which the kernel says 0 or 1
TEXTS = {"scheduler", "congestion-control"}


def configured(interface: Tree, _state: PortState | None) -> MultipathConfig:
    """`MULTIPATH` of an interface is the whole tree, with its `path` alone."""
    node = interface.get(MULTIPATH)
    if node is None:
        return MultipathConfig()
    mode = Mode(node.get("default-mode", Mode.HASSLE_FREE))
    limit = node.get("limits", {}).get("subflows", LIMIT)
    policy = connections_tree.policy(node, limit)
    return MultipathConfig(_path(node["path"], mode), _settings(node, mode), mode, policy)


def _path(path: Tree, mode: Mode) -> RoutedPath:
    """With or without an endpoint, and its flags.

    The kernel refuses `fullmesh` beside `signal`. No mode takes `fullmesh` from an endpoint, nor
    the endpoint from a path that is no backup: either closes the first subflow of connections that
    began at its address, which is the only one while they have no other.
    """
    is_backup = path.get("backup", False)
    if is_backup and mode is Mode.SINGLE_PATH:
        return RoutedPath()
    flags = {"signal"} if path.get("announce") else {"subflow", "fullmesh"}
    if is_backup and mode is Mode.RELIABILITY:
        flags.add("backup")
    return RoutedPath(frozenset(flags))


def _settings(node: Tree, mode: Mode) -> Values:
    limits = node.get("limits", {})
    subflows = 0 if mode is Mode.SINGLE_PATH else limits.get("subflows", LIMIT)
    values = {
        "enabled": _word(node.get("enabled", True)),
        "subflows": _word(subflows),
        "add-addr-accepted": _word(limits.get("add-addr-accepted", LIMIT)),
    }
    for name, (*parents, leaf) in LEAVES.items():
        holder = node
        for parent in parents:
            holder = holder.get(parent, {})
        if leaf in holder:
            values[name] = _word(holder[leaf])
    if (octets := connections_tree.buffer_octets(node)) is not None:
        values |= dict.fromkeys(BUFFERS, _word(octets))
    if "connections" in node:
        values[PATH_MANAGER] = "1"
    return tuple(sorted(values.items()))


def _word(value: str | int) -> str:
    return value if isinstance(value, str) else str(int(value))


def operational(states: Iterable[PortState]) -> Node:
    """What the kernel has of all this, whoever has made it; nothing where it has no multipath
    TCP."""
    listed = list(states)
    node = next((each[NodeState] for each in listed if each[NodeState] != NodeState()), None)
    node = node or NodeState()
    paths = [
        _path_state(each, node.uses.get(each.name, PathUse()))
        for each in listed
        if _has_any(each[MultipathState])
    ]
    found: Node = {"kernel": _kernel(node)} if node != NodeState() else {}
    if paths:
        found["path-state"] = paths
    found |= connections_tree.operational(node.connections, node.exclusions, node.now_ns)
    return {MULTIPATH: found} if found else {}


def _has_any(its: MultipathState) -> bool:
    return bool(its.path or its.endpoints)


def _path_state(state: PortState, use: PathUse) -> Node:
    its = state[MultipathState]
    node: Node = {"interface": state.name, "managed": its.path is not None}
    if its.path and its.path.lack:
        node["lack"] = its.path.lack
    node |= _use(use)
    if its.endpoints:
        node["endpoint"] = [
            {
                "address": each.address,
                "id": each.id,
                "flags": " ".join(sorted(each.flags)),
                "managed": each.is_ours,
            }
            for each in its.endpoints
        ]
    return node


def _use(use: PathUse) -> Node:
    octets = None if use.octets is None else str(use.octets)
    leaves = {
        "demoted": use.demoted,
        "data-octets": octets,
        "radio-technology": use.radio.technology,
        "signal": use.radio.signal_dbm,
    }
    return {name: value for name, value in leaves.items() if value is not None}


def _kernel(node: NodeState) -> Node:
    found: Node = {"available-scheduler": list(node.schedulers)}
    if node.congestion_controls:
        found["available-congestion-control"] = list(node.congestion_controls)
    if node.millicelsius is not None:
        found["temperature"] = node.millicelsius
    for name, value in node.settings:
        if name == PATH_MANAGER:
            found[name] = MANAGERS[value]
        elif name in TEXTS:
            found[name] = value
        else:
            found[name] = value != "0" if name in FLAGS else int(value)
    if node.counters:
        found["counter"] = [
            {"name": name, "value": str(count)} for name, count in sorted(node.counters.items())
        ]
    return found
