"""NETCONF framing: any split of the same bytes gives the same messages, and garbage one error."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.netconfd.session.framing import END_OF_MESSAGE, Decoder, FramingError, encode

LIMIT_OCTETS = 1000

messages = st.lists(st.binary(min_size=1, max_size=60), max_size=5)
cuts = st.lists(st.integers(min_value=1, max_value=9), min_size=1)


def decode(stream, piece_octets, *, chunked):
    """Every message of the stream, fed in pieces of these sizes over and over."""
    decoder = Decoder(LIMIT_OCTETS)
    if chunked:
        decoder.use_chunks()
    found = []
    position, turn = 0, 0
    while position < len(stream):
        size = piece_octets[turn % len(piece_octets)]
        decoder.feed(stream[position : position + size])
        position, turn = position + size, turn + 1
        while (message := decoder.next_message()) is not None:
            found.append(message)
    return found


def in_chunks(message, sizes):
    """The message cut into chunks of these sizes over and over."""
    stream, position, turn = b"", 0, 0
    while position < len(message):
        chunk = message[position : position + sizes[turn % len(sizes)]]
        stream += b"\n#%d\n%b" % (len(chunk), chunk)
        position, turn = position + len(chunk), turn + 1
    return stream + b"\n##\n"


@given(sent=messages, cut=cuts, sizes=cuts)
def test_chunked_messages_survive_any_chunking_and_any_split(sent, cut, sizes):
    stream = b"".join(in_chunks(message, sizes) for message in sent)
    assert decode(stream, cut, chunked=True) == sent


@given(sent=messages.map(lambda sent: [each.replace(b"]", b"x") for each in sent]), cut=cuts)
def test_terminated_messages_survive_any_split(sent, cut):
    stream = b"".join(encode(message, chunked=False) for message in sent)
    assert decode(stream, cut, chunked=False) == sent


@given(sent=messages)
def test_what_is_encoded_in_chunks_is_decoded_again(sent):
    stream = b"".join(encode(message, chunked=True) for message in sent)
    assert decode(stream, [len(stream) or 1], chunked=True) == sent


@given(stream=st.binary(max_size=200), cut=cuts, chunked=st.booleans())
def test_garbage_gives_messages_or_the_one_defined_error(stream, cut, chunked):
    with contextlib.suppress(FramingError):
        decode(stream, cut, chunked=chunked)


@given(
    stream=st.lists(
        st.sampled_from([b"\n", b"#", b"##", b"0", b"1", b"3", b"9" * 9, b"x", b"\n##\n"])
    ).map(b"".join),
    cut=cuts,
)
def test_a_split_never_changes_the_verdict_on_almost_valid_chunks(stream, cut):
    def verdict(pieces):
        try:
            return decode(stream, pieces, chunked=True)
        except FramingError:
            return "refused"

    assert verdict(cut) == verdict([1])


@pytest.mark.parametrize(
    "stream",
    [
        b"hello",
        b"\n#0\n",
        b"\n#01\nx",
        b"\n#-1\n",
        b"\n#+1\nx",
        b"\n#\n",
        b"\n#4294967296\n",
        b"\n#12345678901234567890",
        b"\n##\n",
        b"\n#1\nx\r\n##\n",
        b"\n#1001\n",
        b"\n#600\n" + b"x" * 600 + b"\n#600\n",
    ],
)
def test_a_bad_chunk_is_refused(stream):
    with pytest.raises(FramingError):
        decode(stream, [len(stream)], chunked=True)


def test_a_message_that_never_ends_is_refused_at_the_limit():
    decoder = Decoder(LIMIT_OCTETS)
    decoder.feed(b"x" * LIMIT_OCTETS)
    assert decoder.next_message() is None
    decoder.feed(b"x" * len(END_OF_MESSAGE))
    with pytest.raises(FramingError, match="longer than 1000 octets"):
        decoder.next_message()


def test_framing_changes_right_behind_the_hello_even_in_the_same_piece():
    decoder = Decoder(LIMIT_OCTETS)
    decoder.feed(b"<hello/>" + END_OF_MESSAGE + encode(b"<rpc/>", chunked=True))
    assert decoder.next_message() == b"<hello/>"
    decoder.use_chunks()
    assert decoder.next_message() == b"<rpc/>"
    assert decoder.next_message() is None
