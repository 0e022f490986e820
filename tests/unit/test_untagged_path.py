"""`cnc path` follows a stream that its talker sends untagged."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pytest

from cnc import intent as intents
from cnc.cli import render
from cnc.data_tree.tree import BridgeReport
from cnc.mechanisms.composition import bridge_forwardings
from cnc.mechanisms.identification.model import Inward, Outward, Translation, Translations
from cnc.model import BridgeForwarding, IpIdentification, NextProtocol, Plan
from cnc.planner import plan as compute
from cnc.rollout.path import Seen, StreamPath, walk
from cnc.switch.device import DeviceError, Managed
from tests import bridged_networks as documents
from tests.json_documents import documented
from tests.unit.asked import desired_ports

L1 = "02:00:00:00:00:0c"
BY_IP = IpIdentification("192.0.2.1", protocol=NextProtocol.UDP, destination_port=5004)
KNOWN = f"frames of the stream are {BY_IP} at t1,"


@pytest.fixture(scope="module")
def plan() -> Plan:
    document = documents.line().document
    stations = {name: {} for name in document["end-stations"]}
    stations["l1"] = {"mac": "02:00:00:00:00:0c"}
    known_by = {"ip": {"destination": "192.0.2.1", "protocol": "udp", "destination-port": 5004}}
    streams = {"camera": documents.stream("t1", "l1", identification=known_by, ip=4)}
    whole = {**document, "policing": "off", "end-stations": stations, "streams": streams}
    return compute(intents.from_document(whole, "line"))


def followed(plan: Plan, change: Callable[[dict[str, BridgeForwarding]], None]) -> StreamPath:
    """Through switches that do as planned but for a change."""
    does = bridge_forwardings(plan)
    change(does)

    def ask(names: Sequence[str]) -> Mapping[str, Seen | DeviceError]:
        return {name: Seen(BridgeReport((), does[name])) for name in names}

    return walk(plan, "camera", ask)


def test_path_shows_what_becomes_of_frames_at_the_first_and_the_last_switch(
    plan: Plan, capsys: pytest.CaptureFixture[str]
) -> None:
    found = followed(plan, lambda does: None)
    assert [hop.done.get("translation") for hop in found.hops] == [
        "IP to 192.0.2.1, UDP, to port 5004: to 02:54:53:4e:00:00, VLAN 10, PCP 6",
        None,
        "untagged to 02:00:00:00:00:0c by l1",
    ]
    assert found.deviations == ()
    render.path(found, as_json=True)
    hops = documented("path", capsys.readouterr().out)["hops"]
    assert ["translation" in hop for hop in hops] == [True, False, True]


@pytest.mark.parametrize(
    ("switch", "translation", "deviations"),
    [
        (
            "s1",
            None,
            (
                "s1: frames stay untagged, in no VLAN of streams: the kernel does not know them",
                "l1: gets no frame",
            ),
        ),
        (
            "s1",
            Translation(Inward("t1", BY_IP, 5)),
            (f"s1: {KNOWN} as PCP 5; planned: {BY_IP} at t1, as PCP 6", "l1: gets no frame"),
        ),
        ("s3", None, ("s3: frames leave tagged; planned: to 02:00:00:00:00:0c by l1",)),
        (
            "s3",
            Translation(outward=Outward("l1", "02:00:00:00:00:0d")),
            ("s3: frames leave to 02:00:00:00:00:0d by l1; planned: to 02:00:00:00:00:0c by l1",),
        ),
    ],
)
def test_path_says_where_frames_are_translated_otherwise(
    plan: Plan, switch: str, translation: Translation | None, deviations: tuple[str, ...]
) -> None:
    def change(does: dict[str, BridgeForwarding]) -> None:
        (address,) = plan.addresses.values()
        its = {address: translation} if translation else {}
        does[switch] = does[switch].having(Translations(its))

    assert followed(plan, change).deviations == deviations


def test_a_session_asks_for_the_module_where_frames_are_to_be_translated(plan: Plan) -> None:
    bridges = plan.intent.network.bridges
    asked = {name: Managed.of(its, desired_ports(plan, name)) for name, its in bridges.items()}
    assert [asked[name].needs_modules for name in ("s1", "s2", "s3")] == [True, False, True]
