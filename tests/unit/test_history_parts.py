"""Parts that the first format of the history had not: each has a version of its own."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from cnc.mechanism import Kept
from cnc.mechanisms.registry import KEPT
from cnc.model import BridgeForwarding, Management, Parts, PortSettings
from cnc.rollout.history import Outcome, SwitchChange, encoding


@dataclass(frozen=True, slots=True)
class Colours:
    """A part of a mechanism that the first format had not."""

    names: tuple[str, ...] = ()


COLOURS: Kept[Colours] = Kept("colours", str, lambda its: iter(its.names), Colours, version=2)


def bridge_with(part: Colours, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """A change that asks a bridge for a part of the mechanism, which is installed from now on."""
    install(monkeypatch, COLOURS)
    bridge = PortSettings.of(BridgeForwarding({}, {}, (), parts=Parts.of(part)))
    change = SwitchChange(Management("192.0.2.1"), {"br0": None}, {"br0": bridge})
    return encoding.change_to_octets(change)


def install(monkeypatch: pytest.MonkeyPatch, *kept: Kept[Colours]) -> None:
    monkeypatch.setattr(encoding, "KEPT", (*KEPT, *((Colours, each) for each in kept)))
    for cached in (encoding._forwarding, encoding._document):
        cached.cache_clear()


@pytest.fixture(autouse=True)
def _forget_types() -> Iterator[None]:
    yield
    for cached in (encoding._forwarding, encoding._document):
        cached.cache_clear()


def read(octets: bytes) -> Parts:
    return (
        encoding.change_from_octets(octets, Outcome.SAVED, "").after["br0"][BridgeForwarding].parts
    )


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


def test_a_part_of_a_mechanism_that_is_not_installed_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    octets = bridge_with(Colours(("red",)), monkeypatch)
    install(monkeypatch)
    with pytest.raises(encoding.UnknownPartError, match="it has 'colours' of a mechanism that"):
        read(octets)


def test_a_part_of_a_newer_version_is_refused_and_of_an_older_one_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    octets = bridge_with(Colours(("red",)), monkeypatch)
    first = replace(COLOURS, version=1)
    install(monkeypatch, first)
    with pytest.raises(encoding.UnknownPartError, match="in version 2, and version 1 is installed"):
        read(octets)
    third = replace(
        COLOURS, version=3, former={2: lambda rows: Colours(tuple(f"light {r}" for r in rows))}
    )
    install(monkeypatch, third)
    assert read(octets)[Colours] == Colours(("light red",))
