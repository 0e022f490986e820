"""Filters of ports whose frames the hardware of the switch forwards: taken by it, or refused."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pyroute2.netlink.rtnl.tcmsg import common_act

from agent.composition import Contribution
from agent.filter_placement import FilterPlacement, with_placement
from agent.kernel import act_skbedit, clsact
from agent.mechanisms.identification.kernel import IdentificationAdapter
from agent.mechanisms.identification.model import (
    IdentificationState,
    IdentificationTable,
    Incoming,
    Match,
)
from agent.mechanisms.identification.rules import StreamFilters
from agent.mechanisms.received_priority.driver_tables import DriverTables
from agent.mechanisms.received_priority.kernel import ReceivedPriorityAdapter
from agent.mechanisms.received_priority.model import PriorityTable, ReceivedPriorityState
from agent.mechanisms.received_priority.rules import IngressFilters
from agent.mechanisms.sent_priority import SENT_PRIORITY
from agent.mechanisms.sent_priority.model import SentPriorityConfig
from agent.model import AgentError, PortConfig
from tests.stack.recording_kernel import port
from tests.unit.drivers import (
    REASON,
    SKIP_HW,
    SKIP_SW,
    Driver,
    Filters,
    NoTables,
    TrafficControl,
)

BRIDGED = replace(port("p1"), bridge="br0")
IN_SWITCH = replace(BRIDGED, switch_id="00:01:02:03")
TABLE = PriorityTable(default=3)
STREAM = Incoming(
    7,
    1,
    2,
    Match(ip_destination="10.0.1.77", protocol="udp", destination_port=5000),
    "02-00-00-00-00-0A",
    10,
    6,
)
REFUSED = (
    "port p1: the hardware of the switch forwards the frames of this port, and does not take {}: "
    "Unsupported action (ENOTSUP); let its driver take filters (ethtool -K p1 hw-tc-offload "
    "on), or remove from the configuration of the port what asks for the filter"
)


@pytest.fixture(autouse=True)
def hooks(monkeypatch):
    """No hook of this machine is touched."""
    monkeypatch.setattr(clsact, "ensure", lambda *_: None)
    monkeypatch.setattr(clsact, "remove_unused", lambda *_: None)


@pytest.fixture
def priorities(monkeypatch):
    """Sets the priorities of received frames on a port of this driver."""
    monkeypatch.setitem(common_act.plugins, "skbedit", act_skbedit)
    opened = []

    def open_adapter(driver, tables=None):
        kernel = TrafficControl(driver)
        opened.append(of := ReceivedPriorityAdapter(kernel))
        of._tables = DriverTables(tables or NoTables())
        return kernel, of

    yield open_adapter
    for each in opened:
        each.close()


def set_table(of, state, table, before=None):
    target = IngressFilters(state.name, state.ifindex)
    contents = [
        (Contribution("received-priority", state.name, 0, each),) if each else ()
        for each in (before, table)
    ]
    of.objects[IngressFilters](target, *contents)


def identify(of, state, *streams):
    table = IdentificationTable(frozenset(streams))
    contribution = Contribution("identification", state.name, 0, table)
    target = StreamFilters(state.name, state.ifindex)
    of.objects[StreamFilters](target, (), (contribution,))


def test_where_the_kernel_forwards_no_driver_is_asked(priorities):
    _kernel, of = priorities(driver := Driver(takes=False))
    of.read({"p1": BRIDGED})
    set_table(of, BRIDGED, TABLE)
    assert set(driver.asked) == {SKIP_HW}
    state = of.read({"p1": BRIDGED})["p1"]
    assert state[ReceivedPriorityState].table == TABLE
    assert state[FilterPlacement].in_hardware is None


def test_hardware_that_forwards_has_the_filters_and_the_port_says_so(priorities):
    _kernel, of = priorities(driver := Driver(takes=True))
    of.read({"p1": IN_SWITCH})
    set_table(of, IN_SWITCH, TABLE)
    assert set(driver.asked) == {0}  # also for frames that the kernel sends itself
    state = of.read({"p1": IN_SWITCH})["p1"]
    assert state[ReceivedPriorityState].table == TABLE
    assert state[FilterPlacement].in_hardware is True
    assert list(of.repairs()) == []


def test_a_filter_that_the_hardware_does_not_take_is_refused_with_the_reason_of_its_driver(
    priorities,
):
    kernel, of = priorities(Driver(takes=False))
    of.read({"p1": IN_SWITCH})
    with pytest.raises(AgentError) as refusal:
        set_table(of, IN_SWITCH, TABLE)
    words = "; nor does it take a table of priorities (dcb app): Operation not supported (ENOTSUP)"
    assert str(refusal.value) == REFUSED.format("a filter (flower, at ingress)") + words
    assert kernel.filters == {}


def test_what_the_hardware_had_before_a_refusal_it_has_again(priorities):
    _kernel, of = priorities(driver := Driver(takes=True))
    of.read({"p1": IN_SWITCH})
    set_table(of, IN_SWITCH, TABLE)
    driver.listed = refusing_one(driver, after=4)
    with pytest.raises(AgentError):
        set_table(of, IN_SWITCH, PriorityTable(), before=TABLE)
    assert of.read({"p1": IN_SWITCH})["p1"][ReceivedPriorityState].table == TABLE


def refusing_one(driver, after):
    """The driver does not take the filter that comes after so many, not for hardware alone."""
    remaining = iter([True] * after + [False])
    usual = Driver.listed

    def listed(flags):
        if flags & SKIP_SW:
            raise REASON
        driver.takes = next(remaining, True)
        return usual(driver, flags)

    return listed


def test_a_filter_that_only_software_has_counts_as_missing_where_hardware_forwards(priorities):
    _kernel, of = priorities(Driver(takes=False))
    of.read({"p1": BRIDGED})
    set_table(of, BRIDGED, TABLE)
    state = of.read({"p1": IN_SWITCH})["p1"]
    assert state[ReceivedPriorityState].table is None
    assert state[FilterPlacement].in_hardware is False
    assert [each.port or each.target.port for each in of.repairs()] == ["p1"]


@pytest.fixture
def streams():
    """Identifies streams at a port of this driver."""
    opened = []

    def open_adapter(driver):
        of = IdentificationAdapter(None)
        of._kernel.close()
        of._kernel = Filters(driver)
        opened.append(of)
        return of

    yield open_adapter
    for each in opened:
        each.close()


@pytest.mark.parametrize(
    ("state", "takes", "flags", "in_hardware"),
    [(BRIDGED, False, SKIP_HW, None), (IN_SWITCH, True, 0, True)],
)
def test_streams_are_identified_where_their_frames_are_forwarded(
    streams, state, takes, flags, in_hardware
):
    of = streams(driver := Driver(takes=takes))
    of.read({"p1": state})
    identify(of, state, STREAM)
    found = of.read({"p1": state})["p1"]
    assert found[IdentificationState].table.incoming == {STREAM}
    assert found[FilterPlacement].in_hardware is in_hardware
    identify(of, state, STREAM)
    assert driver.asked == [flags]  # the second time there is nothing to set


def test_a_stream_whose_filter_the_hardware_does_not_take_is_refused(streams):
    of = streams(Driver(takes=False))
    of.read({"p1": IN_SWITCH})
    with pytest.raises(AgentError) as refusal:
        identify(of, IN_SWITCH, STREAM)
    assert str(refusal.value) == REFUSED.format("a filter (flower) of a stream")
    assert of._kernel.payloads == {}


def test_a_stream_that_only_software_identifies_is_none_and_is_set_again(streams):
    of = streams(driver := Driver(takes=False))
    of.read({"p1": BRIDGED})
    identify(of, BRIDGED, STREAM)
    found = of.read({"p1": IN_SWITCH})["p1"]
    assert not found[IdentificationState].table
    assert found[FilterPlacement].in_hardware is False
    driver.takes = True
    identify(of, IN_SWITCH, STREAM)
    assert of.read({"p1": IN_SWITCH})["p1"][FilterPlacement].in_hardware is True


@pytest.mark.parametrize("order", [1, -1])
def test_all_filters_are_in_hardware_if_those_of_every_mechanism_are(order):
    state = IN_SWITCH
    for in_hardware in [[True, True], [True, False], []][::order]:
        state = with_placement(state, in_hardware)
    assert state[FilterPlacement].in_hardware is False
    assert with_placement(IN_SWITCH, [True, True])[FilterPlacement].in_hardware is True


def test_code_points_of_sent_frames_are_refused_where_hardware_forwards():
    asked = PortConfig("p1", (SentPriorityConfig(tuple(range(8))),))
    assert list(SENT_PRIORITY.problems(asked, BRIDGED)) == []
    assert list(SENT_PRIORITY.problems(PortConfig("p1"), IN_SWITCH)) == []
    (problem,) = SENT_PRIORITY.problems(asked, IN_SWITCH)
    assert problem == (
        "the hardware of switch 00:01:02:03 forwards its frames, and pcp-encoding-table is written "
        "by filters of the kernel (basic), which do not see them; remove the table: frames then "
        "leave with the code points with which they came"
    )
