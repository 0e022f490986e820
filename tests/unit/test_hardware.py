"""What the controller says of the hardware of ports, and of the lists that it is to run."""

from __future__ import annotations

import dataclasses

import pytest
from lxml import etree

from cnc.cli import render
from cnc.data_tree.hardware import HardwareReport, Offload, described
from cnc.data_tree.tree import GatesReport
from cnc.discover import as_yaml
from cnc.finding import Check, Finding, Verdict
from cnc.model import GateLimits, GateMode
from cnc.planner import plan as compute
from cnc.switch.readback import port_reports
from tests.unit.test_discover_gates import drafted, pair
from tests.unit.test_netconf_payload import KERNEL
from tests.unit.test_preflight import LINE3, answered, examined, intents

SAID = """
<driver>mscc_felix</driver><mac-merge>true</mac-merge>
<hardware-time-stamps>true</hardware-time-stamps><hardware-forwards>true</hardware-forwards>
<offload>
  <source>dsa/ocelot/felix_vsc9959.c</source>
  <takes>gates</takes><takes>police</takes>
  <list-max>63</list-max><cycle-max>1000000000</cycle-max><interval-min>35</interval-min>
  <tick>8</tick><drops-long-frames>true</drops-long-frames>
  <note>refuses a list while another one waits</note>
</offload>
<bridge>br0</bridge>"""
LIMITS = GateLimits(63, 0, 10**9, 8, 35)
FELIX = HardwareReport(
    "mscc_felix",
    has_mac_merge=True,
    stamps=True,
    forwards=True,
    offload=Offload(
        ("dsa/ocelot/felix_vsc9959.c",),
        frozenset({"gates", "police"}),
        LIMITS,
        drops_long_frames=True,
        notes=("refuses a list while another one waits",),
    ),
)
WORDS = (
    "driver mscc_felix takes gates (63 entries, intervals from 35 ns, cycles up to 1 s, "
    "a tick of 8 ns), police; MAC merge; hardware stamps; drops frames longer than the shortest "
    "gate; refuses a list while another one waits; by dsa/ocelot/felix_vsc9959.c"
)


def test_what_a_switch_says_of_a_driver_is_read():
    kernel = KERNEL.replace("<bridge>br0</bridge>", SAID)
    assert port_reports(etree.fromstring(kernel))["p2"][GatesReport].hardware == FELIX


@pytest.mark.parametrize(
    ("its", "words"),
    [
        (FELIX, WORDS),
        (HardwareReport(None, stamps=False), "no driver; no hardware stamps"),
        (HardwareReport("e1000e"), "driver e1000e: what it offloads is not known"),
        (
            HardwareReport(
                "veth", stamps=False, offload=Offload(("veth.c",), frozenset(), GateLimits())
            ),
            "driver veth takes neither gates nor filters; no hardware stamps; by veth.c",
        ),
    ],
)
def test_what_a_driver_takes_is_told_with_its_limits_and_their_source(its, words):
    assert "; ".join(described(its)) == words


def test_limits_of_hardware_are_known_before_a_list_runs_there():
    report = GatesReport(limits=GateLimits(430), hardware=FELIX)
    assert report.limits_in(GateMode.FULL_OFFLOAD) == LIMITS
    assert report.limits_in(GateMode.SOFTWARE) == GateLimits(430)


@pytest.fixture(scope="module")
def offloaded(tmp_path_factory):
    """The plan of line3 whose gates run in hardware."""
    document = LINE3.read_text().replace("gates: software ", "gates: full-offload ")
    file = tmp_path_factory.mktemp("intent") / "line3.yaml"
    file.write_text(document)
    return compute(intents.load(file))


def of_s2(plan, its, **of_offload):
    """What is found of the hardware of s2/s3, with this report."""
    offload = dataclasses.replace(its.offload, **of_offload) if its.offload else None
    changes = {"hardware": dataclasses.replace(its, offload=offload)}
    found = examined(plan, answered(plan, {"s2/s3": changes}))
    return [each for each in found if each.where == "s2/s3"]


def test_doctor_states_the_hardware_of_a_port(offloaded):
    (finding,) = [
        each
        for each in of_s2(offloaded, FELIX, drops_long_frames=False, limits=GateLimits())
        if each.check is Check.HARDWARE
    ]
    assert finding.verdict is Verdict.OK
    assert finding.text.startswith("driver mscc_felix takes gates (no limits), police; MAC merge")


def test_doctor_prints_the_hardware_of_ports_that_are_alike_once(capsys):
    found = [
        Finding("s1", port, Check.HARDWARE, Verdict.OK, "driver veth takes nothing")
        for port in ("p1", "p2")
    ]
    found.append(Finding("s1", "p1", Check.LINK, Verdict.OK, "up"))
    render.diagnosis("net", found, no_plan=None, as_json=False)
    shown = capsys.readouterr().out
    assert "\nok: hardware: s1/p1, s1/p2: driver veth takes nothing\n3 checks on" in shown


def test_a_list_that_hardware_cannot_run_is_refused_before_it_is_sent(offloaded):
    found = of_s2(offloaded, FELIX, limits=GateLimits(entries_max=5))
    assert [each.text.rpartition(": ")[2] for each in found if each.check is Check.LIMITS] == [
        "24 entries, the port holds 5"
    ]


def test_frames_that_hardware_will_drop_are_named_by_class(offloaded):
    found = [each for each in of_s2(offloaded, FELIX) if each.check is Check.HARDWARE]
    assert {each.verdict for each in found} == {Verdict.WARNING}
    (cyclic, best_effort) = [each.text for each in found]
    assert cyclic.startswith("the driver mscc_felix drops frames of class cyclic longer than ")
    assert best_effort.startswith(
        "the driver mscc_felix drops frames of class best-effort longer than "
    )
    assert best_effort.endswith("by dsa/ocelot/felix_vsc9959.c of Linux 6.12")


def test_a_driver_without_gates_is_named_before_it_refuses_them(offloaded):
    found = of_s2(offloaded, FELIX, takes=frozenset({"filters"}), drops_long_frames=False)
    (finding,) = [each for each in found if each.check is Check.HARDWARE]
    assert finding.verdict is Verdict.WARNING
    assert finding.text == (
        "the driver mscc_felix takes no gates, by dsa/ocelot/felix_vsc9959.c of Linux 6.12: it "
        "will refuse full-offload"
    )


def test_hardware_says_nothing_of_software_gates():
    plan = compute(intents.load(LINE3))
    found = [each for each in of_s2(plan, FELIX) if each.check is Check.HARDWARE]
    assert [each.verdict for each in found] == [Verdict.OK]


def test_a_draft_states_the_hardware_of_ports_that_are_alike_once():
    idle = GatesReport(hardware=FELIX)
    written = as_yaml(drafted(*pair({"p1": idle, "p2": idle})))
    assert f"  # p1, p2: {WORDS}\n" in written
