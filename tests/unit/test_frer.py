"""Tables of replication and elimination: what a port is asked, and why it is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.datastore.desired import desired_ports
from agent.mechanisms.frer.model import (
    Address,
    FrerConfig,
    FrerState,
    Generated,
    LatentErrorDetection,
    Recovered,
    Recovery,
)
from agent.mechanisms.frer.problems import problems
from agent.mechanisms.frer.rules import diff
from agent.model import AgentError, PortConfig
from tests.stack.frer_tables import frer, generation, numbers, recovery
from tests.stack.recording_kernel import port
from tests.stack.stream_identities import TO_STREAM, named, stream_identities

STREAM = Address(TO_STREAM, 10)
BRIDGED = replace(port("p1"), bridge="br0")


def identities():
    """Stream 7 is known at p1, p2 and p3."""
    entry = named()
    entry["out-facing"]["input-port"] = ["p1", "p2", "p3"]
    return stream_identities(entry)


def asked(tables, name="p1"):
    return desired_ports(identities() | tables, {})[name][FrerConfig]


def decoded(*handles, **leaves):
    return [numbers(each, *handles, out_facing=True, **leaves) for each in ("p2", "p3")]


def test_a_stream_is_numbered_where_it_comes_in_from_its_talker():
    config = asked(frer([generation(7, index=4)], [], [numbers("p1", 7)]))
    assert config == FrerConfig(frozenset({Generated(7, STREAM, entry=4)}))


def test_ports_of_one_entry_feed_one_function():
    tables = frer([], [recovery(7, index=3)], decoded(7))
    vector = Recovery(3, "vector", history_length=2, reset_timeout_ms=500)
    for name in ("p2", "p3"):
        assert asked(tables, name) == FrerConfig(
            recovered=frozenset({Recovered(7, STREAM, vector)})
        )


def test_individual_functions_stand_beside_that_for_all_ports():
    entries = [
        recovery(7, index=1, algorithm={"match": {}}),
        recovery(7, index=2, ports=("p2",), **{"individual-recovery": True}),
    ]
    (stream,) = asked(frer([], entries, decoded(7)), "p2").recovered
    assert stream.combined == Recovery(1, "match", 0, 500)
    assert stream.individual == Recovery(2, "vector", 2, 500)


def test_a_stream_that_is_not_known_yet_is_left_out():
    """A commit that changes two modules is announced one after the other."""
    tables = frer([generation(7)], [], [numbers("p1", 7)])
    assert desired_ports(tables, {})["p1"][FrerConfig] == FrerConfig()


def watched(**parameters):
    """Leaves of a recovery entry that is watched for latent errors."""
    return {
        "latent-error-detection": True,
        "latent-error-detection-parameters": {"difference": 4, "paths": 2, **parameters},
    }


def test_copies_are_compared_as_the_standard_has_it_where_nothing_else_is_asked():
    tables = frer([], [recovery(7, index=3, **watched())], decoded(7))
    (stream,) = asked(tables, "p2").recovered
    assert stream.combined.latent_errors == LatentErrorDetection(
        difference=4, period_ms=2_000, paths=2, reset_period_ms=30_000
    )


@pytest.mark.parametrize(
    ("leaves", "why"),
    [
        (
            {"latent-error-detection-parameters": {"difference": 4}},
            (
                "latent-error-detection-parameters have no effect without latent-error-detection; "
                "set it true, or remove them"
            ),
        ),
        (
            watched() | {"individual-recovery": True},
            (
                "latent-error-detection has no effect on individual recovery, which has copies of "
                "one path alone; set it at the entry without individual-recovery"
            ),
        ),
        (
            {
                "latent-error-detection": True,
                "latent-error-detection-parameters": {"paths": 2},
            },
            "latent-error-detection without latent-error-detection-parameters/difference",
        ),
        (
            {"latent-error-detection": True},
            "latent-error-detection without latent-error-detection-parameters/difference",
        ),
        (
            {
                "latent-error-detection": True,
                "latent-error-detection-parameters": {"difference": 4},
            },
            "latent-error-detection without latent-error-detection-parameters/paths",
        ),
        (watched(difference=-1), "a difference of -1 copies is below 0"),
        (
            watched(paths=1),
            "latent-error-detection compares the copies of 2 paths at least, not of 1",
        ),
        (watched(period=0), "a period of 0 ms; give one in milliseconds"),
        (
            watched(period=1000, **{"reset-period": 1000}),
            (
                "the counts of copies are reset each 1000 ms (reset-period), before they are "
                "compared, each 1000 ms (period); lengthen reset-period"
            ),
        ),
    ],
)
def test_latent_error_detection_that_would_find_nothing_is_refused(leaves, why):
    with pytest.raises(AgentError) as refused:
        desired_ports(identities() | frer([], [recovery(7, **leaves)], decoded(7)), {})
    assert f"port p2: sequence-recovery 1: {why}" in str(refused.value).splitlines()


@pytest.mark.parametrize(
    ("tables", "why"),
    [
        (
            frer([generation(7)]),
            (
                "port p1: sequence-generation 1: no in-facing sequence-identification of this port "
                "says how the numbers of stream 7 are written; add one with r-tag"
            ),
        ),
        (
            frer([], [], [numbers("p1", 7)]),
            (
                "port p1: sequence-identification: no sequence-generation gives frames of stream 7 "
                "the numbers that are written here; add one"
            ),
        ),
        (
            frer([generation(7, **{"direction-out-facing": True})], [], [numbers("p1", 7)]),
            (
                "port p1: sequence-generation 1: direction-out-facing is true, but frames get "
                "their "
                "numbers on their way from the talker to the relay; set it false"
            ),
        ),
        (
            frer([generation(7), generation(7, index=2)], [], [numbers("p1", 7)]),
            "port p1: sequence-generation 2: entry 1 has stream 7 already; remove one",
        ),
        (
            frer([generation(7)], [], [numbers("p1", 7, active=False)]),
            (
                "port p1: sequence-identification of p1: active is not true: the port would "
                "neither "
                "add R-TAGs nor take them off"
            ),
        ),
        (
            frer([generation(7)], [], [numbers("p1", 7, encapsulation={})]),
            (
                "port p1: sequence-identification of p1: encapsulation has no r-tag, which is the "
                "only one there is here"
            ),
        ),
        (
            frer([], [recovery(7, ports=["p2"])], [numbers("p3", 7, out_facing=True)]),
            (
                "port p3: sequence-identification of p3: no sequence-recovery eliminates copies of "
                "stream 7 there; add one"
            ),
        ),
        (
            frer(
                [], [recovery(7, ports=["p2"], **{"direction-out-facing": False})], decoded(7)[:1]
            ),
            (
                "port p2: sequence-recovery 1: direction-out-facing is false, but copies are "
                "eliminated at ingress of the port; set it true"
            ),
        ),
        (
            frer([], [recovery(7, ports=["p2"], **{"reset-timeout": 0})], decoded(7)[:1]),
            (
                "port p2: sequence-recovery 1: no reset-timeout: all frames of a switch that has "
                "started again, and numbers from 0, would be discarded; give one in milliseconds"
            ),
        ),
        (
            frer(
                [],
                [recovery(7, ports=["p2"], algorithm={"match": {}}, **{"history-length": 8})],
                decoded(7)[:1],
            ),
            (
                "port p2: sequence-recovery 1: history-length has no effect on the algorithm "
                "match; "
                "remove it"
            ),
        ),
        (
            frer(
                [generation(7)],
                [recovery(7, ports=["p1"])],
                [numbers("p1", 7), numbers("p1", 7, out_facing=True)],
            ),
            (
                "port p1: sequence-identification: stream 7 gets its R-TAG here and loses it here; "
                "name it in-facing at the port of its talker, out-facing where copies come in"
            ),
        ),
    ],
)
def test_tables_that_would_have_no_effect_are_refused(tables, why):
    with pytest.raises(AgentError) as refused:
        desired_ports(identities() | tables, {})
    assert why in str(refused.value).splitlines()


GENERATED = Generated(7, STREAM, entry=1)
NUMBERED = PortConfig("p1", (FrerConfig(frozenset({GENERATED})),))


@pytest.mark.parametrize(
    ("state", "why"),
    [
        (
            replace(BRIDGED, bridge=None),
            (
                "it is no port of a bridge, and streams are replicated and eliminated where a "
                "bridge "
                "forwards them; add it to one (ip link set ... master)"
            ),
        ),
        (
            replace(BRIDGED, switch_id="0001"),
            (
                "hardware forwards its frames, which do not pass the processor: they cannot be "
                "replicated and eliminated (802.1CB) there; leave it out of /frer"
            ),
        ),
        (
            BRIDGED.with_part(FrerState(foreign="firewall (number 12)")),
            (
                "it has the XDP program firewall (number 12), which is not the agent's, and a port "
                "has one; remove it with its own tool, or by: ip link set dev p1 xdp off"
            ),
        ),
    ],
)
def test_a_port_that_cannot_says_why(state, why):
    assert list(problems(NUMBERED, state)) == [why]
    assert list(problems(PortConfig("p1"), state)) == []


def test_two_streams_of_one_address_are_refused():
    config = FrerConfig(frozenset({GENERATED, replace(GENERATED, handle=8)}))
    assert list(problems(PortConfig("p1", (config,)), BRIDGED)) == [
        f"stream 8: frames to {TO_STREAM} in VLAN 10 are of stream 7; remove one"
    ]


def test_a_difference_names_streams_and_what_is_done_with_them():
    present = BRIDGED.with_part(FrerState(generated=frozenset({GENERATED})))
    vector = Recovery(1, "vector", 16, 500, take_no_sequence=True)
    wanted = FrerConfig(recovered=frozenset({Recovered(9, STREAM, vector)}))
    (change,) = diff(PortConfig("p1", (wanted,)), present)
    assert change.description == (
        "port p1: frame replication and elimination: 0 streams numbered, 1 recovered"
    )
    assert change.difference == (
        f"stream 9 is not recovered ({TO_STREAM} in VLAN 10) by sequence-recovery 1 (vector, "
        "history-length 16, reset-timeout 500 ms, take-no-sequence), stream 7 is numbered "
        f"({TO_STREAM} in VLAN 10) by sequence-generation 1, which is not configured"
    )
