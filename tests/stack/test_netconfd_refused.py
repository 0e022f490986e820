"""Requests that must be refused, each with the exact reply: `data/netconf-refused/`.

`NAME.xml` is what a client sends, `NAME.reply.xml` all that the server answers.
"""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from lxml import etree

from agent.netconfd.session.framing import Decoder, encode
from tests.stack.front_end import REPLY_TIMEOUT_S
from tests.stack.netconfd_process import running_netconfd

CASES = Path(__file__).parent / "data" / "netconf-refused"
HELLO = (
    b'<hello xmlns="urn:ietf:params:xml:ns:netconf:base:1.0"><capabilities>'
    b"<capability>urn:ietf:params:netconf:base:1.1</capability></capabilities></hello>"
)
GOOD = (
    b'<rpc xmlns="urn:ietf:params:xml:ns:netconf:base:1.0" message-id="good">'
    b"<discard-changes/></rpc>"
)
# What keeps these requests from being forgiven: one interface, and nothing pending.
SETUP = (CASES / "setup.xml", CASES / "setup-commit.xml")


class RawClient:
    """Sends octets nobody checked and gives back the replies as they come."""

    def __init__(self, reader, writer):
        self._reader = reader
        self._writer = writer
        self._decoder = Decoder(1_000_000)

    async def receive(self):
        while (message := self._decoder.next_message()) is None:
            data = await self._reader.read(65536)
            assert data, "the server ended the session"
            self._decoder.feed(data)
        return message

    async def greet(self):
        await self.receive()
        self._writer.write(encode(HELLO, chunked=False))
        self._decoder.use_chunks()

    async def ask(self, request):
        self._writer.write(encode(request, chunked=True))
        return await self.receive()


async def replies_to_all(server, requests):
    """The reply to each request, after each of which a good request must still succeed."""
    connection, reader, writer = await server.connect_raw()
    async with asyncio.timeout(REPLY_TIMEOUT_S), connection:
        client = RawClient(reader, writer)
        await client.greet()
        for path in SETUP:
            assert b"<ok/>" in await client.ask(path.read_bytes())
        replies = {}
        for request in requests:
            replies[request.stem] = pretty(await client.ask(request.read_bytes()))
            assert b"<ok/>" in await client.ask(GOOD), request.stem
        return replies


def pretty(reply):
    """Indented, and without the words of libxml2, which differ from version to version."""
    tree = etree.fromstring(reply, etree.XMLParser(remove_blank_text=True))
    for message in tree.iter("{*}error-message"):
        message.text = re.sub("(not well-formed XML): .*", r"\1", message.text)
    return etree.tostring(tree, pretty_print=True, encoding="unicode")


def test_every_bad_request_gets_exactly_its_reply_and_harms_no_later_one(
    sysrepo_repository, tmp_path
):
    requests = [
        path
        for path in sorted(CASES.glob("*.xml"))
        if not path.name.endswith(".reply.xml") and path not in SETUP
    ]
    expected = {
        path.stem: path.with_suffix(".reply.xml").read_text(encoding="utf-8") for path in requests
    }
    assert len(expected) >= 15
    with running_netconfd(tmp_path / "netconfd") as server:
        assert asyncio.run(replies_to_all(server, requests)) == expected
