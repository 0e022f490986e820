"""Whether `cnc lab trace` accounts in true time for frames in a lab whose clocks are off: by the
lists that the kernels run, the record of true offsets, and what end stations stamped."""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cnc.data_tree.tree import KernelSchedule
from cnc.model import NS_PER_S, GateControlList, GateEntry
from cnc.testbed.lab.kernels import offsets
from cnc.testbed.lab.vm.runner import VIRTUAL_EPOCH_NS
from cnc.testbed.traffic.trace.account import Layer
from tests.kernel.gate_waits import CLOCK_NS, ON_LINK_OCTETS, listed_ns

TAI_NS = 37 * NS_PER_S
MAC_HEADER_OCTETS = 14
GBPS = 1_000_000_000
STAMP_OFF_NS = 10  # of a stamp that is converted, against the passage of its port


@dataclass(frozen=True, slots=True)
class Traced:
    """What the command has printed and written. Rows and parts are those of its tables."""

    document: Mapping[str, Any]
    rows: list[dict[str, str]]
    parts: Mapping[tuple[str, str], list[dict[str, str]]]
    flows: Mapping[str, Mapping[str, Any]]
    frames: list[dict[str, str]]
    start_shown_ns: int

    @classmethod
    def of(cls, printed: str, directory: Path) -> Traced:
        about = json.loads((directory / "frames.json").read_text())
        parts = defaultdict(list)
        for each in _rows(directory / "parts.csv"):
            parts[each["flow"], each["seq"]].append(each)
        return cls(
            document=json.loads(printed),
            rows=_rows(directory / "trace.csv"),
            parts=parts,
            flows={flow["name"]: flow for flow in about["flows"]},
            frames=_rows(directory / "frames.csv"),
            start_shown_ns=about["start_ns"],
        )

    def true_ns(self, row: Mapping[str, str], column: str) -> int:
        """An instant of a row: true TAI."""
        return int(self.document["start_ns"]) + int(row[column])


def _rows(file: Path) -> list[dict[str, str]]:
    with file.open(newline="") as opened:
        return [*csv.DictReader(opened)]


def offsets_at(record: Path) -> Callable[[str, int], int]:
    """How far the clock of a node was ahead at an instant of true TAI."""
    series: dict[str, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for each in offsets.read(record):
        series[each.node][0].append(each.time_ns)
        series[each.node][1].append(each.offset_ns)

    def at(node: str, true_ns: int) -> int:
        return round(float(np.interp(true_ns - VIRTUAL_EPOCH_NS - TAI_NS, *series[node])))

    return at


def schedule_of(shown: str) -> KernelSchedule:
    """The list that `tc -j qdisc show` has of a port's kernel."""
    (taprio,) = (each["options"] for each in json.loads(shown) if each["kind"] == "taprio")
    entries = (
        GateEntry(int(entry["gatemask"], 16), entry["interval"]) for entry in taprio["schedule"]
    )
    gates = GateControlList(taprio["cycle_time"], tuple(entries))
    return KernelSchedule(base_time_ns=taprio["base_time"], gates=gates)


def check(traced: Traced, record: Path, schedules: Mapping[str, KernelSchedule]) -> None:
    """`schedules` are those of the ports that have one."""
    at = offsets_at(record)
    assert len(traced.rows) == len(traced.frames)
    for flow in traced.document["flows"]:
        assert (flow["lost"], flow["incomplete"], flow["repeated"]) == (0, 0, 0), flow["flow"]
    for row in traced.rows:
        its = [int(each["duration_ns"]) for each in traced.parts[row["flow"], row["seq"]]]
        assert min(its) >= 0, row
        assert sum(its) == int(row["total_ns"]), row
    found = [*waits(traced, at, schedules)]
    print(f"{len(found)} waits at gates, up to {max(map(abs, found))} ns from those of the lists")
    assert max(map(abs, found)) <= CLOCK_NS
    stamps = [*stamps_off(traced, at)]
    print(f"stamps of listeners are {min(stamps)} to {max(stamps)} ns from the passage")
    assert max(map(abs, stamps)) <= STAMP_OFF_NS


def waits(
    traced: Traced,
    at: Callable[[str, int], int],
    schedules: Mapping[str, KernelSchedule],
) -> Iterator[int]:
    """By how much each wait at a gate differs from what the list says by the clock of its switch,
    of a reading of the clock more or less."""
    for row in traced.rows:
        flow = traced.flows[row["flow"]]
        on_link = flow["payload_octets"] + MAC_HEADER_OCTETS + ON_LINK_OCTETS
        closed = {
            each["place"]: int(each["duration_ns"])
            for each in traced.parts[row["flow"], row["seq"]]
            if each["layer"] == Layer.GATE_CLOSED
        }
        hops = [number for number in range(1, 10) if row.get(f"port_{number}")]
        for number in hops:
            port, before = row[f"port_{number}"], f"reached_{number - 1}_ns"
            if port not in schedules:
                assert closed[port] == 0
                continue
            entered_ns = traced.true_ns(row, "scheduled_ns" if number == 1 else before)
            shown_ns = entered_ns + at(port.partition("/")[0], entered_ns)
            said_ns = (
                listed_ns(
                    schedules[port],
                    flow["traffic_class"],
                    on_link * 8 * NS_PER_S // GBPS,
                    shown_ns + later_ns,
                )
                for later_ns in (0, CLOCK_NS)
            )
            yield min((closed[port] - each for each in said_ns), key=abs)


def stamps_off(traced: Traced, at: Callable[[str, int], int]) -> Iterator[int]:
    """How far what a listener's kernel has stamped is from when its card had the frame."""
    arrived = {(each["flow"], each["seq"]): each["received_ns"] for each in traced.frames}
    for row in traced.rows:
        reached_ns = traced.true_ns(row, "received_ns")
        listener = traced.flows[row["flow"]]["listener"]
        stamp_ns = traced.start_shown_ns + int(arrived[row["flow"], row["seq"]])
        yield stamp_ns - at(listener, reached_ns) - reached_ns
