"""Where the observations of a switch come from in one session: from requests, or what it pushes."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Collection
from datetime import UTC, datetime
from typing import Protocol

from cnc.clocks.offsets import timed
from cnc.data_tree.state import SwitchState
from cnc.data_tree.tree import GatesReport
from cnc.model import NS_PER_S
from cnc.switch.device import StoredSwitch
from cnc.switch.push import Change, Stopped, Update
from cnc.switch.subscription import PushedState, Subscription
from cnc.watch.observation import Poll

LOG = logging.getLogger(__name__)

# How late an update may be before it is asked for; half of the time-out where that is shorter.
PATIENCE_S = 1.0
# Within what time a pushed clock must be known to have been read. Usual: 5 ms for the way of a
# request, 5 ms for that of the update, and 1 ms for each 10 s since the request. A request for all
# state takes 15 ms and more.
CLOCK_READ_MAX_NS = NS_PER_S // 50


class Source(Protocol):
    """What a follower needs of either kind. Its methods raise DeviceError."""

    @property
    def due_s(self) -> float:
        """When to `look` unless `take` gets something before (monotonic)."""

    def look_now(self) -> None:
        """The state may have changed: a look is due."""

    def look(self) -> Poll:
        """Ask the switch for everything."""

    def take(self, pushed: Update | Change) -> Poll | None:
        """The observation in what the switch pushed, if there is one."""

    def after(self, stopped: Stopped) -> Source:
        """The source for the rest of the session once the switch has stopped a subscription."""


def open_source(
    session: Subscription, ports: Collection[str], interval_s: float, timeout_s: float
) -> Source:
    """The better source that a switch offers: it pushes every `interval_s`, or is asked.

    `timeout_s` is that of the session's requests. Raises DeviceError.
    """
    if pushed := session.push_state(ports, interval_s):
        return Pushing(session, ports, pushed, interval_s, timeout_s)
    return Polling(session, ports, interval_s)


class Polling:
    """Asks for everything, every `interval_s`."""

    def __init__(self, session: Subscription, ports: Collection[str], interval_s: float) -> None:
        self._session, self._ports, self._interval_s = session, ports, interval_s
        self.due_s = time.monotonic()

    def look_now(self) -> None:
        """The state may have changed: a look is due."""
        self.due_s = time.monotonic()

    def look(self) -> Poll:
        """Ask the switch for everything."""
        poll = _asked(self._session, self._ports)
        self.due_s = time.monotonic() + self._interval_s
        return poll

    def take(self, _pushed: Update | Change) -> None:
        """Nothing: the switch pushes without a subscription, or sent this before it stopped one."""

    def after(self, _stopped: Stopped) -> Source:
        """The same."""
        return self


class Pushing:
    """Takes the state that the switch pushes every `interval_s`.

    It asks for everything when the configuration has changed, and where an update is late: so a
    switch that does not answer is found when it would be by polling.
    """

    def __init__(
        self,
        session: Subscription,
        ports: Collection[str],
        subscriptions: PushedState,
        interval_s: float,
        timeout_s: float,
    ) -> None:
        self._session, self._ports, self._interval_s = session, ports, interval_s
        self._subscriptions = subscriptions
        self._timeout_s = timeout_s
        self._patience_s = min(PATIENCE_S, timeout_s / 2)
        self._late_s = math.inf
        self._has_changed = True
        self._looked_ns = 0
        self._stored = StoredSwitch({}, None)
        self._clock = SwitchState(None, {}, 0, 0)

    @property
    def due_s(self) -> float:
        """When to `look`: at once after a change, else when an update is late."""
        return 0.0 if self._has_changed else self._late_s

    def look_now(self) -> None:
        """The state may have changed: a look is due."""
        self._has_changed = True

    def look(self) -> Poll:
        """Ask the switch for everything."""
        is_late = time.monotonic() >= self._late_s
        # What was waited for a late update is no longer waited for a reply.
        self._session.wait_at_most(self._timeout_s - (self._patience_s if is_late else 0.0))
        poll = _asked(self._session, self._ports)
        self._session.wait_at_most(self._timeout_s)
        self._stored, self._clock = poll.stored, poll.state
        self._looked_ns, self._has_changed = time.monotonic_ns(), False
        self._expect_update()
        return poll

    def take(self, pushed: Update | Change) -> Poll | None:
        """The observation in an update of the state; after any other a look is due."""
        match pushed:
            case Update() if pushed.id == self._subscriptions.state:
                self._expect_update()
                # What was read before the change would undo what is known of it.
                if not self._has_changed:
                    return self._observed(pushed)
            case Change() if pushed.id == self._subscriptions.configuration:
                self.look_now()
        return None

    def after(self, stopped: Stopped) -> Source:
        """Requests, once a subscription has ended, or changes are no longer told."""
        is_pause = not stopped.is_final and stopped.id == self._subscriptions.state
        subscriptions = {self._subscriptions.state, self._subscriptions.configuration}
        if is_pause or stopped.id not in subscriptions:  # an update that is late is asked for
            return self
        LOG.info("%s: pushes no more: %s", self._session.name, stopped.reason)
        return Polling(self._session, self._ports, self._interval_s)

    def _observed(self, update: Update) -> Poll | None:
        """None: the update is older than the last look, or a look is due."""
        at = datetime.now(UTC)
        pushed, counters = self._session.pushed(update, self._ports)
        state = self._timed(pushed) if update.is_complete else None
        if state is None:
            self.look_now()
        elif state.asked_ns > self._looked_ns:
            return Poll(self._session.name, at, state, self._stored, counters)
        return None

    def _timed(self, pushed: SwitchState) -> SwitchState | None:
        """As `clocks.timed`, after another reading of the clock where that is needed."""
        state = timed(pushed, self._clock)
        if state is None or state.answered_ns - state.asked_ns > CLOCK_READ_MAX_NS:
            with_clock = (
                n
                for n, port in pushed.ports.items()
                if port[GatesReport].current_time_ns is not None
            )
            self._clock = self._session.clock(next(with_clock))
            state = timed(pushed, self._clock)
        return state

    def _expect_update(self) -> None:
        self._late_s = time.monotonic() + self._interval_s + self._patience_s


def _asked(session: Subscription, ports: Collection[str]) -> Poll:
    state = session.state(ports)
    return Poll(
        switch=session.name,
        at=datetime.now(UTC),
        state=state,
        stored=session.stored(ports),
        counters=session.counters(ports),
    )
