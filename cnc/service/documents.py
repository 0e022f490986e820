"""The documents of `--json`, as answers: what the commands print of a network."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from cnc.errors import CncError
from cnc.model import Plan
from cnc.plans import file as planfile
from cnc.rollout import History, Phase, status
from cnc.service import intent_put
from cnc.service.aside import Aside
from cnc.service.calls import DocumentGet, IntentPut, Rollback
from cnc.service.live import counters, live, notice
from cnc.service.refused import CallRefused, Code
from cnc.service.store import Store
from cnc.service.watching import Watching, clocks, metrics
from cnc.support import gc_pause
from cnc.switch import ConnectOptions

_ROWS = 1000  # of a log, in one document
_STATUS_KEPT_S = 2.0  # switches are asked no more often than so, whoever asks


class Documents:
    """The documents of a network. From any thread; switches are asked by one at a time."""

    def __init__(
        self,
        store: Store,
        history: History,
        connect: ConnectOptions,
        watching: Watching,
        directory: Path,
    ) -> None:
        """`directory`: where the service has its state."""
        self._store, self._history, self._connect = store, history, connect
        self._watching = watching
        self.aside = Aside(directory)
        self._asking = threading.Lock()
        self._status: tuple[float, Any] | None = None
        self._makes: Mapping[str, Callable[[DocumentGet, Plan], Any]] = {
            "topology": lambda _, plan: topology(plan),
            "plan": lambda _, plan: _plain(planfile.document(plan)),
            "streams": self._streams,
            "rollouts": self._rollouts,
            "diff": self._diff,
            "status": self._status_now,
            "clocks": lambda _, plan: clocks(
                watching.snapshot(), plan.intent.network.clock_error_ns
            ),
            "metrics": lambda _its, _plan: {"text": metrics(watching.snapshot)},
            "live": self._live,
            "counters": self._counters,
            "events": lambda its, _: {"events": store.events(its.after or 0, limit=_ROWS)},
            "audit": lambda its, _: {"audit": store.audit(its.after or 0, limit=_ROWS)},
        }

    @gc_pause.paused()
    def get(self, asked: DocumentGet, plan: Plan) -> Any:
        """The document, of the plan that is decided. Raises CallRefused."""
        try:
            return self._makes[asked.name](asked, plan)
        except CncError as error:
            if isinstance(error, CallRefused):
                raise
            raise CallRefused(Code.UNAVAILABLE, str(error), hint=error.hint) from error

    def former_intent(self, asked: Rollback) -> IntentPut:
        """The intent to which a rollback puts the network. Raises CncError."""
        return intent_put.former(asked, self._store, self._history)

    def _streams(self, _: DocumentGet, plan: Plan) -> Any:
        """What talkers have to know (`cnc talkers --json`), and whose each stream is."""
        from cnc.model.transmissions import transmissions  # noqa: PLC0415

        owners = {its.name: its for its in self._store.streams()}
        return {
            "transmissions": _plain([*transmissions(plan)]),
            "streams": [
                {
                    "name": name,
                    "cuc": its.cuc if (its := owners.get(name)) else None,
                    "stream_id": its.stream_id if its else None,
                    "state": str(its.state) if its else None,
                    "latency_bound_ns": planned.latency_bound_ns,
                }
                for name, planned in plan.streams.items()
            ],
        }

    def _rollouts(self, asked: DocumentGet, plan: Plan) -> Any:
        from cnc.json_output.history import Rollout  # noqa: PLC0415

        if asked.number is not None:
            return _plain(Rollout.model_validate(self._history.rollout(asked.number)))
        found = self._history.rollouts(plan.intent.name, limit=_ROWS // 10)
        return [_plain(Rollout.model_validate(each)) for each in found]

    def _diff(self, asked: DocumentGet, plan: Plan) -> Any:
        """What differs from the plan of a rollout, by default the last one, to the decided one."""
        from cnc.json_output.comparison import Difference  # noqa: PLC0415
        from cnc.plans.difference import difference  # noqa: PLC0415

        if asked.number is None:
            former = self._history.running_plan(plan.intent.name)
        else:
            former = self._history.plan_of(asked.number)
        if former is None:
            raise CallRefused(Code.ABSENT, "there is no rollout with a plan to compare with")
        return _plain(Difference.model_validate(difference(former, plan)))

    def _live(self, _: DocumentGet, plan: Plan) -> Any:
        """What the page shows of the switches now, and whether it is up to date."""
        newest = self._history.rollouts(plan.intent.name, phase=Phase.DONE, limit=1)
        return {
            **live(self._watching.snapshot_if_known(), plan),
            "notices": [notice(each) for each in self._watching.notices()],
            "decided": int(self._store.noted("decided") or 0),
            "newest_event": self._store.newest_event(),
            "waiting": self._store.waiting(),
            "rollout": newest[0].number if newest else None,
        }

    def _counters(self, asked: DocumentGet, plan: Plan) -> Any:
        if asked.stream is None or asked.stream not in plan.streams:
            raise CallRefused(Code.ABSENT, f"no stream {asked.stream} has a place in the plan")
        its = self._store.stream_named(asked.stream)
        owner = (
            {
                "cuc": its.cuc,
                "stream_id": its.stream_id,
                "state": str(its.state),
                "rollout": its.rollout,
                "reason": its.reason,
            }
            if its
            else None
        )
        return {"owner": owner, **counters(self._watching.snapshot(), plan, asked.stream)}

    def _status_now(self, _: DocumentGet, plan: Plan) -> Any:
        from cnc.json_output.switches import PortState  # noqa: PLC0415

        with self._asking:
            kept = self._status
            if kept is None or time.monotonic() - kept[0] > _STATUS_KEPT_S:
                ports = status(plan, connect=self._connect)
                found = [_plain(PortState.model_validate(each)) for each in ports]
                self._status = kept = time.monotonic(), found
        return kept[1]


def topology(plan: Plan) -> dict[str, Any]:
    """The network as the intent file describes it: everything but its streams."""
    return {k: its for k, its in plan.intent.document.items() if k != "streams"}


def _plain(document: object) -> Any:
    """A document as plain data, as `--json` prints it."""
    from cnc.json_output.document import dump_json  # noqa: PLC0415

    return json.loads(dump_json(document, indent=None))
