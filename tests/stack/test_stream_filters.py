"""Stream filters of a bridge through sysrepo: what reaches it, what is refused and reported."""

from __future__ import annotations

from dataclasses import replace

import pytest
import sysrepo

from agent.datastore.subscriptions import Datastore
from agent.mechanisms.stream_filters.model import (
    FilterCounters,
    Frames,
    Gate,
    StreamFilterState,
)
from tests.stack.filtering_entries import PORTS, interfaces, switch
from tests.stack.stream_filters import a_filter, a_gate, a_meter, an_entry, psfp, with_list
from tests.stack.stream_identities import TO_STREAM, named, stream_identities

BRIDGES = "/ieee802-dot1q-bridge:bridges"
FILTERS = "ieee802-dot1q-psfp-bridge:stream-filters"

pytestmark = pytest.mark.usefixtures("agent")


@pytest.fixture
def kernel():
    return switch()


def whole(tree):
    return interfaces(*PORTS) | stream_identities(named()) | tree


def in_force(kernel):
    return kernel.states["br0"][StreamFilterState].table.ports


def refusal(client, tree):
    with pytest.raises(sysrepo.SysrepoError) as refused:
        client.merge(whole(tree))
    return str(refused.value)


def test_filters_and_the_names_of_their_streams_of_one_commit_reach_the_bridge(client, kernel):
    client.merge(whole(psfp([a_filter()], [with_list()])))
    assert in_force(kernel)["p1"].keys() == {Frames(TO_STREAM, 10)}
    (shown,) = client.read(BRIDGES)["ieee802-dot1q-bridge:bridges"]["bridge"]
    (component,) = shown["component"]
    (row,) = component[FILTERS]["stream-filter-instance-table"]
    assert row["stream-handle"] == 7
    assert row["matching-frames-count"] == "0"
    part = kernel.states["br0"][StreamFilterState]
    counted = replace(part, counters={1: FilterCounters(matching=5)})
    kernel.states["br0"] = kernel.states["br0"].with_part(counted)
    (shown,) = client.read(BRIDGES)["ieee802-dot1q-bridge:bridges"]["bridge"]
    (row,) = shown["component"][0][FILTERS]["stream-filter-instance-table"]
    assert row["matching-frames-count"] == "5"


def test_a_restarted_agent_finds_nothing_to_do(client, kernel, agent):
    client.merge(whole(psfp([a_filter()], [a_gate()])))
    agent.close()
    before = kernel.states["br0"]
    second = Datastore(kernel)
    assert kernel.states["br0"] == before
    assert in_force(kernel)["p1"][Frames(TO_STREAM, 10)].gate == Gate(1)
    second.close()


@pytest.mark.parametrize(
    ("tree", "why"),
    [
        (psfp([a_filter(handle=8)], [a_gate()]), "no entry of stream-identity has this handle"),
        (
            psfp([a_filter()], [a_gate(), a_gate(2)]),
            "stream gate 2 has no effect: no stream filter refers to it",
        ),
        (
            psfp(
                [a_filter()],
                [
                    with_list(
                        1,
                        an_entry(
                            0,
                            "open",
                            1,
                            **{"operation-name": "ieee802-dot1q-sched:set-gate-states"},
                        ),
                    )
                ],
            ),
            "not an operation of a stream gate",
        ),
        *(
            (psfp([a_filter(**{"flow-meter-ref": 1})], [a_gate()], [a_meter(**leaf)]), why)
            for leaf, why in (
                ({"excess-information-rate": "1"}, "one rate: excess-information-rate is 0"),
                ({"excess-burst-size": 1}, "one rate: excess-burst-size is 0"),
                ({"coupling-flag": "one"}, "one rate: coupling-flag is zero"),
                ({"color-mode": "color-aware"}, "frames have no colour"),
                ({"drop-on-yellow": True}, "no frame is yellow: drop-on-yellow is false"),
            )
        ),
    ],
)
def test_what_no_stream_filter_can_do_is_refused_by_the_datastore(client, kernel, tree, why):
    assert why in refusal(client, tree)
    assert not in_force(kernel)
