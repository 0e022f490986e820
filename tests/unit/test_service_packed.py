"""Documents that are longer than a message to the core, and what a worker may make of that."""

from __future__ import annotations

import base64
import gzip
import os

import pytest

from cnc.service.packed import DOCUMENT_MAX_OCTETS, packed, unpacked
from cnc.service.refused import CallRefused, Code


def test_a_document_comes_out_as_it_was() -> None:
    text = "streams: {ü: 1}\n" * 200_000
    assert unpacked(packed(text)) == text
    assert len(packed(text)) < len(text) / 10


def test_a_document_that_unpacks_to_more_than_any_has_is_refused_at_that_point() -> None:
    bomb = base64.b64encode(gzip.compress(b" " * (DOCUMENT_MAX_OCTETS + 1)) * 50).decode()
    with pytest.raises(CallRefused, match=f"{DOCUMENT_MAX_OCTETS:,} octets at most") as refusal:
        unpacked(bomb)
    assert refusal.value.code is Code.TOO_LARGE


@pytest.mark.parametrize(
    "octets", [b"", b"no gzip", gzip.compress(b"cut", mtime=0)[:-4], b"\x1f\x8b\x08"]
)
def test_what_is_not_packed_is_refused(octets: bytes) -> None:
    with pytest.raises(CallRefused) as refusal:
        unpacked(base64.b64encode(octets).decode() + ("" if octets else "?"))
    assert refusal.value.code is Code.INVALID


def test_what_no_message_has_room_for_is_refused_with_the_limit() -> None:
    with pytest.raises(CallRefused, match="750,000 at most") as refusal:
        packed(os.urandom(1_000_000).hex())
    assert refusal.value.code is Code.TOO_LARGE
