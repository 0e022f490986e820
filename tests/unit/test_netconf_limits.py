"""What is asked of switches before a plan is made, and how a switch's refusal reads."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from types import SimpleNamespace

import pytest
from lxml import etree
from ncclient.operations import RPCError
from ncclient.transport.errors import SessionCloseError

from cnc import intent as intents
from cnc.data_tree.state import SwitchState
from cnc.data_tree.tree import DATASTORES, NETCONF, NMDA, AgentReport, GatesReport, TalkerReport
from cnc.errors import RolloutError
from cnc.model import Bridge, GateLimits, GateMode, Management, Network, PortRef, WakeUps
from cnc.rollout import read_ports
from cnc.rollout import stated_ports as limits
from cnc.switch import ConnectOptions, connection, device
from cnc.switch.device import Device, DeviceError
from tests.unit.places import changed, port_report

LINE3 = Path(__file__).parents[2] / "schedules" / "line3.yaml"
CONNECT = ConnectOptions(Path("/dev/null"), Path("known_hosts"))


@pytest.fixture(scope="module")
def network() -> Network:
    return intents.load(LINE3).network


class FakeDevice:
    """A switch whose every port states as many entries as its name has letters; `s2` may fail."""

    agent = AgentReport(37, None)
    missing = ""
    fails = False

    def __init__(self, bridge, _options):
        self.name = bridge.name
        if self.fails and self.name == "s2":
            raise DeviceError("s2", "is on fire", hint="put it out")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def state(self, ports):
        reports = {p: report(len(p)) for p in ports if PortRef(self.name, p) != self.missing}
        return SwitchState(self.agent if self.name == "s2" else FakeDevice.agent, reports, 0, 0)


def report(entries_max):
    return port_report(limits=GateLimits(entries_max))


@pytest.fixture
def switch(monkeypatch):
    """The class of the switches, for a test to break."""
    fake = type("Breakable", (FakeDevice,), {})
    monkeypatch.setattr(limits, "Device", fake)
    return fake


def test_every_cabled_port_of_every_switch_is_asked(network, switch):
    found = read_ports(network, connect=CONNECT).limits
    assert found.keys() == {p for p in network.links if p.node in network.bridges}
    assert found[PortRef("s1", "s2")] == GateLimits(entries_max=2)


def test_end_stations_that_are_managed_are_asked_how_late_their_talkers_are(
    network, switch, monkeypatch
):
    stations = dict(network.end_stations)
    stations["t1"] = dataclasses.replace(
        stations["t1"], management=network.bridges["s1"].management
    )
    managed = dataclasses.replace(network, end_stations=stations)
    assert not read_ports(managed, connect=CONNECT).lateness
    late = TalkerReport(lateness={("a", 1): WakeUps(9, 70), ("b", 1): WakeUps(8, 90)})

    def state(self, ports):
        its = changed(report(1), late)
        return SwitchState(self.agent, dict.fromkeys(ports, its), 0, 0)

    monkeypatch.setattr(switch, "state", state)
    found = read_ports(managed, connect=CONNECT)
    assert found.lateness == {PortRef("t1", "eth0"): WakeUps(8, 90)}
    assert {port.node for port in found.limits} == set(network.bridges)


@pytest.mark.parametrize(
    ("stated_for", "wanted", "counts"),
    [
        (None, GateMode.SOFTWARE, True),
        (None, GateMode.TXTIME_ASSIST, True),
        (None, GateMode.FULL_OFFLOAD, False),
        (GateMode.SOFTWARE, GateMode.FULL_OFFLOAD, False),
        (GateMode.FULL_OFFLOAD, GateMode.FULL_OFFLOAD, True),
        (GateMode.FULL_OFFLOAD, GateMode.SOFTWARE, False),
    ],
)
def test_what_the_kernel_can_do_says_nothing_of_the_hardware(stated_for, wanted, counts):
    stated = GatesReport(limits=GateLimits(16), mode=stated_for).limits_in(wanted)
    assert stated == GateLimits(entries_max=16 if counts else 0)


@pytest.mark.parametrize(
    ("broken", "words", "hint"),
    [
        ({"fails": True}, "s2: is on fire", "put it out"),
        ({"agent": None}, "s2: the NETCONF server answers but no agent runs", "systemctl start"),
        ({"missing": PortRef("s2", "s3")}, "s2: has no such port: s3", "port names of the intent"),
    ],
    ids=["no session", "no agent", "no port"],
)
def test_a_switch_that_cannot_say_is_an_error_unless_others_will_do(
    network, switch, broken, words, hint
):
    for name, value in broken.items():
        setattr(switch, name, value)
    with pytest.raises(RolloutError, match=words) as error:
        read_ports(network, connect=CONNECT)
    assert hint in error.value.hint
    assert {port.node for port in read_ports(network, connect=CONNECT, partial=True).limits} == {
        "s1",
        "s3",
    }


STATE = """
<rpc-reply xmlns="urn:ietf:params:xml:ns:netconf:base:1.0"><data xmlns="{namespace}">
 <agent xmlns="urn:tsn-control-plane:yang:tsn-linux"><pid>12</pid><tai-offset>37</tai-offset>
 </agent></data></rpc-reply>
"""


class AskedSession:
    """A server that may have `<get-data>`; remembers what it was asked."""

    def __init__(self, refusal=None):
        self.asked = []
        self._refusal = refusal

    def dispatch(self, request):
        self.asked.append(request)
        if self._refusal:
            raise self._refusal
        return SimpleNamespace(xml=STATE.format(namespace=NMDA))

    def get(self, *, filter):  # noqa: A002  ncclient's name
        self.asked.append("get")
        return SimpleNamespace(data_ele=etree.fromstring(STATE.format(namespace=NETCONF))[0])


def state_twice(session, monkeypatch):
    monkeypatch.setattr(device, "open_to", lambda *_: session)
    asked = Device(Bridge("s1", 0, 0, Management("192.0.2.1")), CONNECT)
    return [asked.state(["p1"]) for _ in range(2)]


def test_state_is_read_from_the_operational_datastore_where_limits_are(monkeypatch):
    session = AskedSession()
    assert all(state.agent for state in state_twice(session, monkeypatch))
    request = session.asked[0]
    assert request.tag == f"{{{NMDA}}}get-data"
    prefix, _, name = request.findtext(f"{{{NMDA}}}datastore").partition(":")
    assert (request.nsmap[prefix], name) == (DATASTORES, "operational")
    leaves = {etree.QName(leaf).localname for leaf in request.iter()}
    assert {"subtree-filter", "supported-list-max", "agent"} <= leaves


def test_a_server_without_get_data_is_asked_with_get_from_then_on(monkeypatch):
    session = AskedSession(rpc_error("operation-not-supported", "no such operation"))
    assert all(state.agent for state in state_twice(session, monkeypatch))
    assert session.asked[1:] == ["get", "get"]


def test_a_refused_get_data_is_a_refusal(monkeypatch):
    session = AskedSession(rpc_error("access-denied", "not you"))
    with pytest.raises(DeviceError, match="not you"):
        state_twice(session, monkeypatch)
    assert "get" not in session.asked


ONE_ERROR = """
<rpc-error xmlns="urn:ietf:params:xml:ns:netconf:base:1.0"><error-type>protocol</error-type>
 <error-tag>{tag}</error-tag><error-severity>error</error-severity>
 <error-message>{message}</error-message></rpc-error>
"""


def rpc_error(tag, message):
    return RPCError(etree.fromstring(ONE_ERROR.format(tag=tag, message=message)))


def refused_with(error, monkeypatch):
    """What becomes of an <rpc-error> that the operator `eve` gets for an edit."""

    class Session:
        def edit_config(self, **_):
            raise error

    monkeypatch.setattr(device, "open_to", lambda *_: Session())
    bridge = Bridge("s1", 0, 0, Management("192.0.2.1", user="eve"))
    with pytest.raises(DeviceError) as refused:
        Device(bridge, CONNECT).edit(etree.Element("config"))
    return refused.value


def test_a_user_who_may_not_is_told_which_group_would_help(monkeypatch):
    refused = refused_with(rpc_error("access-denied", "no write access"), monkeypatch)
    assert str(refused) == "s1: no write access"
    assert refused.hint == (
        "user eve may not edit-config on s1: add it to the group tsn-operator in the switch's NACM "
        "configuration"
    )


def test_the_group_is_named_also_when_the_denial_is_one_of_several_errors(monkeypatch):
    one, other = rpc_error("invalid-value", "too long"), rpc_error("access-denied", "not you")
    refused = refused_with(RPCError(etree.Element("reply"), errs=[one, other]), monkeypatch)
    assert str(refused) == "s1: too long\nnot you"
    assert "user eve may not edit-config on s1" in refused.hint


def test_a_user_who_is_refused_a_session_is_told_what_may_be_the_reason(monkeypatch):
    def refuse(**_):
        raise SessionCloseError("Unexpected session close")

    monkeypatch.setattr(connection, "open_session", refuse)
    monkeypatch.setattr(connection, "login_keys", lambda _identity: [])
    monkeypatch.setattr(connection, "_host_keys", lambda *_: [])
    with pytest.raises(DeviceError, match="refuses eve a session: Unexpected") as refused:
        Device(Bridge("s1", 0, 0, Management("192.0.2.1", user="eve")), CONNECT)
    assert "eve is in no group of the switch's NACM configuration" in refused.value.hint


def test_other_refusals_get_no_such_hint(monkeypatch):
    assert refused_with(rpc_error("lock-denied", "held by 7"), monkeypatch).hint is None
