"""A network many times slower: every time and rate of its document, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from cnc import intent as intents
from cnc.errors import InputError
from cnc.intent.source import dump, parse
from cnc.keys import shape
from cnc.keys.mapping import Shape, fields_of
from cnc.planner import plan
from cnc.testbed.lab.slower import RATES, TIMES, slower
from cnc.testbed.lab.supported import GATES_LEAST_BPS, check_rates

LINE3 = Path(__file__).parents[2] / "schedules" / "line3.yaml"
# What a port's gates can do is the kernel's, and clocks differ as they do, however slow the network
# is.
NOT_SCALED = {"gate-interval-max", "gate-cycle-max", "gate-tick", "lead", "offset", "at", "by"}
# So are programs, for whose media and downloads an end station manages its paths.
NOT_SCALED |= {"threshold", "removal-threshold", "media-duration", "long-running", "retry-after"}
OF_PROGRAMS_BPS = {"media-rate"}


def test_a_slower_network_has_longer_windows_in_the_same_order():
    line3 = intents.load(LINE3)
    document = {**line3.document, "defaults": {**line3.document["defaults"], "gate-margin": "1us"}}
    line3 = intents.from_document(document, "with room for late gates")
    before, after = plan(line3), plan(slower(line3, 10))
    assert [*before.streams] == [*after.streams]
    for name, stream in before.streams.items():
        assert is_ten_times(after.streams[name].latency_bound_ns, stream.latency_bound_ns)
        for hop, later in zip(stream.hops, after.streams[name].hops, strict=True):
            assert is_ten_times(later.offset_ns, hop.offset_ns)
    for port, gates in before.gates.items():
        assert after.gates[port].cycle_ns == 10 * gates.cycle_ns


def is_ten_times(slower_ns: int, time_ns: int) -> bool:
    """But for what was rounded up to whole nanoseconds, of each frame on the way."""
    return 0 <= 10 * time_ns - slower_ns < 200


def test_no_rate_falls_below_what_the_gates_of_a_lab_can_reckon_with():
    line3 = intents.load(LINE3)
    made = slower(line3, 500)
    assert {link.rate_bps for link in made.network.links.values()} == {GATES_LEAST_BPS}
    check_rates(made)
    for name, stream in plan(made).streams.items():
        allowed_ns = made.streams[name].max_latency_ns
        assert 100 * line3.streams[name].max_latency_ns < allowed_ns
        assert stream.latency_bound_ns <= allowed_ns


def test_a_rate_that_is_below_that_already_stays():
    document = {**intents.load(LINE3).document, "streams": {}}
    document["defaults"] = {**document["defaults"], "rate": "10Mbps"}
    made = slower(intents.from_document(document, "slow.yaml"), 10)
    assert {link.rate_bps for link in made.network.links.values()} == {10_000_000}


def test_the_text_of_a_slower_intent_is_that_intent():
    made = slower(intents.load(LINE3), 500)
    problems = parse(dump(made.document).encode(), "slow.yaml")
    assert intents.from_document(problems.document, "slow.yaml") == made


def test_names_that_read_like_keys_or_times_stay():
    document = {
        **intents.load(LINE3).document,
        "end-stations": {"rate": {"ports": ["5s"]}, "s": {"ports": ["min"]}},
        "switches": {"max": {"management": "1s", "ports": ["5s", "min"]}},
        "links": [["rate/5s", "max/5s"], ["s/min", "max/min"]],
        "streams": {},
    }
    made = slower(intents.from_document(document, "names.yaml"), 10)
    assert made.document["switches"] == document["switches"]
    assert made.document["links"] == document["links"]
    assert made.document["end-stations"] == document["end-stations"]


def test_what_an_intent_cannot_hold_is_refused():
    with pytest.raises(InputError, match="period"):
        slower(intents.load(LINE3), 10_000)


def shapes_in(annotation):
    """All mappings that a value of this type may hold."""
    found = set()
    if isinstance(annotation, type) and issubclass(annotation, Shape):
        found = {annotation}.union(*(shapes_in(its.annotation) for its in fields_of(annotation)))
    return found.union(*map(shapes_in, get_args(annotation)))


def test_every_time_and_rate_of_an_intent_is_scaled_or_named_here():
    named = {"_ns": TIMES | NOT_SCALED, "_bps": RATES | OF_PROGRAMS_BPS}
    for model in shapes_in(shape.Document):
        for field, info in model.model_fields.items():
            for suffix, keys in named.items():
                assert not field.endswith(suffix) or info.alias in keys, (model, field)


def test_a_slower_network_has_a_gate_margin_since_its_clock_is_late():
    line3 = intents.load(LINE3)
    assert line3.network.gate_margin_ns == 0
    assert slower(line3, 500).network.gate_margin_ns == 500_000


def test_what_recovers_from_nothing_does_so_when_slower():
    line3 = intents.load(LINE3)
    document = {**line3.document, "defaults": {**line3.document["defaults"], "recovery": "none"}}
    assert slower(intents.from_document(document, "x"), 2).network.disturbance_ns is None


def test_windows_that_are_given_are_longer_in_a_slower_network():
    shares = intents.load(LINE3.with_name("shares3.yaml"))
    before, after = plan(shares), plan(slower(shares, 10))
    for port, gates in before.gates.items():
        longer = [replace(its, interval_ns=10 * its.interval_ns) for its in gates.entries]
        assert [*after.gates[port].entries] == longer
