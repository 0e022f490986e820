"""Parts that the first format of the history had not: each has a version of its own."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cnc.mechanism import AtPlace, Kept, Mechanism
from cnc.mechanisms.composition import at_places
from cnc.mechanisms.kept import UnknownPartError
from cnc.mechanisms.registry import MECHANISMS
from cnc.model import (
    BridgeForwarding,
    Management,
    Parts,
    PortGates,
    PortSettings,
    StoredGates,
    StoredPort,
)
from cnc.rollout.history import Outcome, SwitchChange, encoding
from tests.unit.asked import asked
from tests.unit.rollout_history import forget_types, install

BRIDGE_OF_FIRST_FORMAT = (
    Path(__file__).parent / "data/history/be392849-bridged/s1-first.json"
).read_text()


@dataclass(frozen=True, slots=True)
class Colours:
    """A part of a mechanism that the first format had not."""

    names: tuple[str, ...] = ()


def colours(kept: Kept[Colours]) -> Mechanism[Any]:
    return cast("Mechanism[Any]", SimpleNamespace(part=Colours, kept=kept))


COLOURS = colours(Kept("colours", str, lambda its: iter(its.names), Colours, version=2))


def bridge_with(part: object, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """A change that asks a bridge for a part of the mechanism, which is installed from now on."""
    install(monkeypatch, *MECHANISMS, COLOURS)
    bridge = BridgeForwarding({}, {}, (), parts=Parts.of(part))
    change = SwitchChange(Management("192.0.2.1"), {"br0": None}, {"br0": asked(bridge)})
    return encoding.change_to_octets(change)


@pytest.fixture(autouse=True)
def _forget_types() -> Iterator[None]:
    yield
    forget_types()


def read(octets: bytes) -> Parts:
    change = encoding.change_from_octets(octets, Outcome.SAVED, "")
    return change.after["br0"][BridgeForwarding].parts


def test_a_part_that_the_first_format_had_not_makes_another_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    octets = bridge_with(Colours(("red", "blue")), monkeypatch)
    document = json.loads(zlib.decompress(octets))
    assert document["format"] == "cnc-change/2"
    stored = document["bridges"]["br0"]["after"]["parts"]
    assert stored == {"colours": {"version": 2, "rows": ["red", "blue"]}}
    assert read(octets)[Colours] == Colours(("red", "blue"))


def test_a_bridge_that_is_not_asked_for_it_is_written_as_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    document = json.loads(zlib.decompress(bridge_with(Colours(), monkeypatch)))
    assert document["format"] == "cnc-change/1"
    assert "parts" not in document["bridges"]["br0"]["after"]


def at_port(monkeypatch: pytest.MonkeyPatch, *others: object) -> bytes:
    """A change that asks a port for colours, beside `others`, where red was stored."""
    place = cast("AtPlace[Any]", SimpleNamespace(part=Colours, kept=COLOURS.kept))
    monkeypatch.setattr(encoding, "at_places", lambda: (*at_places(), place))
    before = StoredPort.of(StoredGates(), Colours(("red",)))
    after = PortSettings.of(Colours(("blue",)), *others)
    change = SwitchChange(Management("192.0.2.1"), {"p1": before}, {"p1": after})
    return encoding.change_to_octets(change)


@pytest.mark.parametrize("others", [(), (PortGates(),)], ids=["alone", "beside gates"])
def test_a_part_of_a_port_that_the_first_format_had_not_is_written_and_read(
    others: tuple[object, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    octets = at_port(monkeypatch, *others)
    assert json.loads(zlib.decompress(octets))["format"] == "cnc-change/3"
    read = encoding.change_from_octets(octets, Outcome.SAVED, "")
    assert read.after == {"p1": PortSettings.of(Colours(("blue",)), *others)}
    assert read.before == {"p1": StoredPort.of(StoredGates(), Colours(("red",)))}


def test_a_part_of_a_port_that_is_not_installed_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    octets = at_port(monkeypatch)
    monkeypatch.setattr(encoding, "at_places", at_places)
    with pytest.raises(UnknownPartError, match="it has 'colours' of a mechanism that"):
        encoding.change_from_octets(octets, Outcome.SAVED, "")


def test_a_part_of_a_mechanism_that_is_not_installed_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    octets = bridge_with(Colours(("red",)), monkeypatch)
    install(monkeypatch, *MECHANISMS)
    with pytest.raises(UnknownPartError, match="it has 'colours' of a mechanism that"):
        read(octets)


def test_a_part_of_a_newer_version_is_refused_and_of_an_older_one_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    octets = bridge_with(Colours(("red",)), monkeypatch)
    first = replace(COLOURS.kept, version=1)
    install(
        monkeypatch, *MECHANISMS, cast("Mechanism[Any]", SimpleNamespace(part=Colours, kept=first))
    )
    with pytest.raises(UnknownPartError, match="in version 2, and version 1 is installed"):
        read(octets)
    third = replace(
        COLOURS.kept, version=3, former={2: lambda rows: Colours(tuple(f"light {r}" for r in rows))}
    )
    install(
        monkeypatch, *MECHANISMS, cast("Mechanism[Any]", SimpleNamespace(part=Colours, kept=third))
    )
    assert read(octets)[Colours] == Colours(("light red",))


@pytest.mark.parametrize("key", ["translations", "sequencing", "filters"])
def test_rows_of_the_first_format_are_read_by_a_kind_whose_version_was_raised(
    key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = next(each.part for each in MECHANISMS if each.kept.key == key)
    seen: list[Any] = []

    def of_first(rows: list[Any]) -> Any:
        seen.extend(rows)
        return kind()

    raise_version(key, {1: of_first}, monkeypatch)
    read(zlib.compress(BRIDGE_OF_FIRST_FORMAT.encode()))
    assert seen == json.loads(BRIDGE_OF_FIRST_FORMAT)["bridges"]["br0"]["after"][key]


@pytest.mark.parametrize("key", ["translations", "sequencing", "filters"])
def test_rows_of_the_first_format_that_nothing_reads_are_refused_by_name(
    key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    octets = zlib.compress(BRIDGE_OF_FIRST_FORMAT.encode())
    raise_version(key, {}, monkeypatch)
    with pytest.raises(UnknownPartError, match=f"it has '{key}' in version 1"):
        read(octets)


def raise_version(
    key: str, former: dict[int, Callable[[list[Any]], Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Install the mechanism of this key with rows of a second version."""
    raised = tuple(
        replace(each, kept=replace(each.kept, version=2, former=former))
        if each.kept.key == key
        else each
        for each in MECHANISMS
    )
    install(monkeypatch, *raised)
