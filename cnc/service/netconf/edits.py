"""<edit-config> of the UNI's tree, as JSON with its operations as metadata (RFC 7952).

An edit changes one thing: a stream, a CUC (which can be deleted alone), or `auto-compute`. So it is
one decision of the core, done as a whole or not at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from cnc.service.netconf.asker import Asker
from cnc.service.netconf.errors import RpcRefused
from cnc.service.refused import CallRefused, Code
from cnc.service.uni.shown import MODULE, OURS
from cnc.service.web import schema
from cnc.service.web.patches import merged

_ROOT = f"{MODULE}:cnc-config"
_AUTO = f"{OURS}:auto-compute"
_OPERATION = "ietf-netconf:operation"
_DELETING = frozenset({"delete", "remove"})
_DESCENDING = frozenset({"merge", "none"})
# What a deleted leaf has by its default.
_AUTO_DEFAULT = True


class Change(NamedTuple):
    """What an edit does to one stream, CUC or domain. `value`: the stream's body, or the leaf's."""

    operation: str
    domain: str
    cuc: str | None = None
    stream_id: str | None = None
    value: Any = None


async def apply(asker: Asker, edit: Mapping[str, Any], default_operation: str) -> None:
    """Do it. Raises RpcRefused, RestconfError, CallRefused."""
    found = list(_changes(edit, default_operation))
    if len(found) != 1:
        raise RpcRefused(
            "operation-not-supported",
            f"an edit changes one stream, one CUC or auto-compute, and this one {len(found)}: send "
            "one for each; with auto-compute off, compute_streams then places them together",
        )
    (change,) = found
    its = await asker.call("domain.get")
    if its["name"] != change.domain:
        raise RpcRefused("data-missing", f"there is no domain {change.domain}, but {its['name']}")
    try:
        await _apply(asker, change)
    except CallRefused as refused:
        if refused.code is Code.ABSENT and change.operation == "remove":
            return
        if refused.code is Code.ABSENT and change.operation == "delete":
            raise RpcRefused("data-missing", str(refused)) from refused
        if refused.code is Code.STALE and change.operation == "create":
            raise RpcRefused("data-exists", str(refused)) from refused
        raise


async def _apply(asker: Asker, change: Change) -> None:
    cuc, stream_id = change.cuc, change.stream_id
    if cuc is None:
        await asker.call("domain.set", auto_compute=change.value)
    elif change.operation in _DELETING and stream_id is None:
        await asker.call("cuc.delete", cuc=cuc)
    elif change.operation in _DELETING:
        await asker.call("stream.delete", cuc=cuc, stream_id=stream_id)
    else:
        await _put(asker, change.operation, cuc, change.value)


async def _put(asker: Asker, operation: str, cuc: str, its: dict[str, Any]) -> None:
    stream_id, if_match = its["stream-id"], None
    if operation == "merge":
        try:
            there = await asker.call("stream.get", cuc=cuc, stream_id=stream_id)
        except CallRefused as refused:
            if refused.code is not Code.ABSENT:
                raise
        else:
            its = merged({**there["body"], "stream-id": stream_id}, its)
            if_match = there["etag"]  # else what came between would be lost
    await asker.call(
        "stream.put",
        cuc=cuc,
        stream_id=stream_id,
        body=schema.stream(its, cuc),
        if_match=if_match,
        if_none_match="*" if operation == "create" else None,
    )


def _changes(edit: Mapping[str, Any], default_operation: str) -> Iterator[Change]:
    root = edit.get(_ROOT, {})
    operation = _within(root, default_operation, "cnc-config")
    for domain in root.get("domain", ()):
        yield from _of_domain(domain, _within(domain, operation, "a domain"))


def _of_domain(domain: Mapping[str, Any], operation: str) -> Iterator[Change]:
    name = domain["domain-id"]
    if not domain.get("cnc-enabled", True):
        raise _refused("cnc-enabled false", "stop the service of this domain instead")
    known = {"@", "domain-id", "cnc-enabled", _AUTO, f"@{_AUTO}", "cuc"}
    if others := domain.keys() - known:
        raise _refused(sorted(others)[0], "an edit writes auto-compute, CUCs and streams")
    if _AUTO in domain:
        its = _operation_of(domain.get(f"@{_AUTO}", {}), operation)
        if its != "none":
            wanted = _AUTO_DEFAULT if its in _DELETING else domain[_AUTO]
            yield Change("merge", name, value=wanted)
    for cuc in domain.get("cuc", ()):
        yield from _of_cuc(name, cuc, operation)


def _of_cuc(domain: str, cuc: Mapping[str, Any], inherited: str) -> Iterator[Change]:
    name, streams = cuc["cuc-id"], cuc.get("stream", ())
    operation = _operation_of(cuc.get("@", {}), inherited)
    if operation in _DELETING:
        yield Change(operation, domain, name)
        return
    _within(cuc, inherited, "a CUC")
    if not streams and operation != "none":
        raise _refused(f"the CUC {name} alone", "a CUC is there as long as it has streams")
    for stream in streams:
        its = _operation_of(stream.get("@", {}), operation)
        body = {key: value for key, value in stream.items() if key != "@"}
        if _has_metadata(body):
            raise _refused("an operation within a stream", "write the stream as a whole, or merge")
        if its != "none":
            yield Change(its, domain, name, body["stream-id"], body)
        elif len(body) > 1:
            raise _refused("a stream with the operation none", "give it one of its own")


def _within(node: Mapping[str, Any], inherited: str, what: str) -> str:
    """The operation for what is in a node that an edit only descends through."""
    operation = _operation_of(node.get("@", {}), inherited)
    if operation not in _DESCENDING:
        raise _refused(f"{operation} of {what}", "write CUCs and streams one by one")
    return operation


def _operation_of(metadata: Mapping[str, Any], inherited: str) -> str:
    return str(metadata.get(_OPERATION, inherited))


def _has_metadata(value: Any) -> bool:
    if isinstance(value, dict):
        return any(key.startswith("@") or _has_metadata(each) for key, each in value.items())
    return isinstance(value, list) and any(map(_has_metadata, value))


def _refused(what: str, hint: str) -> RpcRefused:
    return RpcRefused("operation-not-supported", f"{what}: not supported; {hint}")
