"""What is fuzzed: the functions that see a client's bytes first, and a whole server over SSH.

A target takes one input as bytes and raises `Failure`, or whatever escaped from the code.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from hypothesis import strategies as st
from lxml import etree

from agent.netconfd.errors import RpcError
from agent.netconfd.session import filters, messages
from agent.netconfd.session.framing import (
    END_OF_CHUNKS,
    END_OF_MESSAGE,
    Decoder,
    FramingError,
    encode,
)
from tests.fuzz import functions, rpcs
from tests.fuzz.configurations import configurations
from tests.fuzz.server import Failure, FuzzedServer

_LIMIT_OCTETS = 4096
_MODULES = {"urn:ietf:params:xml:ns:yang:ietf-interfaces": "ietf-interfaces"}
_PIECES = (
    b"\n#",
    b"\n##\n",
    b"\n#1\n",
    b"\n#5\nhello",
    b"\n#4294967295\n",
    b"]]>]]>",
    b"]]>",
    b"\n",
)
_HELLO = (
    b'<hello xmlns="%s"><capabilities><capability>urn:ietf:params:netconf:base:%s</capability>'
    b"</capabilities></hello>]]>]]>"
)
_HELLOS = tuple(_HELLO % (rpcs.BASE.encode(), version) for version in (b"1.0", b"1.1", b"9"))


@dataclass(frozen=True)
class Target:
    """`share` is its part of all inputs, in thousandths."""

    name: str
    share: int
    inputs: st.SearchStrategy[bytes]
    attempt: Callable[[bytes], None]


def targets(server: FuzzedServer) -> Mapping[str, Target]:
    """All of them, by name; the last five need the server."""
    framed = st.lists(st.sampled_from(_PIECES) | st.binary(max_size=12), max_size=8).map(b"".join)
    streams = st.builds(_stream, st.sampled_from(_HELLOS) | rpcs.messages, framed)
    every = (
        Target("framing", 300, framed, framing),
        Target("parsing", 250, rpcs.messages, parsing),
        Target("operation", 250, rpcs.messages, server.ask),
        Target("function", 20, functions.nested_requests, server.ask_as_each),
        Target("edit", 150, configurations(server.roots()).map(str.encode), server.edit),
        Target("stream", 28, streams, server.stream),
        Target("ssh", 2, st.binary(max_size=200), server.garbage),
    )
    return {target.name: target for target in every}


def _stream(hello: bytes, rest: bytes) -> bytes:
    return hello + rest


def framing(stream: bytes) -> None:
    """Any split of a stream gives the same messages, and what was decoded encodes again."""
    for chunked in (False, True):
        whole = _decoded([stream], chunked=chunked)
        for size in (1, 3):
            pieces = [stream[at : at + size] for at in range(0, len(stream), size)]
            if _decoded(pieces, chunked=chunked) != whole:
                raise Failure(f"pieces of {size} octets decode to something else")
        messages_, _ = whole
        again = b"".join(encode(message, chunked=chunked) for message in messages_)
        if _decoded([again], chunked=chunked) != (messages_, False):
            raise Failure("what was decoded does not survive encoding")


def _decoded(pieces: Iterable[bytes], *, chunked: bool) -> tuple[list[bytes], bool]:
    """The messages, and whether the stream was refused after them."""
    decoder = Decoder(_LIMIT_OCTETS)
    if chunked:
        decoder.use_chunks()
    found = []
    try:
        for piece in pieces:
            decoder.feed(piece)
            while (message := decoder.next_message()) is not None:
                found.append(message)
    except FramingError:
        return found, True
    return found, False


def parsing(message: bytes) -> None:
    """A message is taken apart, or refused with an error of the protocol."""
    if END_OF_MESSAGE in message or END_OF_CHUNKS in message:
        return
    with contextlib.suppress(messages.NotAHello):
        messages.client_capabilities(message)
    try:
        root = messages.parse(message)
        operation = messages.parse_rpc(root)
        for child in operation:
            if etree.QName(child).localname.endswith("filter"):
                filters.to_xpath(child, _MODULES)
    except RpcError as error:
        messages.reply([error], {}, {})
    else:
        messages.reply([], *messages.reply_attributes(root))
