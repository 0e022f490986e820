"""What the switches of the running plan do now: `cnc watch`, inside of the service.

It follows the plan, which in a large network takes a while: once rollouts have been quiet for some
seconds. Until then it judges all but whether switches run the plan, and before the first time
nothing is known, which is said.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from cnc.errors import CncError
from cnc.model import Plan
from cnc.rollout import History
from cnc.service.claiming import Claiming
from cnc.service.refused import CallRefused, Code
from cnc.service.roller import Push, Rolled
from cnc.switch import ConnectOptions
from cnc.watch import Watcher
from cnc.watch.condition import Event, What
from cnc.watch.observation import Poll
from cnc.watch.observer import Snapshot

LOG = logging.getLogger(__name__)

_QUIET_S = 5.0
_INTERVAL_S = 10.0  # switches that cannot push their state are asked this often
_END_S = 10.0
_NOTICES_MAX = 200


class Watching:
    """The watch of the plan that runs. `make` makes what watches a plan and tells of events."""

    def __init__(self, make: Callable[[Plan, Callable[[Event], None]], Watcher]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._beginning = threading.Lock()  # to follow a plan takes seconds, of a large network
        self._waiting: threading.Timer | None = None
        self._watcher: Watcher | None = None
        self._runs: Plan | None = None
        self._followed: Plan | None = None
        self._held = 0
        self._thread: threading.Thread | None = None
        self._has_closed = False
        self._claiming: Claiming | None = None
        self._notices: deque[Event] = deque(maxlen=_NOTICES_MAX)

    def runs(self, plan: Plan) -> None:
        """The switches run another plan: it is the one to watch unless another follows within some
        seconds."""
        with self._lock:
            self._runs = plan
            self._wait(plan)

    def around(self, push: Push, claiming: Claiming) -> Push:
        """A push that the watch knows of: what switches run meanwhile is not held against them.
        What it meets from now on is for `claiming`."""
        self._claiming = claiming
        push = claiming.around(push)

        def pushed(plan: Plan) -> Rolled:
            with self._lock:
                self._stop_waiting()
                if self._watcher:
                    self._held = self._watcher.hold()
            try:
                return push(plan)
            except BaseException:
                with self._lock:
                    if self._runs is not None:  # and still is what they run
                        self._wait(self._runs)
                raise

        return pushed

    def snapshot(self) -> Snapshot:
        """What is known now. Raises CallRefused (UNAVAILABLE) where nothing is watched."""
        with self._lock:
            watcher = self._watcher
        if watcher is None:
            raise CallRefused(
                Code.UNAVAILABLE,
                "the switches are not watched yet: the service has started a moment ago, or its "
                "first rollout is in progress",
                hint="ask again in some seconds",
                details={"retry_after_s": round(_QUIET_S)},
            )
        return watcher.snapshot()

    def snapshot_if_known(self) -> Snapshot | None:
        """None where nothing is watched."""
        watcher = self._watcher
        return watcher.snapshot() if watcher else None

    def notices(self) -> list[Event]:
        """The last momentary events, the newest first."""
        return list(reversed(self._notices))

    def _tell(self, event: Event) -> None:
        if event.what is What.NOTED:
            self._notices.append(event)
        _log(event)

    def close(self) -> None:
        with self._lock:
            self._has_closed = True
            self._end()
            thread = self._thread
        if thread:
            thread.join(_END_S)

    def _end(self) -> None:
        self._stop_waiting()
        if self._watcher:
            self._watcher.stop()
        self._watcher = None

    def _wait(self, plan: Plan) -> None:
        """Begin to watch a plan in some seconds, unless a push or another plan comes before."""
        self._stop_waiting()
        if not self._has_closed:
            self._waiting = threading.Timer(_QUIET_S, self._begin, [plan])
            self._waiting.daemon = True
            self._waiting.start()

    def _stop_waiting(self) -> None:
        """One that has begun already finds out by itself."""
        if self._waiting:
            self._waiting.cancel()
        self._waiting = None

    def _begin(self, plan: Plan) -> None:
        mine = threading.current_thread()
        with self._beginning:
            with self._lock:
                if self._waiting is not mine:
                    return
                watcher, held = self._watcher, self._held
            if watcher is None:
                watcher = self._make(plan, self._tell)
                self._start(watcher, plan, mine)
            elif plan is self._followed:
                watcher.release(held)
            else:
                watcher.follow(plan, held)
                self._followed = plan

    def _start(self, watcher: Watcher, plan: Plan, mine: threading.Thread) -> None:
        with self._lock:
            if self._waiting is not mine:
                return
            self._watcher, self._followed = watcher, plan
            self._thread = threading.Thread(target=self._run, args=[watcher], daemon=True)
            self._thread.start()

    def _run(self, watcher: Watcher) -> None:
        try:
            watcher.run(on_poll=self._met)
        except (CncError, RuntimeError) as error:
            LOG.warning("the watch of the switches has ended: %s", error)
        with self._lock:
            if self._watcher is watcher:
                self._watcher = None

    def _met(self, poll: Poll) -> None:
        if claiming := self._claiming:
            claiming.met(poll.switch, poll.state.agent)


def watching(connect: ConnectOptions, history: History) -> Watching:
    """The watch of a network, whose rollouts are in this history."""

    def make(plan: Plan, tell: Callable[[Event], None]) -> Watcher:
        return Watcher(plan, connect=connect, history=history, interval_s=_INTERVAL_S, tell=tell)

    return Watching(make)


def clocks(now: Snapshot, clock_error_ns: int) -> dict[str, Any]:
    """How far the clocks of the switches are apart, as far as their readings tell."""
    return {
        "clock_error_ns": clock_error_ns,
        "clocks": [
            {
                "node": name,
                "reference": its.reference,
                "estimate_ns": its.estimate_ns,
                "certain_ns": its.certain_ns,
            }
            for name, its in sorted(now.clocks.items())
        ],
    }


def metrics(snapshot: Callable[[], Snapshot]) -> str:
    """The metrics of `cnc watch` as Prometheus reads them."""
    from prometheus_client import CollectorRegistry, generate_latest  # noqa: PLC0415

    from cnc.watch.metrics import Network  # noqa: PLC0415

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Network(snapshot))
    return generate_latest(registry).decode()


def _log(event: Event) -> None:
    where = f"{event.switch}/{event.port}" if event.port else event.switch or "network"
    LOG.warning("%s: %s %s: %s", where, event.kind, event.what, "; ".join(event.text.splitlines()))
