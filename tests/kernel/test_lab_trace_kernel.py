"""What events of the kernel tell apart of the time of each frame of a lab."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cnc.errors import InputError
from cnc.model import Plan, PortRef
from cnc.planner import plan as compute
from cnc.testbed.lab import Lab
from cnc.testbed.traffic.flows import flows
from cnc.testbed.traffic.trace.account import Layer
from cnc.testbed.traffic.trace.record import record
from cnc.testbed.traffic.trace.tracefs import ROOTS
from tests.kernel.gate_waits import CLOCK_NS, check_events
from tests.kernel.injections import INJECTED_NS, late_arrivals, late_queue
from tests.kernel.test_lab_trace import medians

SCHEDULES = Path(__file__).parents[2] / "schedules"
MS = 1_000_000

pytestmark = pytest.mark.virtual_time


def instances() -> Path:
    return next(root / "instances" for root in ROOTS if (root / "instances").is_dir())


def test_what_a_switch_does_before_its_queue_is_processing_and_not_queue(
    unscheduled: Lab, tmp_path: Path
) -> None:
    plan = replace(compute(unscheduled.intent), gates={})
    motion = [flow for flow in flows(plan) if flow.name == "motion"]

    def medians_in(name: str) -> dict[tuple[str, Layer], float]:
        traced = record(unscheduled, plan, motion, 10 * MS, tmp_path / name, kernel=True)
        return medians(list(traced.accounts()))

    injections = [
        (("s2/s3", Layer.PROCESSING), late_arrivals, PortRef("s2", "s1")),
        (("s2/s3", Layer.QDISC), late_queue, PortRef("s2", "s3")),
    ]
    with unscheduled.quiet():
        without = medians_in("without")
        for number, (where, inject, port) in enumerate(injections):
            with inject(unscheduled, port):
                found = medians_in(str(number))
            more = {each: found[each] - without[each] for each in found}
            print(where, {each: ns for each, ns in more.items() if ns})
            assert more.pop(where) == pytest.approx(INJECTED_NS, abs=CLOCK_NS), where
            assert max(abs(ns) for ns in more.values()) <= CLOCK_NS, (where, more)


def test_parts_that_events_tell_apart_add_up_to_those_of_the_taps(
    scheduled: tuple[Lab, Plan], tmp_path: Path
) -> None:
    running, plan = scheduled
    with running.quiet():
        plain = record(running, plan, flows(plan), 100 * MS, tmp_path / "plain")
        traced = record(running, plan, flows(plan), 100 * MS, tmp_path / "kernel", kernel=True)
    assert list(instances().iterdir()) == []
    moved = [
        abs((a.received_ns or 0) - plain.start_ns - (b.received_ns or 0) + traced.start_ns)
        for a, b in zip(plain.recording, traced.recording, strict=True)
    ]
    print(
        f"{len(moved)} rows: events move {sum(map(bool, moved))}, the furthest by {max(moved)} ns"
    )
    check_events(traced)


def test_an_instance_is_gone_after_an_error_and_a_second_trace_is_refused(
    scheduled: tuple[Lab, Plan], tmp_path: Path
) -> None:
    running, plan = scheduled
    left = instances() / "tsn-line3"
    left.mkdir()
    with pytest.raises(InputError, match="another trace is running, or was killed"):
        record(running, plan, flows(plan), 10 * MS, tmp_path, kernel=True)
    left.rmdir()
    with pytest.raises(InputError, match="none within"):
        record(running, plan, flows(plan), 10, tmp_path, kernel=True)
    assert list(instances().iterdir()) == []
