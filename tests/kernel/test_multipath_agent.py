"""The paths of an end station between a real sysrepo, a real agent and a real kernel."""

from __future__ import annotations

import pytest

from tests.kernel.agent_notifications import subscribed
from tests.kernel.conftest import inside
from tests.kernel.test_agent import start  # noqa: F401
from tests.kernel.two_uplinks import (
    STATION,
    UPLINKS,
    ip,
    sent_octets,
    transfer,
    tree,
    two_uplinks,
    until,
)

MULTIPATH = "/tsn-multipath:multipath"


@pytest.fixture
def ports():
    """The agent that `start` starts is one of the station."""
    with two_uplinks(), inside(STATION):
        yield UPLINKS


def configured(mode):
    interfaces = [{"name": each, "type": "iana-if-type:ethernetCsmacd"} for each in UPLINKS]
    return {
        "ietf-interfaces:interfaces": {"interface": interfaces},
        **tree("w2", default_mode=mode),
    }


def with_application(mode):
    """Of all connections, in this mode."""
    whole = configured("hassle-free")
    connections = {"application": [{"name": "all", "mode": mode}]}
    whole["tsn-multipath:multipath"]["connections"] = connections
    return whole


def reported(client):
    return client.read(MULTIPATH)["tsn-multipath:multipath"]


def flags(client):
    return {
        each["interface"]: each["endpoint"][0]["flags"]
        for each in reported(client)["path-state"]
        if "endpoint" in each
    }


def counted(client):
    counters = reported(client)["kernel"]["counter"]
    return {each["name"]: int(each["value"]) for each in counters}


def test_modes_change_in_the_datastore_while_a_transfer_runs(start, client):  # noqa: F811
    start()
    with transfer() as running:
        # The kernel passes over a connection of which the first data are still on their way.
        assert until(lambda: running.octets > 1_000_000)
        client.merge(configured("reliability"))
        # Nor does it change the flags of a subflow whose handshake is under way.
        assert until(lambda: counted(client)["MPJoinSynAckRx"] == 1)
        assert running.subflows == 2
        assert flags(client) == {"w1": "fullmesh subflow", "w2": "backup fullmesh subflow"}
        before = sent_octets("w2")
        client.merge(configured("hassle-free"))
        assert until(lambda: sent_octets("w2") - before > 1_000_000)
        assert flags(client)["w2"] == "fullmesh subflow"
        client.merge(configured("single-path"))
        assert until(lambda: running.subflows == 1)
        octets = running.octets
        assert until(lambda: running.octets - octets > 1_000_000)
    assert counted(client)["MPJoinSynTx"] == 1


def test_a_mode_that_the_kernel_cannot_do_is_refused_with_what_it_has(start, client):  # noqa: F811
    start()
    refusal = client.refusal(configured("low-latency"))
    assert "port w1: mode low-latency needs a scheduler" in refusal
    assert "this kernel has: default" in refusal
    assert ip("mptcp", "endpoint") == []


def test_a_killed_agent_leaves_a_transfer_alone_and_the_next_one_too(start, client):  # noqa: F811
    process = start()
    client.merge(configured("hassle-free"))
    with transfer() as running:
        assert until(lambda: running.subflows == 2)
        endpoints = ip("mptcp", "endpoint")
        process.kill()
        process.wait()
        start()
        assert (ip("mptcp", "endpoint"), running.subflows) == (endpoints, 2)
        octets = running.octets
        assert until(lambda: running.octets - octets > 1_000_000)
    assert [each["managed"] for each in reported(client)["path-state"]] == [True, True]
    client.delete(MULTIPATH)
    assert (ip("mptcp", "endpoint"), ip("mptcp", "limits")) == (
        [],
        ["add_addr_accepted 0 subflows 2"],
    )


def test_what_another_program_changes_is_reported_and_stays(start, client):  # noqa: F811
    start()
    client.merge(configured("hassle-free"))
    ip("mptcp", "endpoint", "delete", "id", "2")
    ip("mptcp", "endpoint", "add", "10.9.0.9", "id", "7", "signal")
    (second,) = (each for each in reported(client)["path-state"] if each["interface"] == "w2")
    assert second["managed"] is True
    assert "endpoint" not in second
    assert [line.split()[0] for line in ip("mptcp", "endpoint")] == ["10.1.0.2", "10.9.0.9"]


def test_a_connection_follows_its_application_in_the_datastore_within_a_second(start, client):  # noqa: F811
    start()
    client.merge(with_application("single-path"))
    with transfer() as running, subscribed("tsn-multipath") as notifications:
        assert until(lambda: "connection" in reported(client))
        assert running.subflows == 1
        client.merge(with_application("hassle-free"))
        assert until(lambda: running.subflows == 2, seconds=1.0)
        # The look after the one that opened the subflow.
        assert until(lambda: len(connection(client)["subflow"]) == 2, seconds=1.0)
        its = connection(client)
        assert (its["application"], its["mode"], its["managed"]) == ("all", "hassle-free", True)
        assert its["reason"] == "application all of the operator"
        reasons = {each["interface"]: each["reason"] for each in its["subflow"]}
        assert reasons == {"w1": "the connection began here", "w2": "mode hassle-free"}
        assert reported(client)["kernel"]["path-manager"] == "program"
        notifications.wait_for("mode-changed", mode="hassle-free", before="single-path")
        notifications.wait_for("subflow-opened", interface="w2", reason="mode hassle-free")
        client.delete(f"{MULTIPATH}/connections")
        assert reported(client)["kernel"]["path-manager"] == "kernel"
        assert "connection" not in reported(client)
        assert running.subflows == 2


def connection(client):
    (found,) = (each for each in reported(client)["connection"] if each["local"] == "10.1.0.2")
    return found
