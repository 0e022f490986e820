"""The agent on a real sysrepo: PTP instances reach the ports that they name."""

from __future__ import annotations

import pytest
import sysrepo

from agent.datastore.subscriptions import Datastore
from agent.ptp_daemons.model import ClockState
from tests.stack.recording_kernel import RecordingKernel, port
from tests.stack.sysrepo_client import NOW_NS

ETHERNET = "iana-if-type:ethernetCsmacd"
PTP = "ieee1588-ptp-tt:ptp"

pytestmark = pytest.mark.usefixtures("agent")


@pytest.fixture
def kernel():
    return RecordingKernel(port("p1", 2), port("p2", 3), now_ns=NOW_NS)


@pytest.fixture
def agent(kernel, client):
    serving = Datastore(kernel)
    yield serving
    serving.close()


def configuration(instance=None, **default_ds):
    ports = [{"name": name, "type": ETHERNET} for name in ("p1", "p2")]
    rows = [
        {"port-index": number, "underlying-interface": name}
        for number, name in enumerate(("p1", "p2"), start=1)
    ]
    node = {
        "instance-index": 0,
        "default-ds": {name.replace("_", "-"): value for name, value in default_ds.items()},
        "ports": {"port": rows},
        **(instance or {}),
    }
    return {
        "ietf-interfaces:interfaces": {"interface": ports},
        PTP: {"instances": {"instance": [node]}},
    }


def instances_of(kernel, name):
    return [each.configured.instance for each in kernel.states[name][ClockState].memberships]


def test_an_instance_reaches_its_ports_and_is_shown_by_the_operational_datastore(kernel, client):
    servo = {"tsn-linux:ptp4l": {"servo": {"proportional-constant": "0.7"}}}
    client.merge(configuration(servo, domain_number=3, priority1=1))

    (instance,) = instances_of(kernel, "p1")
    assert instances_of(kernel, "p2") == [instance]
    assert (instance.domain, instance.priority1) == (3, 1)
    assert instance.servo.proportional_constant == "0.7"
    (shown,) = client.read(f"/{PTP}")[PTP]["instances"]["instance"]
    assert shown["tsn-linux:ptp4l"]["time-stamping"] == "software"
    assert [each["underlying-interface"] for each in shown["ports"]["port"]] == ["p1", "p2"]


def test_a_leaf_that_changes_changes_the_instance_and_no_other_leaf(kernel, client):
    client.merge(configuration(priority1=1, domain_number=3))
    client.merge(configuration(priority2=2))

    (instance,) = instances_of(kernel, "p1")
    assert (instance.priority1, instance.priority2, instance.domain) == (1, 2, 3)


def test_an_instance_that_is_deleted_leaves_its_ports(kernel, client):
    client.merge(configuration())
    client.delete(f"/{PTP}/instances")

    assert instances_of(kernel, "p1") == []
    with pytest.raises(sysrepo.SysrepoNotFoundError):
        client.read(f"/{PTP}")


REFUSED = [
    (
        {"ports": {"port": []}},
        "a PTP instance without ports does nothing",
    ),
    (
        {"ports": {"port": [{"port-index": 1}]}},
        "underlying-interface",
    ),
    (
        {
            "ports": {
                "port": [{"port-index": number, "underlying-interface": "p1"} for number in (1, 2)]
            }
        },
        "underlying-interface",
    ),
    (
        {"default-ds": {"sdo-id": 512}},
        "ptp4l speaks the profiles of IEEE Std 1588 (0) and of IEEE Std 802.1AS (256)",
    ),
    (
        {"default-ds": {"domain-number": 200}},
        "PTP instance 0: domain-number is 200; ptp4l takes 0 to 127",
    ),
    (
        {
            "ports": {
                "port": [
                    {
                        "port-index": 1,
                        "underlying-interface": "p1",
                        "port-ds": {"delay-mechanism": "common-p2p"},
                    }
                ]
            }
        },
        "ptp4l measures delays as e2e or p2p",
    ),
]


@pytest.mark.parametrize(("instance", "reason"), REFUSED, ids=[each[1] for each in REFUSED])
def test_what_ptp4l_cannot_do_is_refused_and_changes_nothing(kernel, client, instance, reason):
    assert reason in client.refusal(configuration(instance))
    assert instances_of(kernel, "p1") == []
