"""Translations of untagged streams as a part of rollouts: their entries, and what is said of them.

`test_mechanisms.py` has what holds for all mechanisms.
"""

from __future__ import annotations

import pytest
from lxml import etree

from cnc.data_tree.tree import NETCONF, STREAM_IDENTIFICATION, BridgeReport, PortReport
from cnc.mechanisms.composition import settings_summary
from cnc.mechanisms.forwarding.preflight import examine_bridge
from cnc.mechanisms.identification.model import Inward, Outward, Translation, Translations
from cnc.mechanisms.identification.registration import MODULE as IDENTIFICATION
from cnc.model import (
    BridgeForwarding,
    IpIdentification,
    NextProtocol,
    Parts,
    PortRef,
    StoredBridge,
    StoredPort,
    StreamAddress,
)
from cnc.rollout.compare import difference_of, needs_change
from cnc.rollout.preflight import Verdict
from cnc.switch.payload import edit_config
from cnc.switch.readback import stored_ports
from cnc.switch.rollout_id import RolloutId
from tests.unit.asked import asked
from tests.unit.places import bridge_report, reported_bridge, stored_bridge

ID = RolloutId("0e1f3ac2-6f0c-4c6b-9f0c-2d0f6a5a7d11", "operator@cnc", "2026-11-23T09:00:00Z")
SID = f"{{{STREAM_IDENTIFICATION}}}"
CAMERA = StreamAddress("02:54:53:4e:00:00", 10)
SCANNER = StreamAddress("02:54:53:4e:00:01", 10)
OTHERS = StreamAddress("02:00:00:00:00:63", 99)
BY_IP = IpIdentification("192.0.2.1", protocol=NextProtocol.UDP, destination_port=5004)
FIRST = Translation(inward=Inward("cam", BY_IP, 5))
LAST = Translation(outward=Outward("panel", "02:00:00:00:00:0c"))
FRAMES = "frames of camera (02:54:53:4e:00:00, VLAN 10)"


def told(**translations: Translation) -> BridgeForwarding:
    """A bridge with streams camera and scanner in VLAN 10, of which some are translated."""
    addresses = {"camera": CAMERA, "scanner": SCANNER}
    return BridgeForwarding(
        dict.fromkeys(addresses.values(), ("s2",)),
        {10: ("cam", "panel", "s2")},
        ("s2",),
        {address: name for name, address in addresses.items()},
        Parts.of(Translations({addresses[name]: its for name, its in translations.items()})),
    )


def read(config: etree._Element) -> StoredPort:
    stored = stored_ports(config, ["br0"])["br0"]
    assert stored
    return stored


def sent(desired: BridgeForwarding, before: StoredPort | None = None) -> etree._Element:
    return edit_config({"br0": asked(desired)}, 0, {"br0": before}, ID)


def numbers(config: etree._Element) -> list[tuple[str, int, int | None]]:
    """Operation, index and handle of each entry of the list that is edited."""
    return [
        (
            entry.get(f"{{{NETCONF}}}operation"),
            int(entry.findtext(f"{SID}index")),
            handle and int(handle),
        )
        for entry in config.iter(f"{SID}stream-identity")
        for handle in [entry.findtext(f"{SID}handle")]
    ]


# --- the payload ---------------------------------------------------------------------------------


def test_the_first_switch_knows_frames_by_one_entry_and_addresses_them_by_another() -> None:
    identify, address = sent(told(camera=FIRST)).iter(f"{SID}stream-identity")
    assert [each.findtext(f"{SID}handle") for each in (identify, address)] == ["1", "1"]
    assert identify.findtext(f"{SID}out-facing/{SID}input-port") == "cam"
    known_by = f"{SID}ip-stream-identification/{SID}"
    assert identify.findtext(f"{known_by}tagged") == "priority"
    assert identify.findtext(f"{known_by}next-protocol") == "udp"
    assert identify.find(f"{known_by}dscp") is None
    down = f"{SID}dmac-vlan-stream-identification/{SID}down/{SID}"
    assert address.findtext(f"{SID}in-facing/{SID}output-port") == "cam"
    values = [
        address.findtext(f"{down}{leaf}")
        for leaf in ("destination-mac", "tagged", "vlan", "priority")
    ]
    assert values == ["02-54-53-4E-00-00", "tagged", "10", "5"]


def test_the_last_switch_gives_frames_to_their_listener_without_a_tag() -> None:
    (entry,) = sent(told(camera=LAST)).iter(f"{SID}stream-identity")
    active = f"{SID}dmac-vlan-stream-identification/{SID}"
    assert entry.findtext(f"{SID}in-facing/{SID}input-port") == "panel"
    assert entry.findtext(f"{active}down/{SID}destination-mac") == "02-54-53-4E-00-00"
    assert entry.find(f"{active}down/{SID}priority") is None
    assert entry.findtext(f"{active}up/{SID}destination-mac") == "02-00-00-00-00-0C"
    assert entry.findtext(f"{active}up/{SID}tagged") == "priority"


def test_streams_that_stay_keep_their_numbers() -> None:
    stored = read(sent(told(camera=FIRST, scanner=LAST)))
    assert numbers(sent(told(scanner=LAST), stored)) == [
        ("remove", 1, None),
        ("remove", 2, None),
        ("replace", 3, 2),
    ]
    assert numbers(sent(told(camera=FIRST), read(sent(told(scanner=LAST))))) == [
        ("remove", 1, None),
        ("replace", 2, 2),
        ("replace", 3, 2),
    ]


@pytest.mark.parametrize(("leaf", "text"), [("tagged", "all"), ("next-protocol", "sctp")])
def test_an_entry_that_no_rollout_sets_so_is_no_translation_and_is_replaced(
    leaf: str, text: str
) -> None:
    config = sent(told(camera=FIRST))
    next(config.iter(f"{SID}{leaf}")).text = text
    stored = read(config)
    assert stored[StoredBridge].forwarding
    assert stored[StoredBridge].forwarding[Translations].by_stream == {}
    assert numbers(sent(told(camera=FIRST), stored)) == [("replace", 1, 1), ("replace", 2, 1)]


def test_a_translation_that_leaves_the_tag_is_none_of_a_rollout() -> None:
    config = sent(told(camera=LAST))
    (*_, tagged) = config.iter(f"{SID}tagged")
    tagged.text = "tagged"
    assert reported_bridge(config).forwarding[Translations].by_stream == {}


def test_a_translation_at_two_ports_is_none_of_a_rollout() -> None:
    config = sent(told(camera=LAST))
    facing = next(config.iter(f"{SID}in-facing"))
    etree.SubElement(facing, f"{SID}input-port").text = "s2"
    assert reported_bridge(config).forwarding[Translations].by_stream == {}


@pytest.mark.parametrize("leaf", ["index", "handle"])
def test_an_entry_without_its_number_is_refused(leaf: str) -> None:
    config = sent(told(camera=LAST))
    next(config.iter(f"{SID}{leaf}")).tag = f"{SID}other"
    with pytest.raises(ValueError, match=f"no {leaf} in a stream-identity"):
        read(config)


# --- the comparison ------------------------------------------------------------------------------


def kernel(does: BridgeForwarding, **options: bool) -> PortReport:
    return bridge_report(BridgeReport(("cam", "panel", "s2"), does, **options))


def stored(its: BridgeForwarding) -> StoredPort:
    return stored_bridge(its)


BACK_TO_ANOTHER = Translation(outward=Outward("panel", "02:00:00:00:00:0d"))
AS_ANOTHER = Translation(inward=Inward("cam", BY_IP, 4))


@pytest.mark.parametrize(
    ("running", "desired", "difference"),
    [
        (told(), told(camera=FIRST), "are not translated at cam: the kernel does not know them"),
        (
            told(camera=AS_ANOTHER),
            told(camera=FIRST),
            f"are translated, not as planned, at cam: {BY_IP}, as PCP 4",
        ),
        (told(camera=FIRST), told(), "are translated at cam, which is not planned"),
        (told(), told(camera=LAST), "are not translated back at panel: they leave with their tag"),
        (
            told(camera=BACK_TO_ANOTHER),
            told(camera=LAST),
            "are translated back, not as planned, at panel, for 02:00:00:00:00:0d",
        ),
        (told(camera=LAST), told(), "are translated back at panel, which is not planned"),
    ],
)
def test_a_kernel_that_drifted_is_described_by_what_becomes_of_frames(
    running: BridgeForwarding, desired: BridgeForwarding, difference: str
) -> None:
    assert difference_of(asked(desired), kernel(running), None) == f"{FRAMES} {difference}"
    reason = needs_change(asked(desired), stored(desired), kernel(running))
    assert reason == f"the kernel drifted: {FRAMES} {difference}"


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        (told(), told(camera=FIRST), f"are translated at cam: {BY_IP}, as PCP 5"),
        (
            told(camera=AS_ANOTHER),
            told(camera=FIRST),
            f"are translated at cam otherwise than before: {BY_IP}, as PCP 5",
        ),
        (told(camera=FIRST), told(), "are no longer translated at cam"),
        (told(), told(camera=LAST), "are translated back at panel, for 02:00:00:00:00:0c"),
        (told(camera=LAST), told(), "are no longer translated back at panel"),
    ],
)
def test_a_change_says_which_frames_are_translated_where(
    before: BridgeForwarding, after: BridgeForwarding, change: str
) -> None:
    assert needs_change(asked(after), stored(before), kernel(before)) == f"{FRAMES} {change}"


# --- the checks before a change ------------------------------------------------------------------


def failures(desired: BridgeForwarding, report: PortReport) -> list[str]:
    found = examine_bridge(PortRef("s1", "br0"), desired, report)
    return [each.text for each in found if each.verdict is Verdict.FAILED]


def test_a_switch_without_the_module_prevents_a_change_that_needs_it() -> None:
    report = kernel(told(), lacking_modules=frozenset({IDENTIFICATION}))
    assert failures(told(camera=FIRST), report) == [
        f"cannot translate frames of camera: the YANG module {IDENTIFICATION} is not installed"
    ]
    assert failures(told(), report) == []


# --- what commands print -------------------------------------------------------------------------


def test_a_bridge_is_summed_up_with_its_translations() -> None:
    assert settings_summary(None, told(camera=FIRST)).endswith(", 1 translation, VLAN 10")
    assert settings_summary(None, told()).endswith("VLAN 10")
