"""A service with thousands of streams in its store, and how long it takes to start."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cnc import intent as intents
from cnc.model import Plan
from cnc.planner import plan
from cnc.planner.live import with_room
from cnc.service.admission import recovery_step_ns
from cnc.service.calls import Role
from cnc.service.names import plan_name
from cnc.service.store import FILE_NAME, Asker, State, Store, StreamRecord
from cnc.switch import ConnectOptions
from tests.scale.mesh import document_of, keys_of, mesh
from tests.scale.stopwatch import cpu_s
from tests.served.process import served

_CUC_STREAMS = 1000  # the quota
_ASKER = Asker("bench", Role.ADMIN, None, "")


@dataclass(frozen=True)
class Start:
    """Of `cnc serve` with so many streams of CUCs in its store: seconds until its first answer over
    TLS, and how many of CPU time it took until then. `bounded` streams have a bound of recovery."""

    streams: int
    bounded: int
    took_s: float
    cpu_s: float


def start(count: int, switches: int, recovery: str, directory: Path) -> Start:
    """Of a mesh with so many streams, whose intent states this `recovery`, in an empty
    directory."""
    wanted = mesh(count, switches)
    document = document_of(wanted, recovery)
    file = directory / "mesh.json"
    file.write_text(json.dumps(document))
    streams = {
        plan_name(_cuc(number), name): keys_of(its)
        for number, (name, its) in enumerate(wanted.streams.items())
    }
    asked = intents.from_document({**document, "streams": streams}, str(file))
    planned = plan(asked, best_effort=True)
    state = directory / "cnc"
    state.mkdir(mode=0o700)
    cucs = {name: _cuc(number) for number, name in enumerate(streams)}
    keep(state, planned, intents.load(file).document, cucs)
    connect = ConnectOptions(directory / "no-key", directory / "no-hosts")
    begun_s = time.monotonic()
    with served(file, state, connect) as service:
        took_s = time.monotonic() - begun_s
        bounded = len(planned.recovery_ns)
        return Start(len(planned.streams), bounded, took_s, cpu_s([service.pid]))


def keep(state: Path, planned: Plan, document: Mapping[str, Any], cucs: Mapping[str, str]) -> None:
    """As a service leaves its directory that has placed all of them, and whose switches run them.
    `document` is the intent file, `cucs` has whose each of the other streams is."""
    placed = with_room(planned, recovery_step_ns(planned))
    store = Store(state / FILE_NAME)
    try:
        with store.deciding(_ASKER, "bench", "", "placed") as made:
            made.replace_plan(placed)
            for key in ("file", "disk"):
                made.note(key, json.dumps(document))
            made.note("network", placed.intent.name)
            made.note("running", str(made.number))
            for name, cuc in cucs.items():
                body = {"intent": placed.intent.document["streams"][name]}
                its = StreamRecord(cuc, name, name, body, State.CONFIGURED, True, made.number)
                made.put_stream(its)
    finally:
        store.close()


def _cuc(number: int) -> str:
    return f"cuc-{number // _CUC_STREAMS}"
