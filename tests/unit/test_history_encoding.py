"""What a rollout changed can be read again exactly, also by a later `cnc`."""

from __future__ import annotations

import json
import zlib
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cnc.mechanisms.frer.model import SequenceFunctions
from cnc.mechanisms.identification.model import Translations
from cnc.mechanisms.stream_filters.model import StreamFilters
from cnc.model import (
    BridgeForwarding,
    GateControlList,
    GateEntry,
    GateMode,
    Management,
    PortConfiguration,
    StoredGates,
    StoredPort,
    StreamAddress,
    TalkerStream,
    TalkerStreams,
    TalkerTable,
)
from cnc.rollout.history import Outcome, SwitchChange, encoding
from tests.unit.asked import asked
from tests.unit.places import stored_bridge, stored_gates

# As version 1 wrote it. Rollouts that were recorded must stay readable: never change this text.
FIRST_FORMAT = """
{"format": "cnc-change/1",
 "management": {"address": "192.0.2.1", "port": 830, "user": "admin"},
 "before": {"p1": null,
            "p2": {"configuration": null, "base_time_ns": 7, "dscps": [46, 8]}},
 "after": {"p1": {"number_of_classes": 2, "priority_map": [0, 0, 0, 0, 0, 0, 0, 1],
                  "mode": "full-offload",
                  "gates": {"cycle_ns": 1000000,
                            "entries": [{"gate_states": 129, "interval_ns": 1000000}]},
                  "dscp_priorities": {"46": 7}},
           "p2": null}}
"""

# As it wrote a bridge that does all that bridges were asked to do at the end of November 2026. Both
# read what the other writes: never change this text.
BRIDGE_OF_FIRST_FORMAT = """
{"format": "cnc-change/1",
 "management": {"address": "192.0.2.1", "port": 830, "user": null},
 "before": {"br0": {"configuration": null, "base_time_ns": 0, "dscps": [], "extras": [],
                    "talker": null, "forwarding": null, "identities": [],
                    "sequencing": {"generations": {}, "recoveries": {}, "identifications": {}},
                    "filters": [{"number": 1, "gate": 1, "filter": null}]}},
 "after": {"br0": null},
 "bridges": {"br0": {
   "before": null,
   "after": {
     "entries": [{"address": {"destination_mac": "03:54:53:4e:00:00", "vlan_id": 10},
                  "ports": ["s2"], "name": "axis"}],
     "vlans": {"10": ["s2", "t"]}, "trusting": ["s2"],
     "translations": [{"address": {"destination_mac": "03:54:53:4e:00:00", "vlan_id": 10},
                       "translation": {"inward": null,
                                       "outward": {"port": "s2",
                                                   "listener_mac": "02:00:00:00:00:01"}}}],
     "sequencing": [{"address": {"destination_mac": "03:54:53:4e:00:00", "vlan_id": 10},
                     "function": {"port": "t"}}],
     "filters": [{"of": {"destination_mac": "03:54:53:4e:00:00", "vlan_id": 10, "port": "t"},
                  "priority": 6, "max_sdu_octets": 0, "gate": "closed", "policing": "drop"}]}}}}
"""

times_ns = st.integers(0, 2**63 - 1)
names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=15)
dscps = st.integers(0, 63)
gates = st.builds(
    GateControlList,
    times_ns,
    st.lists(st.builds(GateEntry, st.integers(0, 255), times_ns)).map(tuple),
)
configurations = st.builds(
    PortConfiguration,
    number_of_classes=st.integers(1, 8),
    priority_map=st.tuples(*[st.integers(0, 7)] * 8),
    mode=st.sampled_from(GateMode),
    gates=gates,
    dscp_priorities=st.dictionaries(dscps, st.integers(0, 7)),
)
streams = st.builds(
    TalkerStream,
    names,
    st.integers(1, 2),
    times_ns,
    times_ns,
    st.integers(0, 65535),
    st.integers(0, 7),
    st.none() | dscps,
    st.lists(names, max_size=3).map(tuple),
)
talkers = st.builds(TalkerStreams, st.lists(streams, max_size=3).map(tuple))
gates = st.builds(
    StoredGates, st.none() | configurations, times_ns, st.frozensets(dscps), st.just(("an extra",))
)
tables = st.builds(TalkerTable, times_ns, talkers)
stored_ports = st.one_of(
    st.builds(StoredPort.of, gates),
    st.builds(StoredPort.of, tables),
    st.builds(StoredPort.of, gates, tables),
    st.just(stored_gates(None)),
)
changes = st.builds(
    SwitchChange,
    st.builds(Management, names, st.integers(1, 65535), st.none() | names),
    st.dictionaries(names, st.none() | stored_ports, max_size=4),
    st.dictionaries(
        names,
        st.builds(asked, st.none() | configurations)
        | st.builds(asked, talkers)
        | st.builds(asked, talkers, st.none() | configurations),
        max_size=4,
    ),
    st.sampled_from(Outcome),
    st.text(),
)


macs = st.binary(min_size=6, max_size=6).map(lambda octets: octets.hex(":"))
addresses = st.builds(StreamAddress, macs, st.integers(1, 4094))
port_lists = st.lists(names, max_size=3).map(tuple)
forwardings = st.builds(
    BridgeForwarding,
    st.dictionaries(addresses, port_lists, max_size=3),
    st.dictionaries(st.integers(1, 4094), port_lists, max_size=3),
    port_lists,
)


@given(changes, names, forwardings, st.none() | forwardings)
def test_what_a_bridge_forwarded_survives_the_way_through_octets(
    change: SwitchChange, bridge: str, after: BridgeForwarding, before: BridgeForwarding | None
) -> None:
    named = replace(after, names=dict.fromkeys(after.entries, "camera"))
    stored = None if before is None else stored_bridge(before)
    told = replace(
        change,
        before={**change.before, bridge: stored},
        after={**change.after, bridge: asked(named)},
    )
    octets = encoding.change_to_octets(told)
    read = encoding.change_from_octets(octets, change.outcome, change.detail)
    assert read == told
    assert read.after[bridge][BridgeForwarding].names == named.names


@given(changes)
def test_a_change_survives_the_way_through_octets(change: SwitchChange) -> None:
    octets = encoding.change_to_octets(change)
    assert encoding.change_from_octets(octets, change.outcome, change.detail) == change


def test_what_the_first_version_recorded_can_still_be_read() -> None:
    octets = zlib.compress(FIRST_FORMAT.encode())
    entry = GateEntry(0x81, 1_000_000)
    assert encoding.change_from_octets(octets, Outcome.SAVED, "") == SwitchChange(
        Management("192.0.2.1", 830, "admin"),
        before={"p1": None, "p2": stored_gates(None, 7, dscps=frozenset({8, 46}))},
        after={
            "p1": asked(
                PortConfiguration(
                    number_of_classes=2,
                    priority_map=(0, 0, 0, 0, 0, 0, 0, 1),
                    mode=GateMode.FULL_OFFLOAD,
                    gates=GateControlList(1_000_000, (entry,)),
                    dscp_priorities={46: 7},
                )
            ),
            "p2": asked(None),
        },
        outcome=Outcome.SAVED,
    )


def test_a_bridge_is_written_as_the_first_version_wrote_and_reads_it() -> None:
    octets = zlib.compress(BRIDGE_OF_FIRST_FORMAT.encode())
    change = encoding.change_from_octets(octets, Outcome.SAVED, "")
    address = StreamAddress("03:54:53:4e:00:00", 10)
    assert change.before == {"br0": StoredPort()}
    told = change.after["br0"][BridgeForwarding]
    assert {*told[SequenceFunctions].by_stream} == {*told[Translations].by_stream} == {address}
    assert [each.priority for each in told[StreamFilters].filters] == [6]
    written, first = map(_document, (encoding.change_to_octets(change), octets))
    assert written["bridges"] == first["bridges"]
    # What was written of the tables was never asked for, and is not needed to read the rest.
    added = {"is_draft": False, "has_interface_gates": False}
    assert written["before"]["br0"].items() <= {**added, **first["before"]["br0"]}.items()


def _document(octets: bytes) -> Any:
    return json.loads(zlib.decompress(octets))


@pytest.mark.parametrize(
    "octets",
    [
        pytest.param(b"no deflated text", id="no deflated text"),
        pytest.param(zlib.compress(FIRST_FORMAT.encode())[:-9], id="cut short"),
        pytest.param(
            zlib.compress(FIRST_FORMAT.replace("cnc-change/1", "cnc-change/9").encode()),
            id="another format",
        ),
        pytest.param(
            zlib.compress(FIRST_FORMAT.replace("1000000", '"1000000"').encode()), id="another type"
        ),
        pytest.param(
            zlib.compress(FIRST_FORMAT.replace('"number_of_classes": 2, ', "").encode()),
            id="a field is missing",
        ),
    ],
)
def test_anything_else_is_refused(octets: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        encoding.change_from_octets(octets, Outcome.UNKNOWN, "")
