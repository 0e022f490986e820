"""A service with thousands of streams in its store, and how long it takes to start."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from cnc import intent as intents
from cnc.model import Plan
from cnc.planner import plan
from cnc.planner.live import with_room
from cnc.service.admission import Admission, recovery_step_ns
from cnc.service.calls import Role
from cnc.service.names import plan_name
from cnc.service.store import FILE_NAME, Asker, State, Store, StreamRecord
from cnc.switch import ConnectOptions
from tests.scale.mesh import document_of, keys_of, mesh
from tests.scale.stopwatch import cpu_s, own_cpu_s
from tests.served.process import served

_Result = TypeVar("_Result")
_CUC_STREAMS = 1000  # the quota
_ASKER = Asker("bench", Role.ADMIN, None, "")


@dataclass(frozen=True)
class Start:
    """Of `cnc serve` with so many streams of CUCs in its store: seconds until its first answer over
    TLS, and how many of CPU time it took until then. `bounded` streams have a bound of recovery.
    Others in CPU time: a standby that reads what was decided, and the first two changes, before
    which nothing has been prepared."""

    streams: int
    bounded: int
    took_s: float
    cpu_s: float
    read_cpu_s: float
    changes_cpu_s: tuple[float, float]


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
        until_then_s = cpu_s([service.pid])
    count, bounded = len(planned.streams), len(planned.recovery_ns)
    return Start(count, bounded, took_s, until_then_s, *_from_its_store(state))


def _from_its_store(state: Path) -> tuple[float, tuple[float, float]]:
    """CPU time of the plan of a store, and of a stream that is placed once more in it, twice."""
    store = Store(state / FILE_NAME)
    try:
        read_s, stored = _timed(store.plan)
    finally:
        store.close()
    assert stored  # it was just kept there
    admission = Admission(stored)
    name, keys = next(iter(stored.intent.document["streams"].items()))

    def change() -> None:
        with admission.changing({name: keys}, (), _ASKER.name):
            pass

    return read_s, (_timed(change)[0], _timed(change)[0])


def _timed(work: Callable[[], _Result]) -> tuple[float, _Result]:
    begun_s = own_cpu_s()
    found = work()
    return own_cpu_s() - begun_s, found


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
