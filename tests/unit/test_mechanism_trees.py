"""How mechanisms are set and read in the data tree of a switch, whichever they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from lxml import etree

from cnc.data_tree import reply
from cnc.data_tree.reply import Reply
from cnc.mechanism import Edit, Mechanism
from cnc.mechanisms.frer.model import Generation, SequenceFunctions
from cnc.mechanisms.handles import Handles
from cnc.mechanisms.registry import MECHANISMS
from cnc.mechanisms.stream_filters.model import (
    FilteredStream,
    FixedGate,
    Policing,
    StreamFilter,
    StreamFilters,
)
from cnc.model import BridgeForwarding, Parts, StreamAddress
from cnc.switch.payload import edit_config
from cnc.switch.readback import port_reports, stored_ports
from cnc.switch.rollout_id import RolloutId
from tests.unit.asked import asked

ID = RolloutId("0e1f3ac2-6f0c-4c6b-9f0c-2d0f6a5a7d11", "operator@cnc", "2026-11-23T09:00:00Z")
AXIS = StreamAddress("03:54:53:4e:00:00", 10)
FILTER = StreamFilter(
    FilteredStream(AXIS.destination_mac, AXIS.vlan_id, "t"), 6, 0, FixedGate.CLOSED, Policing.DROP
)
TOLD = BridgeForwarding(
    {AXIS: ("s2",)},
    {10: ("s2", "t")},
    (),
    parts=Parts.of(SequenceFunctions({AXIS: Generation("t")}), StreamFilters((FILTER,))),
)

each_mechanism = pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda each: each.name)


@each_mechanism
def test_nothing_asked_is_nothing_sent(mechanism: Mechanism[Any]) -> None:
    nothing, tree = mechanism.part(), mechanism.tree()
    edit = Edit(0, Handles({}, ()), Parts())
    streams, _ = tree.streams.edit([nothing], {}, (), Parts()) if tree.streams else ([], None)
    sent = [*tree.edit([nothing], edit), *tree.edit_bridge(nothing, nothing, edit), *streams]
    assert sent == []


@each_mechanism
def test_of_a_switch_that_has_nothing_nothing_is_read(mechanism: Mechanism[Any]) -> None:
    stored = mechanism.tree().stored(Reply(etree.Element("data")), None)
    assert stored.part == mechanism.part()
    assert stored.table is None or stored.table == type(stored.table)()


def test_one_mechanism_names_streams_for_all_and_has_their_table() -> None:
    naming = [each.name for each in MECHANISMS if each.switch.names_streams]
    assert len(naming) == 1
    assert [each.name for each in MECHANISMS if each.tree().streams] == naming


@pytest.mark.parametrize("read", [stored_ports, port_reports])
def test_the_table_of_streams_is_read_once_for_all_who_refer_to_it(
    monkeypatch: pytest.MonkeyPatch, read: Callable[..., object]
) -> None:
    config = edit_config({"br0": asked(TOLD)}, 0, {}, ID)
    paths: list[str] = []
    entries = reply.entries

    def noted(parent: reply.Element, path: str, *others: Any) -> Iterator[reply.Element]:
        paths.append(path.rpartition(":")[2])
        return entries(parent, path, *others)

    monkeypatch.setattr(reply, "entries", noted)
    read(config, ["br0"])
    assert {"sequence-generation", "stream-filter-instance-table"} <= {*paths}
    assert paths.count("stream-identity") == 1
