"""Subscriptions of RFC 8639 and YANG push (RFC 8641) over NETCONF (RFC 8640): requests to establish
them, and the notifications that belong to one subscription."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lxml import etree
from lxml.builder import ElementMaker

from cnc.data_tree import reply
from cnc.data_tree.reply import Element
from cnc.data_tree.tree import DATASTORES

SUBSCRIBED = "urn:ietf:params:xml:ns:yang:ietf-subscribed-notifications"
YANG_PUSH = "urn:ietf:params:xml:ns:yang:ietf-yang-push"

_CENTISECONDS_PER_S = 100
_CENTISECONDS_MAX = 2**32 - 1  # RFC 8641: a period is a uint32
_SN = ElementMaker(namespace=SUBSCRIBED, nsmap={None: SUBSCRIBED})
_YP = ElementMaker(namespace=YANG_PUSH, nsmap={None: YANG_PUSH, "ds": DATASTORES})
_NAMESPACES = {"sn": SUBSCRIBED, "yp": YANG_PUSH}
_PUSH_UPDATE = etree.QName(YANG_PUSH, "push-update")
_CHANGE_UPDATE = etree.QName(YANG_PUSH, "push-change-update")
_TERMINATED = etree.QName(SUBSCRIBED, "subscription-terminated")
_SUSPENDED = etree.QName(SUBSCRIBED, "subscription-suspended")
_PARSER = etree.XMLParser(resolve_entities=False, no_network=True)


@dataclass(frozen=True, slots=True)
class Update:
    """The selected data of a datastore (push-update), received at `received_ns` (monotonic).

    Without `is_complete` the switch left out nodes that it could not read.
    """

    id: int
    contents: Element
    is_complete: bool
    received_ns: int


@dataclass(frozen=True, slots=True)
class Change:
    """The selected data of a datastore have changed (push-change-update)."""

    id: int


@dataclass(frozen=True, slots=True)
class Stopped:
    """The switch sends no more (subscription-terminated), or not for some time (-suspended)."""

    id: int
    reason: str
    is_final: bool


def establish_stream(stream: str) -> Element:
    """Request to subscribe to all events of a stream (RFC 8639 2.4.2)."""
    return _SN("establish-subscription", _SN("stream", stream))


def establish_periodic(datastore: str, filters: Iterable[Element], period_s: float) -> Element:
    """Request to subscribe to what a subtree filter selects of a datastore, every `period_s`."""
    period_cs = min(max(1, round(period_s * _CENTISECONDS_PER_S)), _CENTISECONDS_MAX)
    return _establish(datastore, filters, _YP("periodic", _YP("period", str(period_cs))))


def establish_on_change(datastore: str, filters: Iterable[Element]) -> Element:
    """Request to subscribe to the changes of what a subtree filter selects, from now on."""
    return _establish(datastore, filters, _YP("on-change", _YP("sync-on-start", "false")))


def _establish(datastore: str, filters: Iterable[Element], trigger: Element) -> Element:
    return _SN(
        "establish-subscription",
        _YP("datastore", f"ds:{datastore}"),
        _YP("datastore-subtree-filter", *filters),
        trigger,
    )


def delete(number: int) -> Element:
    """Request to end a subscription of this session (RFC 8639 2.4.4)."""
    return _SN("delete-subscription", _SN("id", str(number)))


def subscription_id(message: str) -> int:
    """The id in the reply to such a request. Raises ValueError if it has none."""
    return _id(etree.fromstring(message.encode(), _PARSER), "sn:id")


def of_subscription(event: Element, received_ns: int) -> Update | Change | Stopped | None:
    """The event, if it belongs to one subscription. Raises ValueError if it names none."""
    match event.tag:
        case _PUSH_UPDATE.text:
            contents = event.find("yp:datastore-contents", _NAMESPACES)
            return Update(
                id=_id(event, "yp:id"),
                # It is left out where nothing is selected.
                contents=_YP("datastore-contents") if contents is None else contents,
                is_complete=event.find("yp:incomplete-update", _NAMESPACES) is None,
                received_ns=received_ns,
            )
        case _CHANGE_UPDATE.text:
            return Change(_id(event, "yp:id"))
        case _TERMINATED.text | _SUSPENDED.text:
            reason = reply.text(event, "sn:reason", _NAMESPACES) or "it gives no reason"
            # An identity has its module's prefix.
            is_final = event.tag == _TERMINATED.text
            return Stopped(_id(event, "sn:id"), reason.rpartition(":")[2], is_final)
    return None


def _id(parent: Element, path: str) -> int:
    text = reply.text(parent, path, _NAMESPACES)
    if text is None:
        raise ValueError(f"no id of a subscription in {etree.QName(parent).localname}")
    return reply.number(text, "id")
