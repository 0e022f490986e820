"""`connections` of `tsn-multipath`: read into a policy, and reported with what it decided. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from agent.kernel.mptcp_diag import DiagConnection, DiagSubflow
from agent.mechanism import PATHS, Node, Tree
from agent.mechanisms.multipath.connections import ConnectionState, Exclusion, SubflowState
from agent.mechanisms.multipath.decisions.buffers import total_octets
from agent.mechanisms.multipath.decisions.policy import (
    Application,
    ConnectionMode,
    Download,
    Heat,
    OnDemand,
    PathPolicy,
    Policy,
    Reading,
    Source,
)

_NS_PER_MS, _NS_PER_S = 1_000_000, 1_000_000_000


def policy(node: Tree, subflows: int) -> Policy | None:
    """Of the node `multipath` with all its paths; None: connections are the kernel's. `subflows`
    are those of a connection beside the first."""
    its = node.get("connections")
    if its is None:
        return None
    return Policy(
        ConnectionMode(node.get("default-mode", ConnectionMode.HASSLE_FREE)),
        tuple(_path(each) for each in node[PATHS]),
        tuple(_application(each) for each in its.get("application", ())),
        subflows,
        _on_demand(its.get("on-demand", {})),
        _download(its.get("download", {})),
        _heat(its["heat"]) if "heat" in its else None,
        **_durations(its, {"retry-after": "retry_after_ns"}),
    )


def buffer_octets(node: Tree) -> int | None:
    """The maximum that is configured, or less if that is the sum of all paths."""
    maximum = node.get("tuning", {}).get("maximum-buffer")
    of_paths = [each.get("buffer") for each in node[PATHS]]
    return maximum if maximum is None or None in of_paths else total_octets(of_paths, maximum)


def _path(path: Tree) -> PathPolicy:
    limit = path.get("data-limit", {})
    warning = {"warn_percent": limit["warning"]} if "warning" in limit else {}
    return PathPolicy(
        path["interface"],
        path.get("backup", False),
        path.get("announce", False),
        frozenset(path.get("radio-technology", ())),
        path.get("minimum-signal"),
        int(limit["maximum"]) if limit else None,
        **warning,
    )


def _application(its: Tree) -> Application:
    duration_s = its.get("media-duration")
    return Application(
        its["name"],
        ConnectionMode(its["mode"]),
        Source(its.get("source", Source.OPERATOR)),
        frozenset(its.get("user", ())),
        frozenset(its.get("control-group", ())),
        frozenset(its.get("remote-port", ())),
        int(its["media-rate"]) if "media-rate" in its else None,
        None if duration_s is None else duration_s * _NS_PER_S,
    )


def _on_demand(its: Tree) -> OnDemand:
    default = OnDemand()
    threshold_ns = its.get("threshold", default.threshold_ns // _NS_PER_MS) * _NS_PER_MS
    removal_ms = its.get("removal-threshold", 2 * threshold_ns // _NS_PER_MS)
    reading = Reading(its.get("reading", default.reading))
    return OnDemand(threshold_ns, removal_ms * _NS_PER_MS, reading)


def _download(its: Tree) -> Download:
    object_octets = {}
    if "small-object" in its:
        object_octets["small_object_octets"] = int(its["small-object"])
    return Download(**object_octets, **_durations(its, {"long-running": "long_running_ns"}))


def _durations(its: Tree, fields: Mapping[str, str]) -> dict[str, int]:
    """Leaves in milliseconds, where they are stated."""
    return {field: its[leaf] * _NS_PER_MS for leaf, field in fields.items() if leaf in its}


def _heat(its: Tree) -> Heat:
    return Heat(its["zone"], its["stop-level"], its["restart-level"])


def operational(
    connections: Iterable[ConnectionState], exclusions: Iterable[Exclusion], now_ns: int
) -> Node:
    """What the last look has found; `now_ns` is when the state was read (`Clock.MONOTONIC`)."""
    listed = {
        "connection": [_connection(each) for each in connections],
        "exclusion": [
            {
                "local": each.local,
                "remote": each.remote,
                "retry-in": str(max(0, each.until_ns - now_ns) // _NS_PER_MS),
            }
            for each in exclusions
        ],
    }
    return {name: nodes for name, nodes in listed.items() if nodes}


def _connection(its: ConnectionState) -> Node:
    node: Node = {
        "token": its.diag.token,
        **_ends(its.diag),
        "user": its.diag.uid,
        "mode": str(its.mode),
        "reason": its.reason,
        "managed": its.is_managed,
    }
    if its.application is not None:
        node["application"] = its.application
    if its.subflows:
        node["subflow"] = [_subflow(each) for each in its.subflows]
    return node


def _subflow(its: SubflowState) -> Node:
    diag = its.diag
    node: Node = {
        **_ends(diag),
        "backup": diag.is_backup,
        "established": diag.is_open,
        "reason": its.reason,
        "sent": str(diag.octets_acked),
        "received": str(diag.octets_received),
        "retransmitted": diag.retransmitted,
    }
    if its.interface is not None:
        node["interface"] = its.interface
    if diag.rtt_ns:
        node["round-trip-time"] = str(diag.rtt_ns)
    if diag.delivery_rate_bps:
        node["delivery-rate"] = str(diag.delivery_rate_bps)
    return node


def _ends(its: DiagConnection | DiagSubflow) -> Node:
    return {
        "local": its.local,
        "local-port": its.local_port,
        "remote": its.remote,
        "remote-port": its.remote_port,
    }
