"""How the controller cuts messages out of what it receives: any split of the same octets is one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ncclient.transport.errors import NetconfFramingError

from cnc.switch.framing import Decoder

sizes = st.lists(st.integers(min_value=1, max_value=9), min_size=1)
# As XML has them: white space around a message is nobody's.
messages = st.lists(st.text("abü€]#>", min_size=1, max_size=30), max_size=4)


def pieces(octets, of):
    """The octets in pieces of these sizes, over and over."""
    found, position = [], 0
    while position < len(octets):
        size = of[len(found) % len(of)]
        found.append(octets[position : position + size])
        position += size
    return found


def decoded(stream, split, *, chunked):
    decoder = Decoder()
    found = []
    for piece in pieces(stream, split):
        decoder.feed(piece)
        while (message := decoder.next_message(chunked=chunked)) is not None:
            found.append(message)
    return found


@given(sent=messages, chunks=sizes, split=sizes)
def test_chunked_messages_survive_any_chunking_and_any_split(sent, chunks, split):
    stream = b"".join(
        b"".join(b"\n#%d\n%b" % (len(each), each) for each in pieces(message.encode(), chunks))
        + b"\n##\n"
        for message in sent
    )
    assert decoded(stream, split, chunked=True) == sent


@given(sent=messages, split=sizes)
def test_terminated_messages_survive_any_split(sent, split):
    kept = [message.replace("]", "x") for message in sent]
    stream = b"".join(message.encode() + b"]]>]]>" for message in kept)
    assert decoded(stream, split, chunked=False) == kept


@pytest.mark.parametrize(
    "stream",
    [b"<x/>", b"\n#0\n", b"\n#x\n", b"\n#01\n", b"\n#12345678901\n", b"\n###\n", b"\n#" * 9],
)
def test_what_is_no_chunk_is_refused(stream):
    with pytest.raises(NetconfFramingError, match="expected the start of a chunk, found "):
        decoded(stream, [1], chunked=True)
