"""The credit-based shaper of a port: what is asked, refused and reported, without a kernel."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.mechanism import Refused, ReportContext
from agent.mechanisms import MECHANISMS
from agent.mechanisms.cbs.desired import configured, operational
from agent.mechanisms.cbs.model import Shapers
from agent.mechanisms.gates.model import GateConfig
from agent.memory_ports import MemoryPorts
from agent.model import AgentError, PortConfig
from agent.switch import Switch
from tests.unit.test_switch import BARE, TAPRIO

BRIDGE_PORT = "ieee802-dot1q-bridge:bridge-port"
CBSA = "ieee802-dot1q-cbsa-bridge:cbsa"
GIGABIT = replace(BARE, link_speed_bps=1_000_000_000)


def asked(slopes, state=GIGABIT, **bridge_port):
    rows = [
        {"traffic-class": number, "admin-idle-slope": str(bps)} for number, bps in slopes.items()
    ]
    cbsa = {CBSA: {"cbsa-parameter-table": rows}}
    return configured({BRIDGE_PORT: {**bridge_port, **cbsa}}, state)


@pytest.fixture
def switch():
    return Switch(MemoryPorts(MECHANISMS, [GIGABIT]))


def apply(switch, its, taprio=TAPRIO):
    return switch.apply({"p1": PortConfig("p1", (GateConfig(taprio), its))})


def test_slopes_and_credits_follow_from_the_idle_slope_and_the_link():
    """By hand: 20 Mb/s of 1 Gb/s gain 1,542 x 0.02 octets while a frame of 1,542 is sent."""
    (its,) = asked({5: 20_000_000}).queues
    assert (its.queue, its.traffic_class, its.kind) == (5, 5, "cbs")
    assert dict(its.options) == {
        "offload": 0,
        "hicredit": 31,
        "locredit": -1_542,
        "idleslope": 20_000,
        "sendslope": -980_000,
    }


def test_a_longer_frame_of_the_port_lowers_the_lowest_credit_alone():
    (its,) = asked({5: 20_000_000}, replace(GIGABIT, mtu_octets=9_000)).queues
    assert (dict(its.options)["hicredit"], dict(its.options)["locredit"]) == (31, -9_042)


def test_a_link_that_is_down_has_a_rate_above_the_slope():
    (its,) = asked({5: 20_000_000}, replace(GIGABIT, link_speed_bps=None)).queues
    assert dict(its.options)["sendslope"] < 0


@pytest.mark.parametrize(
    ("slopes", "bridge_port", "reason"),
    [
        ({5: 1_000_000_000}, {}, "not less than the rate of the link, 1000000000 bit/s"),
        ({5: 1_500}, {}, "counts an idle slope in kbit/s, not 1500"),
        (
            {5: 1_000},
            {"traffic-class": {"traffic-class-table": {"number-of-traffic-classes": 2}}},
            r"traffic class 5: the port has 2 \(0\.\.1\)",
        ),
        (
            {0: 1_000},
            {
                "traffic-class": {"traffic-class-table": {"number-of-traffic-classes": 1}},
                "tsn-linux:taprio": {"queue": [{"traffic-class": 0, "count": 2, "offset": 0}]},
            },
            "has 2 transmit queues, and each would send at the idle slope",
        ),
    ],
)
def test_what_would_not_keep_to_the_slope_is_refused(slopes, bridge_port, reason):
    with pytest.raises(Refused, match=reason):
        asked(slopes, **bridge_port)


def test_a_slope_of_nothing_asks_for_nothing():
    assert asked({5: 0}) == Shapers()


def test_it_comes_and_goes_with_the_root_of_the_port(switch):
    its = asked(
        {1: 20_000_000},
        **{"traffic-class": {"traffic-class-table": {"number-of-traffic-classes": 2}}},
    )
    applied = apply(switch, its)
    assert switch.read()["p1"][Shapers] == its
    assert apply(switch, its).steps == ()
    applied.undo()
    assert switch.read()["p1"][Shapers] == Shapers()


def test_without_gates_it_is_refused(switch):
    with pytest.raises(AgentError, match="credit-based-shaper needs gates on this port"):
        apply(switch, asked({5: 20_000_000}), None)


def test_what_the_kernel_has_is_reported_by_class():
    state = GIGABIT.with_part(asked({5: 20_000_000, 4: 1_000_000}))
    rows = [
        {"traffic-class": 4, "oper-idle-slope": "1000000"},
        {"traffic-class": 5, "oper-idle-slope": "20000000"},
    ]
    context = ReportContext(lambda _clock: 0)
    node = operational(state, context)[BRIDGE_PORT]
    assert node[CBSA] == {"cbsa-parameter-table": rows}
    lower, higher = node["tsn-linux:taprio"]["kernel"]["credit-based-shaper"]
    assert (lower["traffic-class"], lower["idle-slope"]) == (4, "1000000")
    assert higher == {
        "traffic-class": 5,
        "idle-slope": "20000000",
        "send-slope": "-980000000",
        "highest-credit": 31,
        "lowest-credit": -1_542,
    }
    assert operational(GIGABIT, context) == {}


def test_a_difference_names_what_the_kernel_has_and_what_is_configured(switch):
    classes = {"traffic-class": {"traffic-class-table": {"number-of-traffic-classes": 2}}}
    apply(switch, asked({1: 20_000_000}, **classes))
    (change,) = apply(switch, asked({1: 30_000_000}, **classes)).changes
    assert change.difference == (
        "credit-based shaper: traffic class 1 20000000 bit/s (send slope -980000 kbit/s, credit "
        "-1542 to 31), configured is traffic class 1 30000000 bit/s (send slope -970000 kbit/s, "
        "credit -1542 to 47)"
    )
