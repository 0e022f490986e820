"""A session that also carries the switch's notifications, and pushed data where it pushes them.

One session must not have subscriptions of both RFC 5277 and RFC 8639 (RFC 8640 3). Events are
subscribed to by RFC 8639, which YANG push needs; a server without it gets the request of RFC 5277,
and must have its capability `interleave`: requests and notifications share the session.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from lxml import etree
from ncclient.transport.session import SessionListener

from cnc.data_tree import reply
from cnc.data_tree.counters import PortCounters
from cnc.data_tree.reply import Element
from cnc.data_tree.state import SwitchState
from cnc.switch import filters, push, readback
from cnc.switch.counters import port_counters
from cnc.switch.device import ConnectOptions, Device, DeviceError, ManagedNode, of_ports
from cnc.switch.topology import TopologyReport
from cnc.switch.transport import NOT_CONNECTED

NOTIFICATION = "urn:ietf:params:xml:ns:netconf:notification:1.0"
NETCONF_EVENTS = "urn:ietf:params:xml:ns:yang:ietf-netconf-notifications"  # RFC 6470
INTERLEAVE = "urn:ietf:params:netconf:capability:interleave:1.0"

LOG = logging.getLogger(__name__)
_PARSER = etree.XMLParser(resolve_entities=False, no_network=True)


@dataclass(frozen=True, slots=True)
class Notification:
    """One event, identified by `namespace` and `name`; `leaves` holds its texts by their paths.

    A leaf below a container is named `container/leaf`; of several list entries the last is kept.
    """

    namespace: str
    name: str
    leaves: dict[str, str]


# What a session receives unasked.
Received = Notification | push.Update | push.Change | push.Stopped


@dataclass(frozen=True, slots=True)
class PushedState:
    """The ids of the subscriptions to a switch's state, and to changes of its configuration."""

    state: int
    configuration: int


class Subscription(Device):
    """A session with one switch that receives its notifications.

    `on_received` and `on_end` are called in a thread of the session and must not wait for it.
    `on_received` also gets the number of characters of the message; what it raises ends the
    session. `on_end` gets the reason when the session ends without being closed.
    """

    def __init__(
        self,
        node: ManagedNode,
        options: ConnectOptions,
        *,
        on_received: Callable[[Received, int], None],
        on_end: Callable[[str], None],
    ) -> None:
        """Connect and subscribe to the events. Raises DeviceError."""
        super().__init__(node, options)
        self._transport.add_listener(_Listener(on_received, on_end))
        try:
            # RFC 8639 2.1: every publisher has the stream NETCONF.
            self._events = self._established(push.establish_stream("NETCONF"))
            if self._events is None and self.profile is None:
                self._create_subscription()
        except DeviceError:
            self.close()
            raise

    def _create_subscription(self) -> None:
        """Subscribe to the events by RFC 5277."""
        if INTERLEAVE not in self._session.server_capabilities:
            raise DeviceError(
                self.name,
                f"its NETCONF server sends no notifications between replies: it lacks {INTERLEAVE}",
                hint="use tsn-netconfd or netopeer2",
            )
        with self._request("create-subscription"):
            self._session.create_subscription()

    def _established(self, request: Element) -> int | None:
        """The id of a new subscription; None if the server refuses it."""
        with self._may_be_refused("establish-subscription"):
            return push.subscription_id(self._session.dispatch(request).xml)
        return None

    @contextmanager
    def _may_be_refused(self, what: str) -> Iterator[None]:
        """A request of which a refusal is no error."""
        try:
            with self._request(what):
                yield
        except DeviceError as error:
            if not error.tags:
                raise
            LOG.info("%s: refuses %s: %s", self.name, what, error.reason)

    def push_state(self, ports: Collection[str], period_s: float) -> PushedState | None:
        """Let the switch send the state and counters of these ports every `period_s`, without the
        limits of their gate tables, and tell changes of what `stored` reads.

        None if it does not: it lacks YANG push, or refuses it.
        """
        if self._events is None or self.profile:
            return None
        asked = self._asked(ports)
        watched = filters.watch_filter(asked.ports, talker=asked.talker, bridges=asked.bridges)
        state = self._established(push.establish_periodic("operational", watched, period_s))
        if state is None:
            return None
        stored = self._dialect.configuration(asked)
        configuration = self._established(push.establish_on_change("running", stored))
        if configuration is None:
            with self._may_be_refused("delete-subscription"):
                self._session.dispatch(push.delete(state))
            return None
        return PushedState(state, configuration)

    def refuse_end_of_events(self, stopped: push.Stopped) -> None:
        """Raise DeviceError if it was the subscription to the events that the switch ended."""
        if stopped.id == self._events:
            raise DeviceError(self.name, f"it sends no more events: {stopped.reason}")

    def topology_if_told(self) -> TopologyReport | None:
        """As `topology`; None where the switch refuses it, or tells what cannot be read. Raises
        DeviceError when the session ends meanwhile; of one that has ended, `on_end` gets why."""
        if not self._session.connected:
            return None
        try:
            return self.topology()
        except DeviceError as error:
            if error.reason.endswith(NOT_CONNECTED):  # it ended just before the request
                return None
            if not self._session.connected:
                raise
            LOG.info("%s: its neighbours are unknown: %s", self.name, error.reason)
            return None

    def pushed(
        self, update: push.Update, ports: Collection[str]
    ) -> tuple[SwitchState, dict[str, PortCounters]]:
        """State and counters of these ports in an update, of which only the receipt is timed: the
        state is as if it had been read then. Raises DeviceError."""
        with self._request("push-update"):
            state = SwitchState(
                agent=readback.agent_report(update.contents),
                ports=of_ports(ports, readback.port_reports(update.contents, self._bridges)),
                asked_ns=update.received_ns,
                answered_ns=update.received_ns,
            )
            return state, of_ports(ports, port_counters(update.contents))


class _Listener(SessionListener):  # type: ignore[misc]
    def __init__(
        self, on_received: Callable[[Received, int], None], on_end: Callable[[str], None]
    ) -> None:
        self._on_received = on_received
        self._on_end = on_end

    def callback(self, root: tuple[str, Any], raw: str) -> None:
        tag, _ = root
        if tag == f"{{{NOTIFICATION}}}notification":
            self._on_received(parse(raw), len(raw))

    def errback(self, ex: Exception) -> None:
        # Further lines of the text hold the rest of ncclient's buffers.
        self._on_end((str(ex) or type(ex).__name__).partition("\n")[0])


def parse(message: str) -> Received:
    """The event in a <notification> message that arrives now. Raises ValueError if it has none."""
    received_ns = time.monotonic_ns()
    for child in etree.fromstring(message.encode(), _PARSER).iterchildren("*"):
        name = etree.QName(child)
        if name.namespace != NOTIFICATION:
            if pushed := push.of_subscription(child, received_ns):
                return pushed
            return Notification(name.namespace or "", name.localname, _leaves(child))
    raise ValueError("a notification without an event")


def _leaves(event: Element, path: str = "") -> dict[str, str]:
    leaves: dict[str, str] = {}
    for child in event.iterchildren("*"):
        below = f"{path}{etree.QName(child).localname}"
        if len(child):
            leaves |= _leaves(child, f"{below}/")
        else:
            leaves[below] = _cut((child.text or "").strip())
    return leaves


def _cut(text: str) -> str:
    """The text, or as much of it as a name or description may have."""
    limit = reply.TEXT_MAX_CHARACTERS
    return text if len(text) <= limit else f"{text[:limit]}…"
