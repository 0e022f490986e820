"""A session that also carries the switch's notifications (RFC 5277).

Requests and notifications share the session, which RFC 5277 allows where the switch has the
capability `interleave`; tsn-netconfd and netopeer2 have it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from lxml import etree
from ncclient.transport.session import SessionListener

from cnc.model import Bridge
from cnc.switch import reply
from cnc.switch.counters import PortCounters, counter_filter, port_counters
from cnc.switch.device import ConnectOptions, Device, DeviceError
from cnc.switch.reply import Element

NOTIFICATION = "urn:ietf:params:xml:ns:netconf:notification:1.0"
NETCONF_EVENTS = "urn:ietf:params:xml:ns:yang:ietf-netconf-notifications"  # RFC 6470
INTERLEAVE = "urn:ietf:params:netconf:capability:interleave:1.0"


_PARSER = etree.XMLParser(resolve_entities=False, no_network=True)


@dataclass(frozen=True, slots=True)
class Notification:
    """One event, identified by `namespace` and `name`; `leaves` holds its texts by their paths.

    A leaf below a container is named `container/leaf`; of several list entries the last is kept.
    """

    namespace: str
    name: str
    leaves: dict[str, str]


class Subscription(Device):
    """A session with one switch that receives its notifications.

    `on_notification` and `on_end` are called in a thread of the session and must not wait for it;
    `on_end` gets the reason when the session ends without being closed.
    """

    def __init__(
        self,
        bridge: Bridge,
        options: ConnectOptions,
        *,
        on_notification: Callable[[Notification], None],
        on_end: Callable[[str], None],
    ) -> None:
        """Connect and subscribe. Raises DeviceError."""
        super().__init__(bridge, options)
        try:
            if INTERLEAVE not in self._session.server_capabilities:
                raise DeviceError(
                    self.name,
                    "its NETCONF server sends no notifications between replies: it lacks "
                    f"{INTERLEAVE}",
                    hint="use tsn-netconfd or netopeer2",
                )
            self._transport.add_listener(_Listener(on_notification, on_end))
            with self._request("create-subscription"):
                self._session.create_subscription()
        except DeviceError:
            self.close()
            raise

    def counters(self, ports: Collection[str]) -> dict[str, PortCounters]:
        """The counters of these ports."""
        with self._request("get"):
            counters = port_counters(self._operational(counter_filter(ports)))
        return {port: counters[port] for port in ports if port in counters}


class _Listener(SessionListener):  # type: ignore[misc]
    def __init__(
        self, on_notification: Callable[[Notification], None], on_end: Callable[[str], None]
    ) -> None:
        self._on_notification = on_notification
        self._on_end = on_end

    def callback(self, root: tuple[str, Any], raw: str) -> None:
        tag, _ = root
        if tag == f"{{{NOTIFICATION}}}notification":
            self._on_notification(parse(raw))

    def errback(self, ex: Exception) -> None:
        # Further lines of the text hold the rest of ncclient's buffers.
        self._on_end((str(ex) or type(ex).__name__).partition("\n")[0])


def parse(message: str) -> Notification:
    """The event in a <notification> message. Raises ValueError if it has none."""
    for child in etree.fromstring(message.encode(), _PARSER).iterchildren("*"):
        name = etree.QName(child)
        if name.namespace != NOTIFICATION:
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
