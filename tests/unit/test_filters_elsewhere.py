"""`filters-in-hardware` of a switch: what a push refuses before anything changes."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from cnc import intent as intents
from cnc.data_tree.hardware import HardwareReport, Offload
from cnc.errors import InputError
from cnc.finding import Check, Finding, Verdict
from cnc.mechanisms.forwarding.hardware import examine_filters
from cnc.model import NO_PARTS, GateLimits, InHardware, PortRef
from cnc.planner import plan as compute
from tests.bridged_networks import line, stream
from tests.unit.places import port_report
from tests.unit.test_preflight import LINE3
from tests.unit.test_preflight_streams import POLICING

BRIDGE = PortRef("s1", "br0")
KERNEL = HardwareReport("virtio_net", forwards=False)
TAKES = Offload(("x.c",), frozenset({"filters"}), GateLimits())
SWITCH = HardwareReport("mscc_felix", forwards=True, offload=TAKES)
NO_POLICING = replace(POLICING, parts=NO_PARTS)
REQUIRED, NO_DRIVER = "filters-in-hardware is required, and ", "no driver takes it"
PAST_SOFTWARE = (
    "filters-in-hardware is never, and the hardware of the switch forwards the frames of this "
    "port: filters in software do not see them"
)


@pytest.fixture(scope="module")
def plan():
    return compute(line(one=stream("t1", "l1")))


def found(plan, wanted: InHardware, its: HardwareReport | None, desired=None) -> list[Finding]:
    """What is said of s1, of which two ports have this hardware."""
    network = plan.intent.network
    s1 = replace(network.bridges["s1"], filters_in_hardware=wanted)
    bridged = replace(network, bridges={**network.bridges, "s1": s1})
    plan = replace(plan, intent=replace(plan.intent, network=bridged))
    asked = replace(desired or POLICING, vlans={10: ("p1", "p2")})
    report = port_report(hardware=its)
    reports = {PortRef("s1", each): report for each in ("p1", "p2", "p3")}
    return list(examine_filters(plan, {BRIDGE: asked}, reports))


@pytest.mark.parametrize(
    ("wanted", "its", "words"),
    [
        (InHardware.REQUIRED, SWITCH, None),
        (
            InHardware.REQUIRED,
            KERNEL,
            f"{REQUIRED}the kernel forwards the frames of this port: its filters are in software",
        ),
        (
            InHardware.REQUIRED,
            None,
            f"{REQUIRED}the switch does not say whether hardware forwards the frames of this port",
        ),
        (InHardware.PREFERRED, SWITCH, None),
        (InHardware.PREFERRED, KERNEL, None),
        (InHardware.PREFERRED, None, None),
        (InHardware.NEVER, KERNEL, None),
        (InHardware.NEVER, None, None),
        (
            InHardware.NEVER,
            SWITCH,
            PAST_SOFTWARE,
        ),
    ],
)
def test_a_switch_whose_filters_are_elsewhere_is_refused_at_each_port_of_streams(
    plan, wanted, its, words
):
    said = found(plan, wanted, its, NO_POLICING)
    assert [(each.where, each.text) for each in said] == (
        [("s1/p1", words), ("s1/p2", words)] if words else []
    )
    assert {each.verdict for each in said} <= {Verdict.FAILED}


@pytest.mark.parametrize(
    ("wanted", "refused"),
    [(InHardware.REQUIRED, True), (InHardware.PREFERRED, False), (InHardware.NEVER, False)],
)
def test_what_only_a_program_of_the_kernel_does_is_refused_where_hardware_is_required(
    plan, wanted, refused
):
    said = [each for each in found(plan, wanted, SWITCH) if each.where == "s1/br0"]
    assert [each.text for each in said] == [
        f"{REQUIRED}a BPF program of the kernel is to police what end stations send: {NO_DRIVER}"
    ] * refused
    assert {each.check for each in said} <= {Check.HARDWARE}


def test_a_driver_that_will_refuse_filters_is_named_before_it_does(plan):
    none = replace(SWITCH, offload=replace(TAKES, takes=frozenset({"gates"})))
    said = found(plan, InHardware.PREFERRED, none, NO_POLICING)
    assert [(each.where, each.verdict) for each in said] == [
        ("s1/p1", Verdict.WARNING),
        ("s1/p2", Verdict.WARNING),
    ]
    assert said[0].text == (
        "its driver mscc_felix takes no filters, by x.c of Linux 6.12: it will refuse those of "
        "streams and priorities"
    )
    in_software = replace(none, forwards=False)
    assert found(plan, InHardware.PREFERRED, in_software, NO_POLICING) == []


@pytest.mark.parametrize(
    ("stated", "wanted"),
    [
        ({}, InHardware.PREFERRED),
        ({"filters-in-hardware": "required"}, InHardware.REQUIRED),
        ({"filters-in-hardware": "never"}, InHardware.NEVER),
    ],
)
def test_an_intent_states_it_for_all_switches_and_for_one(stated, wanted):
    for place, of_others in (("defaults", wanted), ("switches", InHardware.PREFERRED)):
        document = bridged_document()
        (document[place]["s1"] if place == "switches" else document[place]).update(stated)
        bridges = intents.from_document(document, "net").network.bridges
        placed = [bridges[name].filters_in_hardware for name in ("s1", "s2")]
        assert placed == [wanted, of_others]


def bridged_document():
    return json.loads(json.dumps(line(one=stream("t1", "l1")).document))


@pytest.mark.parametrize("place", ["defaults", "switches.s1"])
def test_a_network_that_routes_has_no_such_filters(place):
    document = json.loads(json.dumps(intents.load(LINE3).document))
    where = document["defaults"] if place == "defaults" else document["switches"]["s1"]
    where["filters-in-hardware"] = "required"
    with pytest.raises(InputError, match=f"{place}.filters-in-hardware: found required"):
        intents.from_document(document, "net")
