"""The way back when the agent is in its way: it refuses, it is dead, or the server dies first."""

from __future__ import annotations

import threading
from contextlib import closing, contextmanager, suppress

import pytest
from lxml import etree
from ncclient import NCClientError
from ncclient.operations import RPCError

from agent.datastore.subscriptions import Datastore
from agent.mechanisms.classification.model import DscpState
from cnc.model import Management
from cnc.switch import ConnectOptions
from cnc.switch.connection import DeviceError
from cnc.switch.device import Device, Managed
from tests.stack.netconf_client import PREFIXES
from tests.stack.netconfd_process import wait_until
from tests.stack.test_netconfd_confirmed_commit import snapshot, tag_of

UNPLUGGED = "port p1: no such interface; this switch has p2"
NAME = "p1"
BEFORE, AFTER = 1, 2
SHORT_S, LONG_S = "1", "60"


@pytest.fixture
def agent(netconfd, kernel):
    """The agent in this process, and a switch that sends DSCP 46 to priority `BEFORE`."""
    with closing(Datastore(kernel)) as agent:
        with netconfd.connect() as client:
            edit(client, BEFORE)
            client.commit()
        assert priority(kernel) == BEFORE
        yield agent


def edit(client, priority):
    client.edit_config(
        target="candidate",
        config=(
            f'<config xmlns="{PREFIXES["nc"]}"><interfaces xmlns="{PREFIXES["if"]}"><interface>'
            f'<name>{NAME}</name><type xmlns:ianaift="{PREFIXES["ianaift"]}">'
            "ianaift:ethernetCsmacd</type>"
            f'<bridge-port xmlns="{PREFIXES["bridge"]}"><dscp-rule xmlns="{PREFIXES["tsn"]}">'
            f"<dscp>46</dscp><priority>{priority}</priority></dscp-rule></bridge-port>"
            "</interface></interfaces></config>"
        ),
    )


def priority(kernel):
    """What the switch does with DSCP 46."""
    return kernel.states[NAME][DscpState].priorities.get(46)


def commit_unconfirmed(client, kernel, timeout_s):
    edit(client, AFTER)
    client.commit(confirmed=True, timeout=timeout_s, persist="rollout-7")
    assert priority(kernel) == AFTER


def refusal_of(call, *args, **kwargs):
    with pytest.raises(RPCError) as refusal:
        call(*args, **kwargs)
    return refusal.value


def config_of_many(leaves, *names):
    return (
        f'<config xmlns="{PREFIXES["nc"]}"><interfaces xmlns="{PREFIXES["if"]}">'
        + "".join(
            f'<interface><name>{name}</name><type xmlns:ianaift="{PREFIXES["ianaift"]}">'
            f"ianaift:ethernetCsmacd</type>"
            f'<bridge-port xmlns="{PREFIXES["bridge"]}">{leaves}</bridge-port></interface>'
            for name in names
        )
        + "</interfaces></config>"
    )


def edit_of_many(client, leaves, *names):
    client.edit_config(target="candidate", config=config_of_many(leaves, *names))


def by_port(refusal):
    """The tag and the words of each error, by the interface that its path leads to."""
    errors = getattr(refusal, "errors", None) or [refusal]
    steps = "/ietf-interfaces:interfaces/ietf-interfaces:interface[ietf-interfaces:name='"
    assert all(each.path.startswith(steps) for each in errors)
    return {
        each.path.removeprefix(steps).removesuffix("']"): (each.tag, each.message)
        for each in errors
    }


RULE = f'<dscp-rule xmlns="{PREFIXES["tsn"]}"><dscp>10</dscp><priority>3</priority></dscp-rule>'
IMPOSSIBLE = (
    f'<gate-parameter-table xmlns="{PREFIXES["gates"]}">'
    "<gate-enabled>true</gate-enabled><config-change>true</config-change><admin-cycle-time-extension>5</admin-cycle-time-extension>"
    "</gate-parameter-table>"
)


@pytest.mark.parametrize(
    ("leaves", "ports", "words"),
    [(RULE, ("p7", "p8"), "no such interface"), (IMPOSSIBLE, ("p1", "p2"), "admin-cycle-time")],
    ids=["no such port", "gates that taprio cannot do"],
)
def test_each_port_that_cannot_do_what_is_asked_is_an_error_with_its_path(
    netconfd, agent, leaves, ports, words
):
    with netconfd.connect() as client:
        edit_of_many(client, leaves, *ports)
        told = by_port(refusal_of(client.commit))

    assert told.keys() == set(ports)
    for name, (tag, message) in told.items():
        assert tag == "invalid-value"
        assert message.startswith(f"port {name}: ")
        assert words in message


def test_what_the_kernel_refuses_has_the_path_of_its_port(netconfd, agent, kernel):
    with netconfd.connect() as client:
        edit(client, AFTER)
        kernel.refuse = "port p1: the kernel refused the rules"
        told = by_port(refusal_of(client.commit))

    assert told == {"p1": ("operation-failed", kernel.refuse)}


@pytest.mark.parametrize(
    ("name", "literal"), [("it's", '"it\'s"'), ("it's\"", None)], ids=["one kind", "both kinds"]
)
def test_the_path_of_a_port_with_quotes_in_its_name_is_an_xpath_or_none(
    netconfd, agent, name, literal
):
    with netconfd.connect() as client:
        edit_of_many(client, RULE, name)
        refusal = refusal_of(client.commit)

    assert refusal.tag == "invalid-value"
    assert (refusal.path is None) == (literal is None)
    assert literal is None or refusal.path.endswith(f"[ietf-interfaces:name={literal}]")


def test_the_controller_tells_the_reason_of_each_port(netconfd, agent, tmp_path):
    switch = Managed("s1", Management("127.0.0.1", netconfd.port, netconfd.username))
    connect = ConnectOptions(netconfd.client_key, tmp_path / "known_hosts")
    connect.known_hosts.write_text(
        f"[127.0.0.1]:{netconfd.port} {netconfd.host_key_type} {netconfd.host_key_b64}\n"
    )
    with Device(switch, connect) as device:
        device.edit(etree.fromstring(config_of_many(RULE, "p7", "p8")))
        with pytest.raises(DeviceError) as refused:
            device.commit_confirmed(60, "rollout-7")

    assert refused.value.reason.splitlines() == [
        f"port {name}: no such interface; this switch has p1, p2" for name in ("p7", "p8")
    ]


def test_of_many_refused_ports_the_first_are_errors_and_the_others_counted(netconfd, agent):
    with netconfd.connect() as client:
        edit_of_many(client, RULE, *(f"q{number}" for number in range(40)))
        errors = refusal_of(client.commit).errors

    assert len(errors) == 33
    assert errors[-1].message == "and 8 more refusals"


def test_a_way_back_that_the_agent_refuses_is_tried_again_and_everybody_hears_why(
    netconfd, agent, kernel
):
    with netconfd.connect() as client, netconfd.connect() as other:
        commit_unconfirmed(client, kernel, SHORT_S)
        kernel.refuse = UNPLUGGED
        assert wait_until(lambda: UNPLUGGED in netconfd.log)
        for call, arguments in (
            (client.commit, {"persist_id": "rollout-7"}),
            (other.commit, {}),
            (other.cancel_commit, {"persist_id": "rollout-7"}),
        ):
            refusal = refusal_of(call, **arguments)
            assert refusal.tag == "in-use"
            assert UNPLUGGED in refusal.message
        assert tag_of(other.lock, "running") == "lock-denied"
        kernel.refuse = None
        assert wait_until(lambda: priority(kernel) == BEFORE)
        assert wait_until(lambda: "confirmed commit reverted" in netconfd.log)
        # the log has it once, however often it was tried
        assert netconfd.log.count("cannot revert") == 1
        other.lock("running")


def test_a_server_whose_way_back_is_refused_at_its_start_serves_and_goes_back_later(
    netconfd, agent, kernel
):
    commit_unconfirmed(netconfd.connect(), kernel, LONG_S)
    netconfd.kill()
    kernel.refuse = UNPLUGGED
    netconfd.start()
    with netconfd.connect() as client:
        assert tag_of(client.commit) == "in-use"
        kernel.refuse = None
        assert wait_until(lambda: priority(kernel) == BEFORE)
        assert wait_until(lambda: "confirmed commit reverted" in netconfd.log)
        client.commit()


def test_without_an_agent_the_way_back_is_open_and_the_next_agent_takes_it(netconfd, agent, kernel):
    with netconfd.connect() as client:
        commit_unconfirmed(client, kernel, SHORT_S)
        agent.close()
        assert wait_until(lambda: "confirmed commit reverted" in netconfd.log)
        assert priority(kernel) == AFTER
    with closing(Datastore(kernel)):
        assert priority(kernel) == BEFORE


def test_a_server_killed_while_the_agent_applies_leaves_the_old_configuration_everywhere(
    netconfd, agent, kernel
):
    client = netconfd.connect()
    edit(client, AFTER)
    applying = threading.Event()
    with slowed(kernel, applying) as proceed:
        committing = threading.Thread(target=commit_and_die, args=[client])
        committing.start()
        assert applying.wait(10)
        netconfd.kill()
        committing.join()
        proceed.set()
    netconfd.start()
    with netconfd.connect() as later:
        assert running_priority(later) == BEFORE
    assert wait_until(lambda: priority(kernel) == BEFORE, timeout_s=30)
    assert not snapshot(netconfd).exists()


@contextmanager
def slowed(kernel, applying):
    """While this lasts, what the kernel is asked to do waits until the event given is set."""
    apply, proceed = kernel.apply, threading.Event()

    def wait_and_apply(*args):
        applying.set()
        proceed.wait(10)
        return apply(*args)

    kernel.apply = wait_and_apply
    try:
        yield proceed
    finally:
        proceed.set()
        del kernel.apply


def commit_and_die(client):
    with suppress(NCClientError):
        client.commit(confirmed=True, timeout=LONG_S)


def running_priority(client):
    data = client.get_config("running").data
    return int(data.findtext(f".//{{{PREFIXES['tsn']}}}priority"))
