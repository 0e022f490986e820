"""What <get> and <get-config> read: the tree of the UNI as who asks may see it.

The server selects by the client's filter. Here the paths that it names ahead of that (`instances`)
spare reading the CUCs and streams that it will not show.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cnc.service.netconf import modules
from cnc.service.netconf.asker import Asker
from cnc.service.refused import CallRefused, Code
from cnc.service.uni import shown
from cnc.service.uni.shown import MODULE

_ROOT, _LIBRARY = f"{MODULE}:cnc-config", "ietf-yang-library:modules-state"
# Steps of a path, each a name and the keys with their values.
Instances = Sequence[Sequence[tuple[str, Sequence[tuple[str, str]]]]]


async def read(asker: Asker, instances: Instances | None, *, config_only: bool) -> dict[str, Any]:
    """RFC 7951 JSON, at least of what these paths lead to; None: of everything. Raises
    CallRefused."""
    tops = {path[0][0] for path in instances} if instances is not None else {_LIBRARY, _ROOT}
    found = modules.library() if _LIBRARY in tops and not config_only else {}
    if _ROOT not in tops:
        return found
    its = await asker.call("domain.get")
    wanted = _keys(instances, "cuc", "cuc-id")
    cucs = [cuc for cuc in its["cucs"] if wanted is None or cuc in wanted]
    ids = _keys(instances, "stream", "stream-id")
    if ids is None:
        read_cucs = [await asker.call("cuc.get", cuc=cuc) for cuc in cucs]
    else:
        read_cucs = [await _with_streams(asker, cuc, ids) for cuc in cucs]
    domain = shown.domain(its, read_cucs, config_only=config_only)
    return {**found, _ROOT: {"domain": [domain]}}


async def _with_streams(asker: Asker, cuc: str, ids: Sequence[str]) -> Mapping[str, Any]:
    """A CUC with those of its streams that are there."""
    streams = []
    for stream_id in ids:
        try:
            streams.append(await asker.call("stream.get", cuc=cuc, stream_id=stream_id))
        except CallRefused as refused:
            if refused.code not in {Code.ABSENT, Code.INVALID}:
                raise
    return {"cuc": cuc, "streams": streams}


def _keys(instances: Instances | None, name: str, key: str) -> list[str] | None:
    """The keys of all entries of a list that the paths lead to; None where one of them leads to
    more than entries that it names."""
    if instances is None:
        return None
    keys = []
    for path in instances:
        steps = {step.rpartition(":")[2]: dict(its) for step, its in path}
        if key not in steps.get(name, {}):
            return None
        keys.append(steps[name][key])
    return list(dict.fromkeys(keys))
