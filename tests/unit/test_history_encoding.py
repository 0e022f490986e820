"""What a rollout changed can be read again exactly, whatever mechanisms had to do with it."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from cnc.mechanism import Mechanism
from cnc.mechanisms import composition
from cnc.mechanisms.registry import MECHANISMS
from cnc.model import (
    BridgeForwarding,
    Management,
    Parts,
    PortSettings,
    StoredBridge,
    StoredGates,
    StoredPort,
    TalkerTable,
)
from cnc.rollout.history import Outcome, SwitchChange, encoding
from tests.unit.rollout_history import forget_types, install

RECORDED = (Path(__file__).parent / "data/history/0.1.0-routed/s1-first.json").read_text()

# By itself hypothesis makes any kind of mapping, of which JSON knows one.
st.register_type_strategy(
    Mapping,
    lambda its: st.dictionaries(*map(st.from_type, get_args(its)), max_size=2),
)
names = st.text(min_size=1, max_size=15)


def rows_of(mechanism: Mechanism[Any]) -> st.SearchStrategy[Any]:
    rows = st.lists(st.from_type(mechanism.kept.row), max_size=2)
    return rows.map(lambda its: mechanism.kept.part(tuple(its)))


parts = st.tuples(*map(rows_of, MECHANISMS)).map(lambda its: Parts.of(*its))
forwardings = st.builds(
    lambda its, of_mechanisms: replace(
        its, names=dict.fromkeys(its.entries, "camera"), parts=of_mechanisms
    ),
    st.builds(BridgeForwarding, entries=..., vlans=..., trusting=...),
    parts,
)
settings_of_ports = st.lists(
    st.sampled_from([each for each in composition.at_places() if not each.of_bridges]),
    min_size=1,
    unique_by=lambda place: place.part,
).flatmap(
    lambda its: st.builds(PortSettings.of, *(st.from_type(each.part) for each in its)),
)


stored_gates = st.from_type(StoredGates)
stored_ports = st.one_of(
    stored_gates.map(StoredPort.of),
    st.from_type(TalkerTable).map(StoredPort.of),
    # The first format does not tell a port with talkers alone from one without gates.
    st.builds(
        StoredPort.of,
        stored_gates.filter(lambda its: its != StoredGates()),
        st.from_type(TalkerTable),
    ),
)
# An edit reads the tables of a switch anew.
stored_bridges = st.just(StoredPort()) | forwardings.map(
    lambda its: StoredPort.of(StoredBridge(its))
)


def changes_of(
    before: st.SearchStrategy[StoredPort], after: st.SearchStrategy[PortSettings]
) -> st.SearchStrategy[SwitchChange]:
    places = st.dictionaries(names, st.tuples(st.none() | before, after), max_size=2)
    return st.builds(
        lambda management, its: SwitchChange(
            management,
            {place: before for place, (before, _) in its.items()},
            {place: after for place, (_, after) in its.items()},
        ),
        st.from_type(Management),
        places,
    )


changes = st.builds(
    lambda ports, bridges: replace(
        ports, before={**ports.before, **bridges.before}, after={**ports.after, **bridges.after}
    ),
    changes_of(stored_ports, settings_of_ports),
    changes_of(stored_bridges, forwardings.map(PortSettings.of)),
)


def read(octets: bytes) -> SwitchChange:
    return encoding.change_from_octets(octets, Outcome.UNKNOWN, "")


def names_of(change: SwitchChange) -> list[Any]:
    return [bridge.names for its in change.after.values() if (bridge := its.get(BridgeForwarding))]


def raised(mechanism: Mechanism[Any]) -> Mechanism[Any]:
    """The mechanism with rows of another version than the first format has."""
    return replace(mechanism, kept=replace(mechanism.kept, version=2, former={1: list}))


@pytest.fixture(params=["as registered", "with rows of a second version"])
def _versions(request: pytest.FixtureRequest) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        if request.param != "as registered":
            install(patch, *map(raised, MECHANISMS))
        yield
    forget_types()


@pytest.mark.usefixtures("_versions")
@settings(phases=(Phase.reuse, Phase.generate, Phase.shrink))  # to explain takes a minute
@given(changes)
def test_a_change_survives_the_way_through_octets(change: SwitchChange) -> None:
    found = read(encoding.change_to_octets(change))
    assert found == change
    assert names_of(found) == names_of(change)


def changed(found: str, other: str) -> bytes:
    assert found in RECORDED
    return zlib.compress(RECORDED.replace(found, other).encode())


@pytest.mark.parametrize(
    "octets",
    [
        pytest.param(b"no deflated text", id="no deflated text"),
        pytest.param(zlib.compress(RECORDED.encode())[:-9], id="cut short"),
        pytest.param(changed("cnc-change/1", "cnc-change/9"), id="another format"),
        pytest.param(changed("1000000", '"1000000"'), id="another type"),
        pytest.param(changed('"number_of_classes": 7,', ""), id="a field is missing"),
    ],
)
def test_anything_else_is_refused(octets: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        read(octets)
