"""The agent on a real sysrepo: tables of replication and elimination reach the ports they name."""

from __future__ import annotations

from dataclasses import replace

import pytest
import sysrepo

from agent.datastore.subscriptions import Datastore
from agent.mechanisms.frer.model import (
    Address,
    Counts,
    FrerState,
    Generated,
    LatentErrorDetection,
    LatentErrors,
    Recovered,
    Recovery,
)
from tests.stack.filtering_entries import PORTS, interfaces, switch
from tests.stack.frer_tables import FRER, frer, generation, numbers, recovery
from tests.stack.stream_identities import STREAM_IDENTITY, named, stream_identities

FROM_TALKER, WITH_COPIES = "91-E0-F0-00-FE-01", "91-E0-F0-00-FE-02"
GENERATED = Generated(7, Address(FROM_TALKER, 10), entry=1)
RECOVERED = Recovered(8, Address(WITH_COPIES, 10), Recovery(1, "vector", 16, 500))

pytestmark = pytest.mark.usefixtures("agent")


@pytest.fixture
def kernel():
    return switch()


def identities():
    """Stream 7 comes in from its talker by p1, the copies of stream 8 by p2 and p3."""
    talker = named(1, 7, **{"destination-mac": FROM_TALKER})
    copies = named(2, 8, **{"destination-mac": WITH_COPIES})
    copies["out-facing"]["input-port"] = ["p2", "p3"]
    return stream_identities(talker, copies)


def tables(**of_recovery):
    leaves = {"history-length": 16, **of_recovery}
    return frer(
        [generation(7)],
        [recovery(8, **leaves)],
        [numbers("p1", 7), *(numbers(each, 8, out_facing=True) for each in ("p2", "p3"))],
    )


WHOLE = interfaces(*PORTS) | identities() | tables()


def functions(kernel, name):
    state = kernel.states[name][FrerState]
    return state.generated, state.recovered


def refusal(client, data):
    with pytest.raises(sysrepo.SysrepoError) as refused:
        client.merge(data)
    return str(refused.value)


def test_one_commit_with_the_identities_reaches_the_ports_that_the_tables_name(client, kernel):
    client.merge(WHOLE)
    assert functions(kernel, "p1") == ({GENERATED}, set())
    assert functions(kernel, "p2") == functions(kernel, "p3") == (set(), {RECOVERED})


def test_one_commit_takes_tables_and_identities_away(client, kernel):
    client.merge(WHOLE)
    client.delete(f"/{FRER}", f"/{STREAM_IDENTITY}")
    for name in PORTS:
        assert functions(kernel, name) == (set(), set())


def test_what_is_read_back_is_what_was_asked(client, kernel):
    client.merge(WHOLE)
    read = client.read(f"/{FRER}")[FRER]
    assert read["sequence-generation"] == [generation(7) | {"reset": False}]
    assert read["sequence-recovery"] == [
        recovery(8)
        | {
            "history-length": 16,
            "algorithm": {"vector": {"type-number": "vector", "oui-cid": "00-80-C2"}},
            "reset": False,
            "invalid-sequence-value": 65536,
            "take-no-sequence": False,
            "individual-recovery": False,
        }
    ]
    assert [each["port"] for each in read["sequence-identification"]] == ["p1", "p2", "p3"]


DETECTION = {
    "latent-error-detection": True,
    "latent-error-detection-parameters": {
        "difference": 16,
        "period": 1000,
        "paths": 2,
        "reset-period": 60_000,
    },
}


def test_latent_error_detection_is_read_back_with_what_it_has_found(client, kernel):
    client.merge(interfaces(*PORTS) | identities() | tables(**DETECTION))
    (stream,) = functions(kernel, "p2")[1]
    assert stream.combined.latent_errors == LatentErrorDetection(16, 1000, 2, 60_000)
    part = kernel.states["p2"][FrerState]
    found = LatentErrors(detected=True, difference=20, errors=3, resets=5)
    kernel.states["p2"] = kernel.states["p2"].with_part(replace(part, latent_errors={1: found}))
    (entry,) = client.read(f"/{FRER}")[FRER]["sequence-recovery"]
    assert DETECTION.items() <= entry.items()
    assert entry["tsn-linux:latent-errors"] == {"detected": True, "difference": "20", "errors": "3"}
    path = "/ietf-interfaces:interfaces/interface[name='p2']/statistics"
    (interface,) = client.read(path)["ietf-interfaces:interfaces"]["interface"]
    (row,) = interface["statistics"][FRER]["per-port-per-stream-counters"]
    assert row["rx-latent-error-resets"] == "5"


def test_a_function_that_the_kernel_has_lost_is_not_read_back(client, kernel):
    client.merge(WHOLE)
    kernel.states["p2"] = kernel.states["p2"].with_part(FrerState())
    (entry,) = client.read(f"/{FRER}")[FRER]["sequence-recovery"]
    assert entry["port"] == ["p3"]


def test_counters_are_those_of_the_standard(client, kernel):
    client.merge(WHOLE)
    counts = Counts(10, 9, 3, 2, 1, 4, 5, 6)
    part = kernel.states["p2"][FrerState]
    kernel.states["p2"] = kernel.states["p2"].with_part(
        replace(part, counts={RECOVERED.address: counts})
    )
    path = "/ietf-interfaces:interfaces/interface[name='p2']/statistics"
    (interface,) = client.read(path)["ietf-interfaces:interfaces"]["interface"]
    assert interface["statistics"][FRER] == {
        "per-port-counters": {
            "rx-passed-pkts": "10",
            "rx-discarded-pkts": "11",
            "encode-errored-pkts": "6",
        },
        "per-port-per-stream-counters": [
            {
                "direction-out-facing": True,
                "handle": 8,
                "rx-out-of-order-pkts": "3",
                "rx-rogue-pkts": "2",
                "rx-passed-pkts": "10",
                "rx-discarded-pkts": "9",
                "rx-lost-pkts": "1",
                "rx-tagless-pkts": "4",
                "rx-resets": "5",
                "encode-errored-pkts": "6",
            }
        ],
    }


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (
            frer([generation(7)], [], [numbers("p2", 7)]),
            "frames of the stream are not known at the port",
        ),
        (tables(**{"history-length": 65}), "the history of sequence numbers is 64 long at most"),
        (tables(**{"reset-timeout": 0}), "reset-timeout is 1 ms at least"),
        (
            frer([generation(7)], [], [numbers("p1", 7, active=False)]),
            "active is true",
        ),
        (
            frer([generation(7)], [], []),
            "port p1: sequence-generation 1: no in-facing sequence-identification",
        ),
    ],
)
def test_what_would_have_no_effect_is_refused(client, kernel, data, why):
    client.merge(interfaces(*PORTS) | identities())
    assert why in refusal(client, data)
    for name in PORTS:
        assert functions(kernel, name) == (set(), set())


def test_a_restarted_agent_finds_nothing_to_do(client, kernel, agent):
    client.merge(WHOLE)
    agent.close()
    done = list(kernel.log)
    Datastore(kernel).close()
    assert kernel.log == done
