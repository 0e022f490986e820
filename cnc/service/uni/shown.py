"""A stored stream as the standard's tree has it, and events of the core as its notifications.

What these functions are given is what the core answers (`cnc.service.calls`): STREAM and EVENT.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

MODULE, OURS = "ieee802-dot1q-cnc-config", "tsn-cnc"
_RUNS = "configured"
_KINDS = {
    "computed": "compute_streams_completed",
    "stream-placed": "compute_streams_completed",
    "stream-refused": "compute_streams_completed",
    "stream-configured": "configure_streams_completed",
    "stream-removed": "remove_streams_completed",
}
Shown = dict[str, Any]


def stream(its: Mapping[str, Any], *, config_only: bool = False) -> Shown:
    """An entry of the list `stream` by RFC 7951: what the CUC wrote, and the state beside it."""
    body = its["body"]
    shown: Shown = {**body, "stream-id": its["stream_id"]}
    if config_only:
        return shown
    placed = its["status"] or {}
    shown["stream-status"] = its["state"]
    if talker := body.get("talker"):
        shown["talker"] = {**talker, **placed.get("talker", {})}
    by_index = {each["index"]: each for each in placed.get("listener", ())}
    if listeners := body.get("listener"):
        shown["listener"] = [{**each, **by_index.get(each["index"], {})} for each in listeners]
    shown["status-info"] = _status_info(its)
    return shown


def cuc(its: Mapping[str, Any], *, config_only: bool = False) -> Shown:
    """An entry of the list `cuc`."""
    streams = [stream(each, config_only=config_only) for each in its["streams"]]
    return {"cuc-id": its["cuc"], "stream": streams}


def domain(
    its: Mapping[str, Any], cucs: Iterable[Mapping[str, Any]], *, config_only: bool = False
) -> Shown:
    """The entry of the list `domain`, with these of its CUCs."""
    entry: Shown = {
        "domain-id": its["name"],
        "cnc-enabled": True,
        f"{OURS}:auto-compute": its["auto_compute"],
    }
    if entries := [cuc(each, config_only=config_only) for each in cucs]:
        entry["cuc"] = entries
    return entry


def _status_info(its: Mapping[str, Any]) -> Shown:
    failed = bool(its["failure_code"]) and not its["placed"]
    runs = its["state"] == _RUNS and its["placed"]
    word = "failed" if failed else "ready" if runs else "none"
    info: Shown = {
        "talker-status": word,
        "listener-status": word,
        "failure-code": its["failure_code"] if failed else 0,
    }
    if its["reason"]:
        info[f"{OURS}:reason"] = its["reason"]
    return info


def notification(event: Mapping[str, Any], domain_id: str) -> Shown | None:
    """The notification that an event is by RFC 8040 section 6.4, or None for those that are none of
    the module's."""
    kind = _KINDS.get(event["kind"])
    if kind is None:
        return None
    if event["kind"] == "computed":
        failed: Mapping[str, str] = event["failed"]
        streams = [_told(stream_id, None) for stream_id in event["streams"]]
        codes: Mapping[str, int] = event["failure_codes"]
        streams += [_told(stream_id, why, codes[stream_id]) for stream_id, why in failed.items()]
    else:
        code = event.get("failure_code", 0)
        streams = [_told(event["stream_id"], event.get("reason"), code)]
    told = {"domain-id": domain_id, "cuc": [{"cuc-id": event["cuc"], "stream": streams}]}
    return {
        "ietf-restconf:notification": {
            "eventTime": event["time"],
            f"{MODULE}:{kind}": {"domain": [told]},
        }
    }


def _told(stream_id: str, reason: str | None, code: int = 0) -> Shown:
    told: Shown = {"stream-id": stream_id, "failure-code": code}
    if reason:
        told[f"{OURS}:reason"] = reason
    return told
