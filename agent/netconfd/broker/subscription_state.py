"""The state of subscriptions: /streams and /subscriptions of RFC 8639, in sysrepo's operational
datastore.

Of a client's text nothing is in it, such as the filter: sysrepo would parse it here.
"""

from __future__ import annotations

import json
from contextlib import ExitStack
from typing import Any

from agent.netconfd import date_and_time
from agent.netconfd.broker.events.log import Stream
from agent.netconfd.broker.subscriptions import Subscription, Subscriptions, Terms
from agent.netconfd.capabilities import STREAM
from agent.netconfd.subscription_errors import PUSH_MODULE, SUBSCRIBED_MODULE
from agent.sysrepo import SysrepoConnection
from agent.sysrepo.operational import provide


class SubscriptionState:
    """Published until `close`. Raises SysrepoError if the module is not installed."""

    def __init__(
        self, connection: SysrepoConnection, subscriptions: Subscriptions, stream: Stream
    ) -> None:
        self._subscriptions = subscriptions
        self._stream = stream
        self._stack = ExitStack()
        session = self._stack.enter_context(connection.start_session("operational"))
        for name, answer in (("streams", self._streams), ("subscriptions", self._read)):
            path = f"/{SUBSCRIBED_MODULE}:{name}"
            self._stack.enter_context(
                provide(session, SUBSCRIBED_MODULE, path, answer, merge=False)
            )

    def close(self) -> None:
        """Stop publishing. Blocks until no read is in progress."""
        self._stack.close()

    # sysrepo's threads call these while the event loop goes on.

    def _streams(self, _xpath: str | None) -> str:
        stream = {
            "name": STREAM,
            "description": "All notifications of all modules of this switch",
            "replay-support": [None],
            "replay-log-creation-time": date_and_time.written(self._stream.created_ns()),
        }
        return json.dumps({f"{SUBSCRIBED_MODULE}:streams": {"stream": [stream]}})

    def _read(self, _xpath: str | None) -> str:
        subscriptions = [_subscription(each) for each in self._subscriptions.all()]
        if not subscriptions:
            return ""
        return json.dumps({f"{SUBSCRIBED_MODULE}:subscriptions": {"subscription": subscriptions}})


def _subscription(subscription: Subscription) -> dict[str, Any]:
    terms = subscription.terms
    stop = {} if terms.stop_ns is None else {"stop-time": date_and_time.written(terms.stop_ns)}
    receiver = {
        "name": str(subscription.session),
        "sent-event-records": str(subscription.records),
        "state": "active",
    }
    return {
        "id": subscription.number,
        **_target(terms),
        **stop,
        "encoding": "encode-xml",
        "receivers": {"receiver": [receiver]},
    }


def _target(terms: Terms) -> dict[str, Any]:
    if terms.datastore is None:
        start_ns = terms.start_ns
        replay = {} if start_ns is None else {"replay-start-time": date_and_time.written(start_ns)}
        return {"stream": STREAM, **replay}
    target: dict[str, Any] = {f"{PUSH_MODULE}:datastore": f"ietf-datastores:{terms.datastore}"}
    if terms.period_cs is None:
        target[f"{PUSH_MODULE}:on-change"] = {
            "dampening-period": terms.dampening_cs,
            "sync-on-start": terms.sync_on_start,
            "excluded-change": list(terms.excluded),
        }
        return target
    anchor_ns = terms.anchor_ns
    anchor = {} if anchor_ns is None else {"anchor-time": date_and_time.written(anchor_ns)}
    target[f"{PUSH_MODULE}:periodic"] = {"period": terms.period_cs, **anchor}
    return target
