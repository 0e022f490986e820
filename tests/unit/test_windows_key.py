"""`windows` of an intent: frames with instants of their own, or windows that they share."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from cnc import intent
from cnc.model import Windows

LINE3 = Path(__file__).parents[2] / "schedules" / "line3.yaml"
EXACT, SHARED, AUTO = Windows.EXACT, Windows.SHARED, Windows.AUTO


def windows(
    *, of_all: str | None = None, of_classes: Mapping[str, str] | None = None, **of_stream: Any
) -> Windows:
    """What holds for a stream that may use two classes, cyclic and slow."""
    document = yaml.safe_load(LINE3.read_text())
    cyclic = document["classes"]["cyclic"]
    document["classes"]["slow"] = {**cyclic, "traffic-class": 5, "priority": 5, "dscp": [34]}
    for name, its in (of_classes or {}).items():
        document["classes"][name]["windows"] = its
    if of_all:
        document["defaults"]["windows"] = of_all
    name, its = next(iter(document["streams"].items()))
    document["streams"] = {name: its | {"class": ["cyclic", "slow"]} | of_stream}
    return intent.from_document(document, "changed").streams[name].windows


def test_a_stream_that_asks_for_nothing_leaves_its_windows_to_the_plan() -> None:
    assert windows() is AUTO


def test_what_is_stated_nearest_to_the_stream_holds() -> None:
    assert windows(of_all="shared") is SHARED
    of_one: dict[str, Any] = {"class": "cyclic"}
    assert windows(of_all="shared", of_classes={"cyclic": "exact"}, **of_one) is EXACT
    assert windows(of_all="shared", of_classes={"cyclic": "exact"}, windows="auto") is AUTO
    assert windows(of_all="exact", windows="shared") is SHARED


def test_of_several_classes_holds_what_all_of_them_state() -> None:
    assert windows(of_classes={"cyclic": "shared", "slow": "shared"}) is SHARED
    # A class that states nothing is as the network.
    assert windows(of_all="exact", of_classes={"cyclic": "exact"}) is EXACT


@pytest.mark.parametrize("of_classes", [{"cyclic": "exact"}, {"cyclic": "exact", "slow": "shared"}])
def test_where_the_classes_differ_the_network_decides(of_classes: Mapping[str, str]) -> None:
    assert windows(of_classes=of_classes) is AUTO
    assert windows(of_all="shared", of_classes=of_classes) is SHARED


def test_a_limit_of_jitter_asks_for_exact_windows() -> None:
    limit: dict[str, Any] = {"max-jitter": "10us"}
    assert windows(**limit) is EXACT
    assert windows(of_all="shared", windows="auto", **limit) is EXACT
    assert windows(of_all="shared", windows="exact", **limit) is EXACT
