"""Whatever an operator or a program writes, the answer is an intent or an `InputError`."""

import contextlib
import copy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cnc import intent
from cnc.errors import InputError

LINE3 = Path(__file__).parents[2] / "schedules" / "line3.yaml"
DOCUMENT = intent.load(LINE3).document

# Words with a meaning somewhere in a document, met where they have none.
WORDS = [
    "t1",
    "s1",
    "cyclic",
    "1ms",
    "0B",
    "1Gbps",
    "s1/t1",
    "10.99.0.1",
    "control",
    "\n",
    "\ud800",
]
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.sampled_from(WORDS),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=4,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all values inside `value`."""
    if not isinstance(value, dict | list):
        return []
    inside = value.items() if isinstance(value, dict) else enumerate(value)
    found = []
    for step, inner in inside:
        found += [(*path, step), *places(inner, (*path, step))]
    return found


@settings(max_examples=400, deadline=None)
@given(data=st.data())
def test_a_mutated_document_is_understood_or_refused(data: st.DataObject) -> None:
    document = copy.deepcopy(DOCUMENT)
    for _ in range(data.draw(st.integers(1, 3))):
        *above, step = data.draw(st.sampled_from(places(document)))
        target = document
        for outer in above:
            target = target[outer]
        change = data.draw(st.sampled_from(["replace", "remove", "rename"]))
        if change == "replace":
            target[step] = data.draw(values)
        elif change == "rename" and isinstance(target, dict):
            target[data.draw(st.text(max_size=5) | st.sampled_from(WORDS))] = target.pop(step)
        else:
            del target[step]
    with contextlib.suppress(InputError):
        intent.from_document(document, "mutated")


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_a_mutated_file_is_understood_or_refused(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    text = LINE3.read_bytes()
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 40)))
    junk = data.draw(
        st.binary(max_size=6) | st.sampled_from([b"&a ", b"*a", b"- ", b"{", b"!!set "])
    )
    file = tmp_path_factory.getbasetemp() / "mutated.yaml"
    file.write_bytes(text[:start] + junk + text[end:])
    with contextlib.suppress(InputError):
        intent.load(file)


@given(values)
def test_anything_else_is_refused(value: Any) -> None:
    with pytest.raises(InputError):
        intent.from_document(value, "anything")
