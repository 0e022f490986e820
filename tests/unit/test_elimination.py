"""Second copies that the last switch takes out: what is planned for that, and what the judge sees.

t ── s1 ── s2 ── s3 ── l
      └─── s4 ───┘         and m at s2
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from cnc.check import judge
from cnc.check.forwarding import judge_forwarding
from cnc.errors import Unschedulable
from cnc.mechanisms.composition import bridge_forwardings
from cnc.mechanisms.frer.model import Generation, LatentErrorDetection, Recovery, SequenceFunctions
from cnc.model import BridgeForwarding, Elimination, Intent, Network, Plan, PortRef, Stream
from cnc.planner import plan
from cnc.plans.packets import longest_packets
from tests.simulator.adversary import Chance
from tests.simulator.outcome import misses
from tests.unit.asked import bridge_forwarding
from tests.unit.bridged_networks import RING5, bridged
from tests.unit.planner_networks import MS, RING, US, network, seeded, stream

TAG_NS = 6 * 8  # of the R-TAG at 1 Gb/s


def eliminated(name: str, talker: str, *listeners: str, **facts: object) -> Stream:
    """A stream with two paths whose second copies the last switch takes out."""
    return stream(
        name, talker, *listeners, **{"paths": 2, "elimination": Elimination.SWITCH, **facts}
    )


PLANNED = plan(bridged(RING, eliminated("once", "t", "l"), stream("twice", "t", "l", paths=2)))
ONCE, TWICE = (PLANNED.addresses[name] for name in ("once", "twice"))
TOLD = bridge_forwardings(PLANNED)


def told_with(switch: str, **sequencing: object) -> dict[str, BridgeForwarding]:
    """What the switches are told, with one of them told this of the streams `once` and `twice`."""
    addresses = {"once": ONCE, "twice": TWICE}
    its = {addresses[name]: function for name, function in sequencing.items() if function}
    return {**TOLD, switch: TOLD[switch].having(SequenceFunctions(its))}


def found(told: Mapping[str, BridgeForwarding]) -> list[str]:
    return [f"{each.code} {each.where}: {each.text}" for each in judge_forwarding(PLANNED, told)]


def recovery(switch: str, planned: Plan = PLANNED, name: str = "once") -> Recovery:
    function = bridge_forwarding(planned, switch)[SequenceFunctions].by_stream[
        planned.addresses[name]
    ]
    assert isinstance(function, Recovery)
    return function


# --- what switches are told ----------------------------------------------------------------------


def test_the_first_switch_numbers_frames_and_the_last_recovers_what_comes_by_both_paths() -> None:
    assert judge(PLANNED) == []
    assert TOLD["s1"][SequenceFunctions].by_stream == {ONCE: Generation("t")}
    assert recovery("s3").ports == ("s2", "s4")
    assert TOLD["s2"][SequenceFunctions].by_stream == TOLD["s4"][SequenceFunctions].by_stream == {}


def test_each_last_switch_recovers_for_the_listeners_behind_it() -> None:
    net = network(
        *("t-s1", "s1-s2", "s1-s3", "s2-s4", "s3-s4", "s2-s5", "s3-s5"),
        *("s4-l", "s4-k", "s5-m"),
    )
    planned = plan(bridged(net, eliminated("a", "t", "l", "k", "m")))
    assert judge(planned) == []
    assert recovery("s4", planned, "a").ports == recovery("s5", planned, "a").ports == ("s2", "s3")


def test_a_stream_is_refused_where_copies_go_on_behind_a_last_switch() -> None:
    wanted = bridged(RING5, eliminated("stop", "e4", "e2", "e3"))
    with pytest.raises(Unschedulable, match="stop: no two paths from e4 to e2, e3 that end at the"):
        plan(wanted)


def test_frames_are_six_octets_longer_between_switches_and_only_there() -> None:
    twice, once = (
        plan(bridged(RING, stream("a", "t", "l", paths=2, elimination=who)))
        for who in (Elimination.LISTENER, Elimination.SWITCH)
    )
    added = once.streams["a"].latency_bound_ns - twice.streams["a"].latency_bound_ns
    assert added == 2 * TAG_NS  # of s1 - s2 - s3, or s1 - s4 - s3
    packets = longest_packets(once)
    assert packets[PortRef("t", "s1")].octets == packets[PortRef("s3", "l")].octets == 100
    assert packets[PortRef("s1", "s4")].octets == packets[PortRef("s4", "s1")].octets == 106


def test_the_tag_follows_the_padding_of_a_short_payload() -> None:
    padded, longest = (
        plan(bridged(RING, eliminated("a", "t", "l", payload_octets=octets))) for octets in (40, 46)
    )
    assert padded.streams == longest.streams
    assert longest_packets(padded)[PortRef("s1", "s2")].octets == 52


# --- history and reset ---------------------------------------------------------------------------


def test_the_history_covers_the_copies_and_what_both_paths_lose_before_a_reset() -> None:
    # The copies come apart by less than a period of 1 ms, and a reset takes two more.
    its = recovery("s3")
    assert (its.ports, its.history_length, its.reset_timeout_ms) == (("s2", "s4"), 4, 3)


def test_the_last_switch_watches_that_copies_come_by_both_ways() -> None:
    # More than the history holds are missing, which takes some milliseconds, in the periods of the
    # standard.
    watched = recovery("s3").latent_errors
    assert watched == LatentErrorDetection(4, paths=2, period_ms=2_000, reset_period_ms=30_000)


def test_the_history_grows_with_frames_that_are_apart_and_ends_at_64() -> None:
    def history(**facts: object) -> int:
        planned = plan(bridged(RING, eliminated("once", "t", "l", **facts)))
        assert judge(planned) == []
        return recovery("s3", planned).history_length

    assert history(frames=3) == 3 * 4
    assert history(period_ns=100 * US, max_latency_ns=90 * US) == 11
    assert history(period_ns=100 * US, max_latency_ns=90 * US, frames=6) == 64


def far_apart() -> Network:
    """A ring of which one way takes 3 ms longer than the other."""
    links = {
        port: replace(link, propagation_ns=3 * MS) if port in {("s1", "s4"), ("s4", "s1")} else link
        for port, link in RING.links.items()
    }
    return replace(RING, links=links)


def test_copies_that_are_periods_apart_are_still_known() -> None:
    planned = plan(bridged(far_apart(), eliminated("once", "t", "l", max_latency_ns=5 * MS)))
    assert judge(planned) == []
    assert recovery("s3", planned).history_length == 4 + 6
    assert recovery("s3", planned).reset_timeout_ms == 6


# --- the judge -----------------------------------------------------------------------------------


def test_a_listener_gets_two_copies_where_no_switch_recovers() -> None:
    assert found(told_with("s3")) == [
        "sequence-tag once: comes to l with its sequence tag",
        "sequence-tag once: comes to l with its sequence tag",
        "sequence once: brings l 2 copies of each frame",
    ]


def test_frames_without_a_number_cannot_be_recovered() -> None:
    assert found(told_with("s1")) == [
        "sequence-tag once: enters by s3/s4 without a sequence tag, and is to be recovered",
        "sequence-tag once: enters by s3/s2 without a sequence tag, and is to be recovered",
    ]


def test_copies_by_a_port_that_is_not_recovered_are_noticed() -> None:
    one = replace(recovery("s3"), ports=("s2",))
    assert found(told_with("s3", once=one)) == [
        "sequence-tag once: comes to l with its sequence tag",
        "sequence once: brings l 2 copies of each frame",
    ]


def test_each_cut_is_walked() -> None:
    # s4 drops what it should bring: without a cut the other path delivers.
    its = replace(TOLD["s4"], entries={**TOLD["s4"].entries, ONCE: ()})
    texts = found({**TOLD, "s4": its})
    assert "sequence once: brings l 0 copies of each frame with s1/s2 - s2/s1 cut" in texts


def test_frames_are_numbered_once() -> None:
    again = told_with("s2", once=Generation("s1"))
    assert found(again)[0] == "sequence-tag once: is numbered again where it enters by s2/s1"


def test_a_stream_whose_listeners_take_copies_out_is_not_numbered() -> None:
    its = {"once": Generation("t"), "twice": Generation("t")}
    assert found(told_with("s1", **its)) == [
        "sequence twice: is numbered or recovered at s1, and its listeners eliminate duplicates"
    ]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"history_length": 3}, "sequence-history once: may have 4 numbers between two copies"),
        ({"history_length": 65}, "sequence-history once: may have 4 numbers between two copies"),
        ({"reset_timeout_ms": 4}, "sequence-reset once: may pause for 40"),
        (
            {"latent_errors": LatentErrorDetection(3, 2)},
            "latent-errors once: may have 4 copies in flight to s3, which takes more than 3 for an",
        ),
        (
            {"latent_errors": LatentErrorDetection(4, 3)},
            "latent-errors once: comes to s3 by 2 ways, which watches 3",
        ),
        (
            {"latent_errors": LatentErrorDetection(28_000, 2)},
            "latent-errors once: has 28000 frames between two resets of the counting at s3, which",
        ),
    ],
)
def test_the_judge_reckons_history_and_reset_itself(
    changes: dict[str, Any], problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = plan(bridged(far_apart(), eliminated("once", "t", "l", max_latency_ns=5 * MS)))
    told = bridge_forwardings(planned)
    (its,) = told["s3"][SequenceFunctions].by_stream.values()
    assert isinstance(its, Recovery)
    sequencing = {planned.addresses["once"]: replace(its, **changes)}
    told["s3"] = told["s3"].having(SequenceFunctions(sequencing))
    monkeypatch.setattr("cnc.check.whole.bridge_forwardings", lambda _plan: told)
    (violation,) = judge(planned)
    assert f"{violation.code} {violation.where}: {violation.text}".startswith(problem)


def test_the_judge_counts_the_tag_in_each_frame() -> None:
    """A plan for frames without a tag does not hold for those with one."""
    wanted = [stream(name, "t", "l", paths=2, frames=20, period_ns=MS) for name in ("a", "b")]
    short = plan(bridged(RING, *wanted))
    tagged = bridged(RING, *(replace(its, elimination=Elimination.SWITCH) for its in wanted))
    codes = {each.code for each in judge(replace(short, intent=tagged))}
    assert {"precedence", "gate-window"} <= codes


# --- the simulator -------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_frames_of_a_ring_come_once_and_in_time_whatever_is_lost(seed: int) -> None:
    streams = [
        *(eliminated(f"a{n}", "e1", f"e{n}", frames=n) for n in (2, 3, 4)),
        *(eliminated(f"b{n}", f"e{n}", "e1", payload_octets=300) for n in (3, 5)),
        *(stream(f"c{n}", "e5", f"e{n}", payload_octets=700) for n in (2, 3)),
    ]
    planned = plan(bridged(RING5, *streams))
    assert judge(planned) == []
    assert misses(planned, Chance(seed, loss=0.2), duration_ns=6 * MS) == []


def random_ring(seed: int) -> Intent:
    """Five to seven switches in a ring, some cables of which are slow or long, two stations at
    each; streams over both ways, some of several frames."""
    random = seeded(seed)
    size = random.randint(5, 7)
    around = [f"s{n}-s{n % size + 1}" for n in range(1, size + 1)]
    stations = [f"{kind}{n}" for kind in "ef" for n in range(1, size + 1)]
    net = network(*around, *(f"{name}-s{name[1]}" for name in stations))
    changes = [{}, {}, {}, {}, {"rate_bps": 10**8}, {"propagation_ns": random.randrange(2 * MS)}]
    links = {port: replace(link, **random.choice(changes)) for port, link in net.links.items()}
    net = replace(net, links=links, gate_margin_ns=random.choice((0, 2 * US)))
    streams = []
    for number in range(random.randint(2, 6)):
        talker = random.choice(stations)
        listener = random.choice([name for name in stations if name[1] != talker[1]])
        its = {
            "period_ns": random.choice((MS, 2 * MS)),
            "payload_octets": random.choice((30, 46, 200, 1200)),
            "max_latency_ns": random.choice((3 * MS, 8 * MS)),
            "frames": random.choice((1, 1, 2, 4)),
        }
        streams.append(eliminated(f"x{number}", talker, listener, **its))
    return bridged(net, *streams)


@pytest.mark.parametrize("seed", range(12))
def test_histories_and_resets_of_random_rings_do_for_the_vector_algorithm(seed: int) -> None:
    planned = plan(random_ring(seed), best_effort=True)
    assert planned.streams
    assert judge(planned) == []
    for run in range(2):
        assert misses(planned, Chance(2 * seed + run, loss=0.25), duration_ns=6 * MS) == []
