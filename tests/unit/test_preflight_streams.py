"""What `cnc doctor` and a push find where a kernel cannot do what bridges are asked to."""

from __future__ import annotations

import pytest
from lxml import etree

from cnc.data_tree.tree import AgentReport, BridgeReport
from cnc.mechanisms.forwarding.kernel import examine_kernel
from cnc.mechanisms.forwarding.preflight import examine_bridge
from cnc.mechanisms.frer.model import Generation, Recovery, SequenceFunctions
from cnc.mechanisms.identification.model import Inward, Translation, Translations
from cnc.mechanisms.stream_filters.model import (
    FixedGate,
    Policing,
    Strangers,
    StreamFilter,
    StreamFilters,
)
from cnc.model import (
    NO_FORWARDING,
    BridgeForwarding,
    IpIdentification,
    Parts,
    PortRef,
    StreamAddress,
)
from cnc.rollout.preflight import Check, Finding, Verdict
from cnc.switch.readback import agent_report
from tests.unit.places import bridge_report, reported_bridge
from tests.unit.test_preflight_bridges import ANSWER

CAMERA, MOTION = (StreamAddress(f"91:e0:f0:00:fe:0{n}", 10) for n in (1, 2))
POLICING = BridgeForwarding(
    {},
    {},
    (),
    parts=Parts.of(
        StreamFilters((StreamFilter(Strangers("t1"), 5, 0, FixedGate.CLOSED, Policing.COUNT),))
    ),
)
ELIMINATING = BridgeForwarding(
    {},
    {},
    (),
    parts=Parts.of(
        SequenceFunctions({CAMERA: Generation("t1"), MOTION: Recovery(("s2", "s3"), 4, 3)})
    ),
)
FORWARDING = BridgeForwarding({CAMERA: ("s2",)}, {10: ("s2", "t1")}, ())
TRANSLATING = BridgeForwarding(
    {},
    {},
    (),
    parts=Parts.of(
        Translations({CAMERA: Translation(Inward("t1", IpIdentification("192.0.2.4"), 5), None)})
    ),
)
NO_TABLE = "this kernel takes no table of nftables for bridges: Operation not supported"
NO_ACTION = "this kernel has no act_pedit: No such file or directory (ENOENT)"
NO_LIBRARY = "libbpf.so.1: cannot open shared object file; install the package libbpf1"
ABLE = AgentReport(37, None)
UNABLE = AgentReport(37, None, refused={"stream_filters": NO_LIBRARY, "frer": NO_LIBRARY})
NO_OPTIONS = AgentReport(37, None, refused={"forwarding": NO_TABLE, "identification": NO_ACTION})


@pytest.mark.parametrize(
    ("desired", "text", "otherwise"),
    [
        (
            POLICING,
            "cannot police what end stations send, or tell intervals apart",
            "policing: off` and no `shaping: cqf",
        ),
        (ELIMINATING, "cannot eliminate duplicate frames", "elimination: listener"),
    ],
)
def test_a_kernel_that_refuses_a_program_fails_a_switch_that_is_to_run_it(desired, text, otherwise):
    assert list(examine_kernel("s1", [desired], UNABLE)) == [
        Finding(
            "s1",
            None,
            Check.KERNEL,
            Verdict.FAILED,
            f"{text}: {NO_LIBRARY}",
            f"cure that on the switch, or state `{otherwise}`",
        )
    ]


def test_a_kernel_without_the_table_that_holds_frames_back_fails_a_switch_that_forwards_streams():
    (finding,) = examine_kernel("s1", [FORWARDING], NO_OPTIONS)
    assert (finding.check, finding.verdict) == (Check.KERNEL, Verdict.FAILED)
    assert finding.text == (
        f"cannot forward the frames of streams by their listed ports alone: {NO_TABLE}"
    )
    assert finding.hint == "cure that on the switch, or state `forwarding: routed`"


@pytest.mark.parametrize("desired", [TRANSLATING, ELIMINATING], ids=["translates", "numbers"])
def test_a_kernel_without_an_action_fails_a_switch_that_is_to_know_streams(desired):
    (finding,) = examine_kernel("s1", [desired], NO_OPTIONS)
    assert finding.text == f"cannot identify streams: {NO_ACTION}"
    assert finding.hint == (
        "cure that on the switch, or state `policing: off`, and neither `identification` nor "
        "`elimination: switch`"
    )


def test_a_kernel_that_can_do_all_is_not_worth_a_word():
    all_of_it = [FORWARDING, TRANSLATING, POLICING, ELIMINATING]
    assert list(examine_kernel("s1", all_of_it, ABLE)) == []


def test_programs_that_no_bridge_needs_are_not_worth_a_word():
    assert list(examine_kernel("s1", [NO_FORWARDING], UNABLE)) == []
    assert list(examine_kernel("s1", [NO_FORWARDING], NO_OPTIONS)) == []


def failures(desired: BridgeForwarding, hides_tags: set[str]) -> list[Finding]:
    report = BridgeReport(("s2", "s3", "t1"), NO_FORWARDING, hides_tags=frozenset(hides_tags))
    found = examine_bridge(PortRef("s1", "br0"), desired, bridge_report(report))
    return [each for each in found if each.verdict is Verdict.FAILED]


def test_ports_that_hide_the_tags_of_numbered_frames_are_told_with_the_commands():
    (finding,) = failures(ELIMINATING, hides_tags={"t1", "s3"})
    assert finding.text == (
        "cannot eliminate duplicate frames: the driver of s3, t1 takes their VLAN tags "
        "off (rx-vlan-offload)"
    )
    assert finding.hint == (
        "turn that off on the switch, and at each start of it: "
        "ethtool -K s3 rxvlan off; ethtool -K t1 rxvlan off"
    )


def test_ports_that_hide_tags_where_no_frame_is_numbered_are_not_worth_a_word():
    assert failures(POLICING, hides_tags={"t1", "s4"}) == []
    assert failures(ELIMINATING, hides_tags={"s4"}) == []


def test_what_the_agent_says_is_read():
    hiding = ANSWER.replace(
        "<t:interface>p1</t:interface><t:spanning-tree-state>",
        "<t:interface>p1</t:interface><t:rx-vlan-offload>true</t:rx-vlan-offload>"
        "<t:spanning-tree-state>",
    )
    assert reported_bridge(etree.fromstring(hiding)).hides_tags == {"p1"}
    assert reported_bridge(etree.fromstring(ANSWER)).hides_tags == set()
    told = """
      <data xmlns="urn:ietf:params:xml:ns:netconf:base:1.0">
        <agent xmlns="urn:tsn-control-plane:yang:tsn-linux">
          <pid>1</pid>
          <forwarding-refused>no table</forwarding-refused>
          <identification-refused>no action</identification-refused>
          <stream-filters-refused>no libbpf</stream-filters-refused>
          <frer-refused>no verifier</frer-refused>
        </agent>
      </data>
    """
    report = agent_report(etree.fromstring(told))
    assert report is not None
    assert report.refused == {
        "forwarding": "no table",
        "identification": "no action",
        "stream_filters": "no libbpf",
        "frer": "no verifier",
    }
