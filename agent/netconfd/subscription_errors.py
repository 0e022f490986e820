"""Errors and reasons of subscriptions: the identities of RFC 8639 and RFC 8641.

How an identity becomes an <rpc-error>: RFC 8640, section 7, and RFC 8641, section 3.4.
"""

from __future__ import annotations

from collections.abc import Mapping

from agent.netconfd.errors import Details, RpcError

SUBSCRIBED = "urn:ietf:params:xml:ns:yang:ietf-subscribed-notifications"
YANG_PUSH = "urn:ietf:params:xml:ns:yang:ietf-yang-push"
SUBSCRIBED_MODULE = "ietf-subscribed-notifications"
PUSH_MODULE = "ietf-yang-push"

ENCODING_UNSUPPORTED = f"{SUBSCRIBED_MODULE}:encoding-unsupported"
FILTER_UNAVAILABLE = f"{SUBSCRIBED_MODULE}:filter-unavailable"
FILTER_UNSUPPORTED = f"{SUBSCRIBED_MODULE}:filter-unsupported"
INSUFFICIENT_RESOURCES = f"{SUBSCRIBED_MODULE}:insufficient-resources"
NO_SUCH_SUBSCRIPTION = f"{SUBSCRIBED_MODULE}:no-such-subscription"
UNSUPPORTABLE_VOLUME = f"{SUBSCRIBED_MODULE}:unsupportable-volume"
DATASTORE_NOT_SUBSCRIBABLE = f"{PUSH_MODULE}:datastore-not-subscribable"
NO_SUCH_SUBSCRIPTION_RESYNC = f"{PUSH_MODULE}:no-such-subscription-resync"
ON_CHANGE_UNSUPPORTED = f"{PUSH_MODULE}:on-change-unsupported"
PERIOD_UNSUPPORTED = f"{PUSH_MODULE}:period-unsupported"

_TAGS: Mapping[str, str] = {
    ENCODING_UNSUPPORTED: "invalid-value",
    FILTER_UNSUPPORTED: "invalid-value",
    INSUFFICIENT_RESOURCES: "resource-denied",
    NO_SUCH_SUBSCRIPTION: "invalid-value",
    DATASTORE_NOT_SUBSCRIBABLE: "invalid-value",
    NO_SUCH_SUBSCRIPTION_RESYNC: "invalid-value",
    ON_CHANGE_UNSUPPORTED: "operation-not-supported",
    PERIOD_UNSUPPORTED: "invalid-value",
}


def namespace_of(identity: str) -> tuple[str, str]:
    """The module of an identity above, and its namespace."""
    module = identity.partition(":")[0]
    return module, YANG_PUSH if module == PUSH_MODULE else SUBSCRIBED


def subscription_error(identity: str, message: str, *, details: Details | None = None) -> RpcError:
    """The <rpc-error> with this identity as its error-app-tag."""
    return RpcError(_TAGS[identity], message, app_tag=identity, details=details)


def datastore_error(
    operation: str, identity: str, message: str, hints: Mapping[str, str]
) -> RpcError:
    """The error of an establish- or modify-subscription, with hints (RFC 8641, section 5)."""
    module, namespace = namespace_of(identity)
    details = Details(
        YANG_PUSH,
        f"{operation}-datastore-error-info",
        {"reason": identity, **hints},
        {module: namespace},
    )
    return subscription_error(identity, message, details=details)


def no_such_subscription(number: int) -> RpcError:
    """The session that asks has no subscription of this id."""
    return subscription_error(
        NO_SUCH_SUBSCRIPTION, f"<id> is {number}, expected that of a subscription of this session"
    )
