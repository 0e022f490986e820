"""The keys of an intent that mechanisms, control loops and a lab have."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

import pytest

from cnc.keys import shape
from cnc.keys.contributed import KEYS
from cnc.keys.keys import Level
from cnc.keys.mapping import After, Shape, fields_of

OF_LEVEL: dict[Level, type[Shape]] = {
    Level.NETWORK: shape.Document,
    Level.DEFAULTS: shape.Defaults,
    Level.CLASS: shape.Class,
    Level.SWITCH: shape.Switch,
    Level.PORT: shape.Port,
    Level.END_STATION: shape.EndStation,
    Level.LINK: shape.Link,
    Level.STREAM: shape.Stream,
}


@pytest.mark.parametrize("level", Level)
def test_each_key_is_of_one_room_and_stands_behind_one_that_is_there(level: Level) -> None:
    keys = [str(its.alias) for its in fields_of(OF_LEVEL[level])]
    theirs = [each.shapes[level] for each in KEYS if level in each.shapes]
    fields = [its for shape in theirs for its in shape.model_fields.values()]
    count = Counter(str(its.alias) for its in fields)
    assert set(count.values()) <= {1}
    for its in fields:
        for behind in (each for each in its.metadata if isinstance(each, After)):
            assert keys.index(str(its.alias)) == keys.index(behind.key) + 1


def test_keys_of_another_level_are_not_read() -> None:
    (of_stream,) = (
        each.shapes[Level.STREAM] for each in KEYS if each.shapes.keys() == {Level.STREAM}
    )
    with pytest.raises(TypeError, match="Port has no keys of"):
        shape.Port.model_validate({})[of_stream]


@pytest.mark.parametrize("name", ["frer", "identification", "stream_filters", "talker_offsets"])
def test_keys_of_a_mechanism_can_be_imported_before_anything_else(name: str) -> None:
    subprocess.run([sys.executable, "-c", f"import cnc.mechanisms.{name}.keys"], check=True)
