"""What the broker has been told when a client learns that its session is closed."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

from agent.netconfd.session import netconf_session
from agent.netconfd.session.framing import END_OF_MESSAGE
from agent.netconfd.session.netconf_session import NetconfSession
from agent.netconfd.session_report import Counters
from tests.unit.netconf_limits import limits

BASE = "urn:ietf:params:xml:ns:netconf:base:1.0"
HELLO = (
    f'<hello xmlns="{BASE}"><capabilities><capability>urn:ietf:params:netconf:base:1.0'
    "</capability></capabilities></hello>"
).encode()
CLOSE = f'<rpc xmlns="{BASE}" message-id="1"><close-session/></rpc>'.encode()


class Client:
    """Sends its hello and its only request at once; notes what the broker knows at the reply."""

    is_gone = False

    def __init__(self, broker):
        self.broker = broker
        self.known_at_reply = None
        self._sent = HELLO + END_OF_MESSAGE + CLOSE + END_OF_MESSAGE

    async def read(self):
        sent, self._sent = self._sent, b""
        return sent

    async def write(self, data):
        if b"rpc-reply" in data:
            self.known_at_reply = list(self.broker.endings)


class Broker:
    """Remembers how it was told that the session ends."""

    def __init__(self):
        self.counters = Counters()
        self.events = asyncio.Queue()
        self.endings = []

    def tell(self, _name, **_parameters):
        pass

    def tell_ending(self, ending):
        self.endings.append(ending.reason)


async def close(request):
    request.session.is_closing = True
    return []


def test_a_client_that_leaves_with_the_reply_to_its_close_has_closed_the_session(monkeypatch):
    """The front kills the process of a client that has left, whatever it was about to tell."""
    monkeypatch.setattr(netconf_session, "function_of", lambda _operation, _model: close)
    monkeypatch.setattr(
        NetconfSession, "_request", lambda self, _operation: SimpleNamespace(session=self._session)
    )

    async def run():
        broker = Broker()
        client = Client(broker)
        session = NetconfSession(
            1, client, broker, None, limits=limits(), begin_request=lambda: None
        )
        ending = await session.run([])
        return ending.reason, client.known_at_reply

    assert asyncio.run(run()) == ("closed", ["closed"])
