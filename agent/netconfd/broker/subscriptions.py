"""The numbered subscriptions of all sessions (RFC 8639): who has which, and who is told what.

What a subscription selects is known to its session process alone. Here it has a number, by which
that process reads a datastore, and it is told when one has changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from agent.netconfd.broker.sessions import Session
from agent.netconfd.capabilities import DATASTORES, WATCHED
from agent.netconfd.errors import RpcError
from agent.netconfd.subscription_errors import (
    INSUFFICIENT_RESOURCES,
    NO_SUCH_SUBSCRIPTION,
    no_such_subscription,
    subscription_error,
)
from agent.netconfd.wire import Fields, ProtocolError
from agent.sysrepo.differences import OPERATIONS as CHANGES

# After a change of the rules of access control: how long until they are in force for sure. Which of
# sysrepo's threads hears first of a change is not determined.
RULES_IN_FORCE_S = 1.0
_RULES = "/ietf-netconf-acm:"


@dataclass(frozen=True)
class Terms:
    """What is shown of a subscription: times in ns since 1970, periods in cs.

    Without a datastore it is to the stream of notifications, from `start_ns` on; to a datastore, it
    is periodic if it has a period, else on change.
    """

    datastore: str | None = None
    stop_ns: int | None = None
    start_ns: int | None = None
    period_cs: int | None = None
    anchor_ns: int | None = None
    dampening_cs: int = 0
    sync_on_start: bool = False
    excluded: Sequence[str] = ()

    @classmethod
    def of_stream(cls, fields: Fields) -> Terms:
        """From a call for the stream. Raises ProtocolError."""
        return cls(
            stop_ns=fields.optional_time_ns("stop_ns"), start_ns=fields.optional_time_ns("start_ns")
        )

    @classmethod
    def of_datastore(cls, fields: Fields) -> Terms:
        """From a call for a datastore. Raises ProtocolError."""
        period_cs = fields.optional_number("period_cs")
        among = WATCHED if period_cs is None else (*DATASTORES, "operational")
        return cls(
            datastore=fields.choice("datastore", among),
            stop_ns=fields.optional_time_ns("stop_ns"),
            period_cs=period_cs,
            anchor_ns=fields.optional_time_ns("anchor_ns"),
            dampening_cs=fields.optional_number("dampening_cs") or 0,
            sync_on_start=fields.flag("sync_on_start"),
            excluded=fields.choices("excluded", CHANGES),
        )


@dataclass(eq=False)
class Subscription:
    """One subscription; `records` is the number of notifications that were sent for it.

    `on_modify` is called with its new terms, `on_end` when it ends.
    """

    number: int
    session: Session
    terms: Terms
    records: int = 0
    on_modify: Callable[[Terms], object] = lambda _: None
    on_end: Callable[[], object] = lambda: None


class News:
    """What one session process is to be told. It grows with no number of changes."""

    def __init__(self) -> None:
        self._changed: set[str] = set()
        self._ended: dict[int, str] = {}
        self._any = asyncio.Event()

    def changed(self, datastore: str) -> None:
        """This datastore has changed."""
        self._changed.add(datastore)
        self._any.set()

    def ended(self, number: int, reason: str) -> None:
        """This subscription has been ended by another session; the reason is an identity."""
        self._ended[number] = reason
        self._any.set()

    async def take(self) -> tuple[set[str], dict[int, str]]:
        """Wait for some; returns the datastores and the subscriptions with their reasons."""
        await self._any.wait()
        self._any.clear()
        taken = self._changed, self._ended
        self._changed, self._ended = set(), {}
        return taken


@dataclass
class Subscriptions:
    """All of them. Used in the event loop; `all` from any thread."""

    max_per_session: Callable[[], int]
    _open: dict[int, Subscription] = field(default_factory=dict)
    _news: dict[Session, News] = field(default_factory=dict)
    _last_number: int = 0

    def establish(self, session: Session, terms: Terms) -> int:
        """Returns the number; numbers are not used twice. Raises RpcError."""
        most = self.max_per_session()
        if sum(each.session is session for each in self._open.values()) >= most:
            raise subscription_error(
                INSUFFICIENT_RESOURCES,
                f"this session has {most} subscriptions, the limit max-subscriptions-per-session",
            )
        self._last_number += 1
        self._open[self._last_number] = Subscription(self._last_number, session, terms)
        return self._last_number

    def modify(self, session: Session, number: int, terms: Terms) -> None:
        """Let one have other terms; a stream is not replayed again. Raises RpcError or
        ProtocolError."""
        subscription = self.of(session, number)
        if subscription.terms.datastore != terms.datastore:
            raise ProtocolError("a subscription keeps its datastore")
        subscription.terms = terms
        subscription.on_modify(terms)

    def of(self, session: Session, number: int) -> Subscription:
        """The one of this session with this number. Raises RpcError."""
        subscription = self._open.get(number)
        if subscription is None or subscription.session is not session:
            raise no_such_subscription(number)
        return subscription

    def end(self, session: Session, number: int) -> None:
        """End one of this session, if there is one."""
        subscription = self._open.get(number)
        if subscription is not None and subscription.session is session:
            del self._open[number]
            subscription.on_end()

    def kill(self, number: int) -> None:
        """End one of any session, which is told. Raises RpcError."""
        subscription = self._open.pop(number, None)
        if subscription is None:
            raise RpcError(
                "invalid-value",
                f"<id> is {number}, expected that of a subscription",
                app_tag=NO_SUCH_SUBSCRIPTION,
            )
        subscription.on_end()
        self.news(subscription.session).ended(number, NO_SUCH_SUBSCRIPTION)

    def session_ended(self, session: Session) -> None:
        """End those of a session."""
        for subscription in self.all():
            self.end(session, subscription.number)
        self._news.pop(session, None)

    def news(self, session: Session) -> News:
        """What is to be told to this session."""
        return self._news.setdefault(session, News())

    def config_changed(self, datastore: str, paths: Sequence[str]) -> None:
        """The nodes with these paths have changed."""
        self._tell({datastore})
        if any(path.startswith(_RULES) for path in paths):
            # What may be read of either has.
            asyncio.get_running_loop().call_later(RULES_IN_FORCE_S, self._tell, WATCHED)

    def all(self) -> list[Subscription]:
        """Those that are open."""
        return list(self._open.values())

    def _tell(self, datastores: Collection[str]) -> None:
        for subscription in self.all():
            terms = subscription.terms
            if terms.period_cs is None and terms.datastore and terms.datastore in datastores:
                self.news(subscription.session).changed(terms.datastore)
