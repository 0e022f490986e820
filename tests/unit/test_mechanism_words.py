"""What mechanisms are told by: nothing that one says hides what another says."""

from __future__ import annotations

from collections.abc import Iterable

from cnc.mechanisms.registry import FOLLOWED, MEASURED, MECHANISMS, WATCHED
from cnc.watch.condition import Kind, Note


def twice(names: Iterable[str]) -> set[str]:
    found = [*names]
    return {each for each in found if found.count(each) > 1}


def test_no_two_mechanisms_have_a_key_of_a_document_in_common() -> None:
    assert twice(each.shown.key for each in MECHANISMS) == set()
    assert twice(each.shown.hop_key for each in MECHANISMS) == set()
    assert twice(each.key for each in WATCHED) == set()


def test_no_two_conditions_have_one_name() -> None:
    of_mechanisms = [kind for each in WATCHED for kind in each.kinds]
    of_mechanisms += [each.kind for each in (*MEASURED, *FOLLOWED) if each.kind]
    assert twice([*Kind, *Note, *of_mechanisms]) == set()
